package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/cluster"
	"hubbub/protocol"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// asNATS names the configuration file with which this program is a NATS server, so that a
// test can kill it.
const asNATS = "HUBBUB_TEST_NATS"

func TestMain(m *testing.M) {
	file := os.Getenv(asNATS)
	if file == "" {
		os.Exit(m.Run())
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(o)
	if err != nil {
		panic(err)
	}
	s.Start()
	s.WaitForShutdown()
}

// A killableNATS is a cluster of three NATS servers, each a process of its own.
type killableNATS struct {
	t                 *testing.T
	dir               string
	addresses, routes []string
	running           []*exec.Cmd
}

// startKillableNATS starts the servers and kills them at the end of the test.
func startKillableNATS(t *testing.T) *killableNATS {
	k := &killableNATS{t: t, dir: t.TempDir(), running: make([]*exec.Cmd, 3)}
	for range 3 {
		k.addresses, k.routes = append(k.addresses, bustest.FreeAddress(t)), append(k.routes, bustest.FreeAddress(t))
	}
	for i := range 3 {
		k.start(i)
		t.Cleanup(func() { k.kill(i) })
	}
	return k
}

func (k *killableNATS) start(i int) {
	file := filepath.Join(k.dir, fmt.Sprint("nats", i))
	config := fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q }\ncluster { name: c, listen: %q, routes: [nats://%s, nats://%s] }\n",
		i, k.addresses[i], file+".store", k.routes[i], k.routes[(i+1)%3], k.routes[(i+2)%3])
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		k.t.Fatal(err)
	}
	k.running[i] = exec.Command(os.Args[0])
	k.running[i].Env = append(os.Environ(), asNATS+"="+file)
	if err := k.running[i].Start(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *killableNATS) kill(i int) {
	k.running[i].Process.Kill() //nolint:errcheck // it may have ended
	k.running[i].Wait()         //nolint:errcheck // it was killed
}

func (k *killableNATS) urls() (list []string) {
	for _, a := range k.addresses {
		list = append(list, "nats://"+a)
	}
	return list
}

// A crossTraffic sends messages from one bus to a peer of another, and copies a row for each
// to a stream.
type crossTraffic struct {
	t        *testing.T
	sender   *bustest.Scripted
	receiver *bustest.Scripted
	results  map[protocol.MessageID]protocol.SendResult

	stream    *cluster.ActivityStream
	rows      int64 // in the stream
	commit    []activitylog.Row
	committed time.Time

	mu         sync.Mutex
	deliveries map[protocol.MessageID]int
}

// countDeliveries counts each delivery to the receiver from now on.
func (c *crossTraffic) countDeliveries() {
	c.receiver.Refuse(func(d *bustest.Delivery) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.deliveries[d.Message.MessageID]++
		return nil
	})
}

func (c *crossTraffic) send() {
	m := protocol.NewMessage(protocol.TypeAgentEvent, "cli:s", protocol.AgentOnline{})
	r, err := c.sender.Peer.Send(c.t.Context(), "agent:far", m)
	if err != nil {
		c.t.Fatal(err)
	}
	for c.results[m.MessageID] = r; c.receiver.Pending() > 0; {
		c.receiver.Next(c.t)
	}
	c.commit = append(c.commit, activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.SendStart, MessageID: string(m.MessageID), Actor: "cli:s", Payload: []byte(`{}`)})
	if time.Since(c.committed) > 100*time.Millisecond {
		c.stream.Enqueue(c.rows+1, c.commit)
		c.rows, c.commit, c.committed = c.rows+int64(len(c.commit)), nil, time.Now()
	}
}

// checkDeliveries checks that every result says what became of its message.
func (c *crossTraffic) checkDeliveries() {
	delivered, failed := 0, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range c.results {
		n := c.deliveries[id]
		switch {
		case n > 1:
			c.t.Errorf("%s was delivered %d times", id, n)
		case r.DeliveredTo == 1 && n == 0:
			c.t.Errorf("%s was not delivered, but its result says so", id)
		case r.DeliveredTo == 0 && n == 1 && !(len(r.Failures) == 1 && r.Failures[0].Written):
			c.t.Errorf("%s was delivered, but its result is %+v", id, r)
		case r.DeliveredTo == 0 && len(r.Failures) == 0 && !r.Partial:
			c.t.Errorf("%s was not delivered, and its result names no peer: %+v", id, r)
		}
		if delivered += r.DeliveredTo; r.DeliveredTo == 0 {
			failed++
		}
	}
	c.t.Logf("%d messages: %d delivered, %d failures reported; %d rows copied", len(c.results), delivered, failed, c.rows)
}

// checkRows checks that the stream has three replicas, and each row once. It stops the copying
// as soon as the stream has all rows.
func (c *crossTraffic) checkRows(url string, stop func()) {
	nc, err := nats.Connect(url)
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	var kept jetstream.Stream
	waitFor(c.t, "the stream does not have all rows", func() bool {
		kept, err = js.Stream(c.t.Context(), "AUDIT")
		return err == nil && kept.CachedInfo().State.Msgs >= uint64(c.rows)
	})
	stop()
	if n := kept.CachedInfo().Config.Replicas; n != 3 {
		c.t.Errorf("the stream has %d replicas", n)
	}
	copies := map[int64]int{}
	for seq := range kept.CachedInfo().State.Msgs {
		m, err := kept.GetMsg(c.t.Context(), seq+1)
		if err != nil {
			c.t.Fatal(err)
		}
		var row struct {
			ID    int64  `json:"id"`
			Event string `json:"event"`
		}
		if err := json.Unmarshal(m.Data, &row); err != nil || row.Event != "send_start" {
			c.t.Errorf("row %s: %v", m.Data, err)
		}
		copies[row.ID]++
	}
	for id := range c.rows {
		if copies[id+1] != 1 {
			c.t.Errorf("the stream has row %d %d times", id+1, copies[id+1])
		}
	}
}

// TestCluster_SurvivesKilledNATSServers kills each of three NATS servers in turn while messages
// cross from one bus to another and the rows of the log are copied to a stream of three
// replicas. Every message is delivered once or reported, the buses find each other again, and
// the stream has every row once. The test takes a minute, so it only runs if HUBBUB_NATS_KILLS
// says how many rounds, as `make test-partition` does.
func TestCluster_SurvivesKilledNATSServers(t *testing.T) {
	rounds := 0
	if fmt.Sscan(os.Getenv("HUBBUB_NATS_KILLS"), &rounds); rounds == 0 { //nolint:errcheck // 0 then
		t.Skip("runs by make test-partition")
	}
	servers := startKillableNATS(t)
	urls := servers.urls()
	log := zerolog.New(zerolog.NewTestWriter(t))
	stream := cluster.NewActivityStream(urls, "AUDIT", "a", &cluster.Options{Log: &log})
	streaming, cancel := context.WithCancel(t.Context())
	streamed := make(chan error, 1)
	go func() { streamed <- stream.Run(streaming) }()
	a := joinBy(t, cluster.New(urls, "a", nil), "a", &bus.Options{})
	b := joinBy(t, cluster.New(urls, "b", nil), "b", nil)
	traffic := &crossTraffic{
		t: t, receiver: b.Join(t, "agent:far", "agent:far"), sender: a.Join(t, "cli:s"),
		results: map[protocol.MessageID]protocol.SendResult{}, deliveries: map[protocol.MessageID]int{},
		stream: stream, committed: time.Now(),
	}
	settle(t, a, b)
	traffic.countDeliveries()

	for range rounds {
		for i := range 3 {
			servers.kill(i)
			for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
				traffic.send()
			}
			servers.start(i)
			waitFor(t, "the buses do not find each other again", func() bool { traffic.send(); return agree([]*node{a, b}) })
		}
	}
	settle(t, a, b)
	traffic.send()

	traffic.checkDeliveries()
	traffic.checkRows(strings.Join(urls, ","), func() {
		cancel()
		if err := <-streamed; err != nil {
			t.Error(err)
		}
	})
}
