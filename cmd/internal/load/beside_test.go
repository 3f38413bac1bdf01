package load

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/write"
	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/protocol/retry"
)

// asServer makes this test binary a server, so that a benchmark can tell what
// the server uses from what the driver uses.
const asServer = "LOAD_TEST_SERVER"

// natsAddress is where nats-server listens.
const natsAddress = "LOAD_TEST_NATS"

func TestMain(m *testing.M) {
	kind := os.Getenv(asServer)
	if kind == "" {
		os.Exit(m.Run())
	}
	scheme := "ws"
	if kind == "tcp" {
		scheme = "tcp"
	}
	if kind == "crowd" {
		if err := serveCrowd(context.Background(), os.Getenv("LOAD_TEST_CROWD"), Bus{URL: os.Getenv("LOAD_TEST_BUS")}); err != nil {
			fmt.Fprintln(os.Stderr, "the crowd:", err)
			os.Exit(1)
		}
		return
	}
	err := ServeChild(context.Background(), os.Stdin, os.Stdout, scheme, func(ctx context.Context, l net.Listener) error {
		return serveAs(ctx, kind, l, os.Getenv("LOAD_TEST_FOLDER"))
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, kind, err)
		os.Exit(1)
	}
}

func serveAs(ctx context.Context, kind string, l net.Listener, folder string) error {
	switch kind {
	case "echo":
		return ServeEcho(ctx, l)
	case "tcp":
		return ServeTCP(ctx, l)
	case "naive":
		return serveNaive(ctx, l, filepath.Join(folder, "activity.db"))
	case "nats":
		return serveNATS(ctx, os.Getenv(natsAddress), "", 0)
	case "jetstream":
		return serveNATS(ctx, os.Getenv(natsAddress), folder, 0)
	case "jetstream-synced":
		return serveNATS(ctx, os.Getenv(natsAddress), folder, 250*time.Millisecond)
	case "hubbub-nolog":
		return bus.New(nil, nil).Serve(ctx, l)
	case "hubbub":
		log := write.NewWriter(filepath.Join(folder, "activity.db"), nil)
		logCtx, endLog := context.WithCancel(context.WithoutCancel(ctx))
		logged := make(chan error, 1)
		go func() { logged <- log.Run(logCtx) }()
		err := bus.New(log, nil).Serve(ctx, l)
		endLog()
		<-logged
		return err
	default:
		return fmt.Errorf("there is no server %q", kind)
	}
}

// startServer runs a server as a process of its own until the test ends.
func startServer(t testing.TB, kind string) Server {
	t.Helper()
	return serverIn(t, kind, t.TempDir())
}

func serverIn(t testing.TB, kind, folder string) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	nats := bustest.FreeAddress(t) // nats-server takes no listener
	cmd.Env = append(os.Environ(), asServer+"="+kind, "LOAD_TEST_FOLDER="+folder, natsAddress+"="+nats)
	child, err := StartChild(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := child.Stop(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	})
	switch kind {
	case "echo":
		return EchoFloor{child}
	case "tcp":
		return TCPFloor{child}
	case "nats", "jetstream", "jetstream-synced":
		return natsServer{child, "ws://" + nats}
	case "naive":
		return naiveServer{child}
	default:
		return Bus{URL: child.Address, HTTP: "http" + child.Address[len("ws"):]}
	}
}

// A naiveServer is a process that runs serveNaive.
type naiveServer struct{ *Child }

func (s naiveServer) rig(ctx context.Context, w Workload, run int64) (*rig, error) {
	return Bus{URL: s.Address}.rig(ctx, w, run)
}

// fourPairs is the workload that systems are compared by.
func fourPairs(messages int) Workload {
	return Workload{Name: "4 pairs, depth 64", Senders: 4, Depth: 64, Messages: messages, Targets: 1, Size: 100}
}

// scaled returns n times SCALE, which the environment sets to change the numbers of messages and
// rows.
func scaled(b *testing.B, n int) int {
	text := os.Getenv("SCALE")
	if text == "" {
		return n
	}
	scale, err := strconv.ParseFloat(text, 64)
	if err != nil {
		b.Fatal(err)
	}
	return int(float64(n) * scale)
}

// BenchmarkBeside runs workloads through other systems and through the bus, each in a process of
// its own and one after another: the naive bus of this package; nats-server over WebSocket with
// request and reply; and the same with a copy of every message in a JetStream stream on disk,
// synced every two minutes, its default, or every 250 ms, as our log promises. The figures are
// those of the run with the median rate.
func BenchmarkBeside(b *testing.B) {
	others := []string{"jetstream", "jetstream-synced", "nats", "hubbub", "hubbub-nolog"}
	for _, one := range []struct {
		Workload
		kinds []string
	}{
		{Workload{Name: "unicast, depth 1", Senders: 1, Depth: 1, Messages: 20_000, Targets: 1}, others},
		{Workload{Name: "unicast, depth 64", Senders: 1, Depth: 64, Messages: 100_000, Targets: 1}, others},
		{fourPairs(100_000), append([]string{"naive"}, others...)},
		{Workload{Name: "8 pairs, depth 64", Senders: 8, Depth: 64, Messages: 200_000, Targets: 1}, others},
		{Workload{Name: "fan-out to 1,000", Senders: 1, Depth: 1, Messages: 150, Targets: 1000}, others},
		{Workload{Name: "fan-out to 1,000, depth 8", Senders: 1, Depth: 8, Messages: 150, Targets: 1000}, others},
		{Workload{Name: "beside 10,000 patterns", Senders: 1, Depth: 64, Messages: 100_000, Targets: 1, Subscriptions: 10_000}, others},
	} {
		w := one.Workload
		w.Size, w.Messages = 100, max(scaled(b, w.Messages), w.Senders*w.Depth)
		b.Run(w.Name, func(b *testing.B) { inTurn(b, w, one.kinds) })
	}
}

// inTurn measures a workload three times through each server, in turn.
func inTurn(b *testing.B, w Workload, kinds []string) {
	servers, rigs := make([]Server, len(kinds)), make([]*rig, len(kinds))
	runs := make([][]Measurement, len(kinds))
	for i, kind := range kinds {
		servers[i] = startServer(b, kind)
		r, err := servers[i].rig(b.Context(), w, 1)
		if err != nil {
			b.Fatal(err)
		}
		defer r.close()
		rigs[i] = r
	}
	for range 3 {
		for i, s := range servers {
			m, err := w.measure(b.Context(), s, rigs[i])
			if err != nil {
				b.Fatal(kinds[i], err)
			}
			runs[i] = append(runs[i], m)
		}
	}
	for i, kind := range kinds {
		slices.SortFunc(runs[i], func(a, b Measurement) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
		b.Run(kind, func(b *testing.B) { runs[i][1].report(b) })
	}
}

func (m Measurement) report(b *testing.B) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(m.PerSecond, "messages/s")
	b.ReportMetric(m.CPU*10, "server-µs/message")
	b.ReportMetric(m.P50.Seconds()*1e3, "p50-ms")
	b.ReportMetric(m.P99.Seconds()*1e3, "p99-ms")
	b.ReportMetric(float64(m.RSS)/(1<<20), "server-MiB")
}

// BenchmarkGrowth runs 4 pairs beside the bus with logs of 0, 1 and 20 million rows, in
// turn. The writer itself makes those logs, with random ids; in LOAD_TEST_LOGS they stay.
func BenchmarkGrowth(b *testing.B) {
	rows := []int{0, 1_000_000, 20_500_000}
	w := fourPairs(max(scaled(b, 100_000), 4*64))
	servers, rigs := make([]Server, len(rows)), make([]*rig, len(rows))
	runs := make([][]Measurement, len(rows))
	for i, n := range rows {
		folder := b.TempDir()
		if at := os.Getenv("LOAD_TEST_LOGS"); at != "" {
			folder = filepath.Join(at, strconv.Itoa(n))
		}
		if err := grow(b.Context(), folder, scaled(b, n)); err != nil {
			b.Fatal(err)
		}
		servers[i] = serverIn(b, "hubbub", folder)
		r, err := servers[i].rig(b.Context(), w, 1)
		if err != nil {
			b.Fatal(err)
		}
		defer r.close()
		rigs[i] = r
	}
	for range 3 {
		for i, s := range servers {
			m, err := w.measure(b.Context(), s, rigs[i])
			if err != nil {
				b.Fatal(err)
			}
			runs[i] = append(runs[i], m)
		}
	}
	for i, n := range rows {
		slices.SortFunc(runs[i], func(a, b Measurement) int { return cmp.Compare(a.PerSecond, b.PerSecond) })
		b.Run(strconv.Itoa(n/1_000_000), func(b *testing.B) { runs[i][1].report(b) })
	}
}

// grow writes the given number of rows into a log, as a bus would over a week, unless it is
// there.
func grow(ctx context.Context, folder string, rows int) error {
	path := filepath.Join(folder, "activity.db")
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil || rows == 0 {
		return err
	}
	log := write.NewWriter(path, &write.Options{Bus: "bus-1"})
	ctx, end := context.WithCancel(ctx)
	defer end()
	logged := make(chan error, 1)
	go func() { logged <- log.Run(ctx) }()
	m := newMessage("", "", 0)
	messages := rows / 4
	at := time.Now().Add(-7 * 24 * time.Hour).UnixMicro()
	step := (7*24*time.Hour - time.Hour).Microseconds() / int64(messages)
	for i := range messages {
		log.Append(grown(m, i, at+int64(i)*step)...)
	}
	if err := log.Sync(ctx); err != nil {
		return err
	}
	for sealed := 0; sealed < (rows-1)/1_000_000; retry.Sleep(ctx, 100*time.Millisecond) { // all files but the live one
		sums, err := filepath.Glob(filepath.Join(folder, "*.sha256"))
		if err != nil {
			return err
		}
		sealed = len(sums)
	}
	end()
	return <-logged
}

// grown returns the rows of a message. Of a hundred messages, one is from a person, one is the
// agent's decision, and one is its reply.
func grown(m *message, i int, at int64) []activitylog.Row {
	var raw [16]byte
	m.random.Read(raw[:]) //nolint:errcheck // it never fails
	id := "msg_" + hex.EncodeToString(raw[:])
	from, topic, kind, content := fmt.Sprintf("agent:worker-%d", i%50), fmt.Sprintf("agent:worker-%d", (i+7)%50), "agent_event", `{"text":"`+strings.Repeat("x", 100)+`"}`
	switch i % 100 {
	case 0:
		from, topic, kind = "tg:123456789", "agent:lead", "tg_message"
		content = fmt.Sprintf(`{"text":"question number %d, please","chatId":"42","senderId":"7","sourceMessageId":"%d"}`, i, i)
	case 1:
		from, topic, kind = "agent:lead", "system:attention", "agent_event"
		content = fmt.Sprintf(`{"event":"attention_decision","agentId":"lead","eventId":"ev_%d","sourceId":"telegram:42:%d","action":"reply","reason":"direct message","turnId":"t%d"}`, i-1, i-1, i)
	case 2:
		from, topic, kind = "agent:lead", "tg:123456789", "tg_reply"
		content = fmt.Sprintf(`{"text":"answer number %d","chatId":"42"}`, i-2)
	}
	payload := fmt.Sprintf(`{"messageId":"%s","type":"%s","from":"%s","timestamp":"%s","content":%s}`, id, kind, from, time.UnixMicro(at).UTC().Format(time.RFC3339Nano), content)
	of := &activitylog.Sending{}
	rpc, call := strconv.Itoa(i), strconv.Itoa(i+1)
	return []activitylog.Row{
		{At: at, Event: activitylog.SendStart, MessageID: id, RPCID: rpc, Actor: from, Topic: topic, Status: activitylog.StatusStart, Payload: []byte(payload), Of: of},
		{At: at + 50, Event: activitylog.ProcessStart, MessageID: id, RPCID: call, Actor: topic, Topic: topic, Status: activitylog.StatusStart, Of: of},
		{At: at + 150, Event: activitylog.ProcessFinish, MessageID: id, RPCID: call, Actor: topic, Topic: topic, Status: activitylog.StatusOK, Payload: []byte(`{"processed":true}`), Of: of},
		{At: at + 200, Event: activitylog.SendFinish, MessageID: id, RPCID: rpc, Actor: from, Topic: topic, Status: activitylog.StatusOK, Payload: []byte(`{"accepted":true,"messageId":"` + id + `","deliveredTo":1}`), Of: of},
	}
}
