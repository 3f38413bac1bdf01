package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hubbub/activitylog"
	"hubbub/bus/cluster"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A runningStream is an ActivityStream that runs until the test ends, and the stream that it
// fills.
type runningStream struct {
	*cluster.ActivityStream
	t  *testing.T
	js jetstream.JetStream

	stop func() error
}

// startStream runs an ActivityStream once the function has been called with it.
func startStream(t *testing.T, prepare func(s *runningStream)) *runningStream {
	server := runNATS(t, &server.Options{Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir()})
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &runningStream{ActivityStream: cluster.NewActivityStream([]string{server.ClientURL()}, "AUDIT", "a", nil), t: t}
	if s.js, err = jetstream.New(nc); err != nil {
		t.Fatal(err)
	}
	prepare(s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.stop = func() error { cancel(); return <-ended }
	return s
}

// rows waits until the stream has n rows, and returns them.
func (s *runningStream) rows(n uint64) (rows []map[string]any) {
	s.t.Helper()
	var stream jetstream.Stream
	waitFor(s.t, "the rows do not arrive", func() bool {
		var err error
		stream, err = s.js.Stream(s.t.Context(), "AUDIT")
		return err == nil && stream.CachedInfo().State.Msgs == n
	})
	for seq := range n {
		m, err := stream.GetMsg(s.t.Context(), seq+1)
		if err != nil {
			s.t.Fatal(err)
		}
		var row map[string]any
		if err := json.Unmarshal(m.Data, &row); err != nil {
			s.t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func TestActivityStream_KeepsRowsAndCountsGaps(t *testing.T) {
	s := startStream(t, func(s *runningStream) {
		rows := []activitylog.Row{
			{At: 1_700_000_000_000_000, Event: activitylog.SendStart, MessageID: "m1", Actor: "tg:1", Payload: []byte(`{"messageId":"m1"}`)},
			{At: 1_700_000_000_000_001, Event: activitylog.SendFinish, MessageID: "m1", Actor: "tg:1", Status: "ok"},
		}
		for i := range int64(300) { // the queue holds 256 commits; the rest is a gap
			s.Enqueue(7+2*i, rows)
		}
	})
	rows := s.rows(256*2 + 1)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if row := rows[0]; row["event"] != "log_gap" || row["payload_json"].(map[string]any)["lost"] != float64(88) {
		t.Errorf("the gap is told as %v", row)
	}
	if row := rows[1]; row["event"] != "send_start" || row["message_id"] != "m1" || row["bus"] != "a" || row["ts"] != "2023-11-14T22:13:20.000000Z" {
		t.Errorf("a row is %v", row)
	}
}

// TestActivityStream_EscapesNoHTML checks that a payload of HTML is not larger in the stream than in
// the log.
func TestActivityStream_EscapesNoHTML(t *testing.T) {
	page := strings.Repeat("<&>", 100_000)
	s := startStream(t, func(s *runningStream) {
		s.Enqueue(7, []activitylog.Row{{Event: activitylog.SendStart, Payload: fmt.Appendf(nil, "%q", page)}})
	})
	if row := s.rows(1)[0]; row["event"] != "send_start" || row["payload_json"] != page {
		t.Errorf("the row is %.200v", row)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

// TestActivityStream_ReplacesRowsThatAreTooLarge checks that a row that the server or the stream
// refuses for its size becomes a gap, and that the rows around it arrive.
func TestActivityStream_ReplacesRowsThatAreTooLarge(t *testing.T) {
	for name, c := range map[string]struct {
		maxMessage int32 // of the stream; 0 for no bound
		large      activitylog.Row
	}{
		"a payload as large as the server's limit": {0, activitylog.Row{Payload: fmt.Appendf(nil, "%q", strings.Repeat("x", 1<<20))}},
		"a request id":                        {0, activitylog.Row{RPCID: strings.Repeat("x", 1<<20)}},
		"a payload beyond the stream's limit": {1000, activitylog.Row{Payload: fmt.Appendf(nil, "%q", strings.Repeat("x", 1000))}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startStream(t, func(s *runningStream) {
				if c.maxMessage > 0 {
					_, err := s.js.CreateStream(t.Context(), jetstream.StreamConfig{
						Name: "AUDIT", Subjects: []string{"hubbub.activity.>"}, MaxMsgSize: c.maxMessage,
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				small := activitylog.Row{Event: activitylog.SendStart, MessageID: "small"}
				c.large.Event = activitylog.SendStart
				s.Enqueue(7, []activitylog.Row{small, c.large, small})
				s.Enqueue(10, []activitylog.Row{small})
			})
			for i, row := range s.rows(4) {
				id, event := float64(7+i), "send_start"
				if i == 1 {
					event = "log_gap"
				}
				if row["id"] != id || row["event"] != event {
					t.Errorf("row %d is %v", i, row)
				}
				if i != 1 {
					continue
				}
				gap, _ := row["payload_json"].(map[string]any)
				reason, _ := gap["reason"].(string)
				if gap["lost"] != float64(1) || !strings.Contains(reason, "the log of the bus has it") {
					t.Errorf("the gap is %v", row)
				}
			}
			if err := s.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
