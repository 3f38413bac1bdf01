package cmd_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// A tracedSpan is a span in OTLP's JSON.
type tracedSpan struct{ TraceID, SpanID, ParentSpanID, Name string }

// A spanCollector collects what the bus exports.
type spanCollector struct {
	mu    sync.Mutex // guards spans
	spans []tracedSpan
}

func (c *spanCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []tracedSpan }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range body.ResourceSpans {
		for _, s := range of.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
}

// of returns the spans of a trace by name.
func (c *spanCollector) of(trace string) map[string][]tracedSpan {
	c.mu.Lock()
	defer c.mu.Unlock()
	byName := map[string][]tracedSpan{}
	for _, s := range c.spans {
		if s.TraceID == trace {
			byName[s.Name] = append(byName[s.Name], s)
		}
	}
	return byName
}

// TestTraceparent_ReachesCausedMessages sends a spawn_request and a chat message with a
// traceparent through the real programs. The answers of spawner, agent and bridge carry it, and
// the bus exports one tree of spans.
func TestTraceparent_ReachesCausedMessages(t *testing.T) {
	collector := &spanCollector{}
	web := httptest.NewServer(collector)
	defer web.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", web.URL)
	s := newFixture(t)
	trace, above := strings.Repeat("ab", 16), strings.Repeat("cd", 8)
	parent := "00-" + trace + "-" + above + "-01"

	will := s.api.User("Will")
	chat := s.api.DM(will)
	s.api.Say(chat, will, "hello") // gets the chat an agent, outside the trace
	var agent protocol.Topic
	s.await("an answer in the log", func() bool {
		for _, p := range s.publications() {
			if p.message.Type == protocol.TypeTGReply {
				agent = p.message.From.Topic()
			}
		}
		return agent != ""
	})
	s.awaitTexts(chat, 1)

	ctx, cancel := context.WithCancel(t.Context())
	tester := peer.New("tg:tester", &peer.Options{Buses: []string{s.tap.address()}})
	for _, kind := range []protocol.MessageType{protocol.TypeSpawnResult, protocol.TypeRouteAssigned} {
		tester.Handle(kind, func(context.Context, *peer.Delivery) error { return nil })
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = tester.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	if err := tester.Subscribe(ctx, "tg:tester"); err != nil {
		t.Fatal(err)
	}
	send := func(topic protocol.Topic, from protocol.PeerID, kind protocol.MessageType, content any) {
		m := protocol.NewMessage(kind, from, content)
		m.TraceParent = parent
		if result, err := tester.Send(ctx, topic, m); err != nil || result.DeliveredTo == 0 {
			t.Fatalf("sending a %s: %+v, %v", kind, result, err)
		}
	}
	send(protocol.TopicSpawn, "tg:tester", protocol.TypeSpawnRequest, protocol.SpawnRequest{})
	send(agent, protocol.PeerID(topicOf(chat)), protocol.TypeTGMessage, protocol.ChatMessage{Text: "what is this?"})
	s.awaitTexts(chat, 2)

	want := []string{"turn"}
	for _, kind := range []protocol.MessageType{
		protocol.TypeSpawnRequest, protocol.TypeSpawnResult, protocol.TypeRouteAssigned,
		protocol.TypeTGMessage, protocol.TypeAgentEvent, protocol.TypeTGReply, protocol.TypeDeliveryStatus,
	} {
		want = append(want, "send "+string(kind), "deliver "+string(kind))
		carried := func(p *publication) bool { return p.message.Type == kind && p.message.TraceParent == parent }
		s.await("a "+string(kind)+" with the traceparent", func() bool { return slices.ContainsFunc(s.publications(), carried) })
	}
	s.await("a span of each", func() bool {
		have := collector.of(trace)
		return !slices.ContainsFunc(want, func(name string) bool { return len(have[name]) == 0 })
	})
	s.run["bus"].stop() // exports the last spans
	checkTree(t, collector.of(trace), above)
}

// checkTree checks that the parent of every span of a trace is another span of it, or the span
// from which the trace came.
func checkTree(t *testing.T, byName map[string][]tracedSpan, above string) {
	t.Helper()
	ids := map[string]string{above: "the sender's own"}
	for name, spans := range byName {
		for _, s := range spans {
			ids[s.SpanID] = name
		}
	}
	parents := map[string]string{
		"send spawn_request": "the sender's own", "send spawn_result": "send spawn_request", "send route_assigned": "send spawn_request",
		"send tg_message": "the sender's own", "deliver tg_message": "send tg_message", "turn": "send tg_message",
		"send tg_reply": "send tg_message", "deliver tg_reply": "send tg_reply", "send delivery_status": "send tg_reply",
	}
	for name, spans := range byName {
		for _, s := range spans {
			if ids[s.ParentSpanID] == "" {
				t.Errorf("%q is below %q, which is no span of its trace", name, s.ParentSpanID)
			} else if want := parents[name]; want != "" && ids[s.ParentSpanID] != want {
				t.Errorf("%q is below %q; want %q", name, ids[s.ParentSpanID], want)
			}
		}
	}
}
