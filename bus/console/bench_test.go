package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/write"
	"hubbub/bus/console"
	"hubbub/bus/report"
	"hubbub/protocol"
)

// An idleBus is a bus of 1,000 peers that does nothing.
type idleBus struct{ peers []report.Peer }

func (c *idleBus) Peers() []report.Peer { return slices.Clone(c.peers) }

func (c *idleBus) Counters() report.Counters {
	return report.Counters{Peers: len(c.peers), Bounds: map[string]float64{"peer_window": 256, "peer_queue": 1024}, Deliveries: map[string]uint64{"ok": 1}}
}

const (
	idlePeers = 1000
	logRows   = 100_000
)

// fill writes a log of 100,000 rows within the last minutes: messages of chats,
// decisions of agents and replies, four rows each. It returns a message's id.
func fill(b *testing.B, path string) (message string) {
	b.Helper()
	w := write.NewWriter(path, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	at := time.Now().Add(-10 * time.Minute)
	for i := range logRows / 4 {
		chat, agent := fmt.Sprintf("tg:%d", i%500), fmt.Sprintf("agent:a%d", i%500)
		from, to, typ := chat, agent, protocol.TypeTGMessage
		var content any = protocol.ChatMessage{Text: "a message of some length, as people write them", SourceID: fmt.Sprintf("e%d", i), Chat: &protocol.Chat{ID: chat, Title: "Chat"}}
		switch i / 500 % 3 {
		case 1:
			from, to, typ = agent, "system:attention", protocol.TypeAgentEvent
			content = map[string]any{"event": "attention_decision", "eventId": fmt.Sprintf("e%d", i-500), "policy": "must_respond", "injection": "immediate", "reason": "mention"}
		case 2:
			from, to, typ = agent, chat, protocol.TypeTGReply
			content = protocol.ChatReply{Text: "an answer", InReplyTo: fmt.Sprintf("e%d", i-1000)}
		}
		m := protocol.NewMessage(typ, protocol.PeerID(from), content)
		payload, err := json.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		if i == logRows/8-logRows/8%1500 {
			message = string(m.MessageID)
		}
		now := at.Add(time.Duration(i) * 20 * time.Millisecond).UnixMicro()
		row := activitylog.Row{At: now, MessageID: string(m.MessageID), RPCID: "1", Actor: from, Topic: to, Status: activitylog.StatusStart}
		start, begin, end, finish := row, row, row, row
		start.Event, start.Payload = activitylog.SendStart, payload
		begin.Event, begin.Actor = activitylog.ProcessStart, to
		end.Event, end.Actor, end.Status, end.Payload = activitylog.ProcessFinish, to, "ok", []byte(`{"processed":true}`)
		finish.Event, finish.Status, finish.Payload = activitylog.SendFinish, "ok", []byte(`{"accepted":true,"deliveredTo":1}`)
		w.Append(start, begin, end, finish)
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	return message
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPages measures each page on 100,000 rows and 1,000 peers: see p95-ms,
// and cpu-ms where the machine has other work.
func BenchmarkPages(b *testing.B) {
	bus := &idleBus{}
	for i := range idlePeers {
		bus.peers = append(bus.peers, report.Peer{ID: fmt.Sprintf("agent:a%d", i), ConnectedAt: "2026-01-01T00:00:00Z", Subscriptions: []report.Subscription{{Pattern: fmt.Sprintf("agent:a%d", i)}}})
	}
	path := filepath.Join(b.TempDir(), "activity.db")
	message := fill(b, path)
	reader := read.Open(path)
	defer reader.Close()
	c := console.New(bus, reader, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for _, page := range []string{
		"", "topology", "activity", "activity?peer=agent:a7&status=ok", "activity?text=some+length", "activity?text=nowhere+to+be+found",
		"activity?type=tg_reply", "message?id=" + message, "agents", "agent?id=agent:a7", "chat?id=tg:7", "peer?id=agent:a7", "work", "decisions", "owed", "health", "state.json",
	} {
		name := page
		if name == "" {
			name = "first"
		}
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			used := processorTime(b)
			for b.Loop() {
				began := time.Now()
				w := httptest.NewRecorder()
				c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/"+page, nil))
				took = append(took, time.Since(began))
				if w.Code != http.StatusOK {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
			b.ReportMetric(float64((processorTime(b)-used).Microseconds())/1000/float64(len(took)), "cpu-ms")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}
