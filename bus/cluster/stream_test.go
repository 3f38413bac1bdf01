package cluster_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/cluster"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestActivityStream_KeepsRowsAndCountsGaps(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	defer func() { s.Shutdown(); s.WaitForShutdown() }()

	a := cluster.NewActivityStream([]string{s.ClientURL()}, "AUDIT", "a", nil)
	rows := []activitylog.Row{
		{At: 1_700_000_000_000_000, Event: activitylog.SendStart, MessageID: "m1", Actor: "tg:1", Payload: []byte(`{"messageId":"m1"}`)},
		{At: 1_700_000_000_000_001, Event: activitylog.SendFinish, MessageID: "m1", Actor: "tg:1", Status: "ok"},
	}
	for i := range int64(300) { // the queue holds 256 commits; the rest is a gap
		a.Enqueue(7+2*i, rows)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()

	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const kept = 256*2 + 1
	waitFor(t, "the rows do not arrive", func() bool {
		stream, err := js.Stream(t.Context(), "AUDIT")
		return err == nil && stream.CachedInfo().State.Msgs == kept
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	stream, err := js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	read := func(seq uint64) (row map[string]any) {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.Data, &row); err != nil {
			t.Fatal(err)
		}
		return row
	}
	if row := read(1); row["event"] != "log_gap" || row["payload_json"].(map[string]any)["lost"] != float64(88) {
		t.Errorf("the gap is told as %v", row)
	}
	if row := read(2); row["event"] != "send_start" || row["message_id"] != "m1" || row["bus"] != "a" || row["ts"] != "2023-11-14T22:13:20.000000Z" {
		t.Errorf("a row is %v", row)
	}
}
