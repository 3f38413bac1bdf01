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

// TestCluster_SurvivesKilledNATSServers kills each of three NATS servers that keep one stream of three
// replicas, with kill -9, while messages cross from one bus to another and the rows of the log
// are copied: no message is lost or doubled without a word, the buses find each other again,
// and the stream has every row once. It takes a minute: only where HUBBUB_NATS_KILLS says how
// many rounds, as `make test-partition` does.
func TestCluster_SurvivesKilledNATSServers(t *testing.T) {
	rounds := 0
	if fmt.Sscan(os.Getenv("HUBBUB_NATS_KILLS"), &rounds); rounds == 0 { //nolint:errcheck // 0 then
		t.Skip("runs by make test-partition")
	}
	dir := t.TempDir()
	var addresses, routes []string
	for range 3 {
		addresses, routes = append(addresses, bustest.FreeAddress(t)), append(routes, bustest.FreeAddress(t))
	}
	running := make([]*exec.Cmd, 3)
	start := func(i int) {
		file := filepath.Join(dir, fmt.Sprint("nats", i))
		config := fmt.Sprintf("server_name: n%d\nlisten: %q\njetstream { store_dir: %q }\ncluster { name: c, listen: %q, routes: [nats://%s, nats://%s] }\n",
			i, addresses[i], file+".store", routes[i], routes[(i+1)%3], routes[(i+2)%3])
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		running[i] = exec.Command(os.Args[0])
		running[i].Env = append(os.Environ(), asNATS+"="+file)
		if err := running[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	kill := func(i int) {
		running[i].Process.Kill() //nolint:errcheck // it may have ended
		running[i].Wait()         //nolint:errcheck // it was killed
	}
	var urls []string
	for i := range 3 {
		start(i)
		defer func() { kill(i) }()
		urls = append(urls, "nats://"+addresses[i])
	}

	log := zerolog.New(zerolog.NewTestWriter(t))
	stream := cluster.NewActivityStream(urls, "AUDIT", "a", &cluster.Options{Log: &log})
	var rows int64
	var commit []activitylog.Row
	committed := time.Now()
	streaming, stop := context.WithCancel(t.Context())
	streamed := make(chan error, 1)
	go func() { streamed <- stream.Run(streaming) }()
	a := joinBy(t, cluster.New(urls, "a", nil), "a", &bus.Options{})
	b := joinBy(t, cluster.New(urls, "b", nil), "b", nil)
	far := b.Join(t, "agent:far", "agent:far")
	sender := a.Join(t, "cli:s")
	settle(t, a, b)

	var mu sync.Mutex
	seen := map[protocol.MessageID]int{}
	far.Refuse(func(d *bustest.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		seen[d.Message.MessageID]++
		return nil
	})
	outcome := map[protocol.MessageID]protocol.SendResult{}
	send := func() {
		m := protocol.NewMessage(protocol.TypeAgentEvent, "cli:s", protocol.AgentOnline{})
		r, err := sender.Peer.Send(t.Context(), "agent:far", m)
		if err != nil {
			t.Fatal(err)
		}
		for outcome[m.MessageID] = r; far.Pending() > 0; {
			far.Next(t)
		}
		commit = append(commit, activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.SendStart, MessageID: string(m.MessageID), Actor: "cli:s", Payload: []byte(`{}`)})
		if time.Since(committed) > 100*time.Millisecond {
			stream.Enqueue(rows+1, commit)
			rows, commit, committed = rows+int64(len(commit)), nil, time.Now()
		}
	}
	for range rounds {
		for i := range 3 {
			kill(i)
			for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
				send()
			}
			start(i)
			waitFor(t, "the buses do not find each other again", func() bool { send(); return agree([]*node{a, b}) })
		}
	}
	settle(t, a, b)
	if send(); len(outcome) == 0 {
		t.Fatal("nothing was sent")
	}

	delivered, failed := 0, 0
	for id, r := range outcome {
		mu.Lock()
		n := seen[id]
		mu.Unlock()
		switch {
		case n > 1:
			t.Errorf("%s was delivered %d times", id, n)
		case r.DeliveredTo == 1 && n == 0:
			t.Errorf("%s is called delivered, and was not", id)
		case r.DeliveredTo == 0 && n == 1 && !(len(r.Failures) == 1 && r.Failures[0].Written):
			t.Errorf("%s was delivered, and its sender told %+v", id, r)
		case r.DeliveredTo == 0 && len(r.Failures) == 0 && !r.Partial:
			t.Errorf("%s was neither delivered nor is its peer named: %+v", id, r)
		}
		if delivered += r.DeliveredTo; r.DeliveredTo == 0 {
			failed++
		}
	}
	nc, err := nats.Connect(strings.Join(urls, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	var kept jetstream.Stream
	waitFor(t, "the stream has not all rows", func() bool {
		kept, err = js.Stream(t.Context(), "AUDIT")
		return err == nil && kept.CachedInfo().State.Msgs >= uint64(rows)
	})
	stop()
	if err := <-streamed; err != nil {
		t.Error(err)
	}
	if n := kept.CachedInfo().Config.Replicas; n != 3 {
		t.Errorf("the stream has %d replicas", n)
	}
	copies := map[int64]int{}
	for seq := range kept.CachedInfo().State.Msgs {
		m, err := kept.GetMsg(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		var row struct {
			ID    int64  `json:"id"`
			Event string `json:"event"`
		}
		if err := json.Unmarshal(m.Data, &row); err != nil || row.Event != "send_start" {
			t.Errorf("row %s: %v", m.Data, err)
		}
		copies[row.ID]++
	}
	for id := range rows {
		if copies[id+1] != 1 {
			t.Errorf("row %d is there %d times", id+1, copies[id+1])
		}
	}
	t.Logf("%d messages: %d delivered, %d failures told; %d rows copied", len(outcome), delivered, failed, rows)
}
