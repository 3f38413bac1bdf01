package otlp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/otlp"
	"hubbub/activitylog/write"

	"github.com/rs/zerolog"
)

type exported struct {
	TraceID, SpanID, ParentSpanID, Name, StartTimeUnixNano, EndTimeUnixNano string
	Kind                                                                    int
	Status                                                                  struct{ Code int }
	Attributes                                                              []struct {
		Key   string
		Value struct{ StringValue string }
	}
}

// A collector accepts spans like a collector of OpenTelemetry.
type collector struct {
	mu     sync.Mutex // guards the fields below
	spans  []exported
	header http.Header
	raw    string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []exported }
		}
	}
	if err != nil || json.Unmarshal(raw, &body) != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header, c.raw = r.Header, c.raw+string(raw)
	for _, rs := range body.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// message makes the rows of one message with one delivery.
func message(at int64, id, from, to, payload, outcome string) []activitylog.Row {
	row := func(e activitylog.Event, d int64, actor, rpc, status, payload string) activitylog.Row {
		return activitylog.Row{At: at + d, Event: e, MessageID: id, RPCID: rpc, Actor: actor, Topic: to, Status: status, Payload: []byte(payload)}
	}
	final := activitylog.StatusOK
	if outcome != "ok" {
		final = activitylog.StatusFailed
	}
	return []activitylog.Row{
		row(activitylog.SendStart, 0, from, "1", "start", payload), row(activitylog.ProcessStart, 10, to, "9", "start", ""),
		row(activitylog.ProcessFinish, 500, to, "9", outcome, `{}`), row(activitylog.SendFinish, 600, from, "1", final, `{}`),
	}
}

func TestExporter_ExportsSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		s, err := otlp.FromEnv(env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector", "OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20ecret", "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"))
		if err != nil {
			t.Fatal(err)
		}
		e := otlp.New(s, nil)
		defer serve(t, e, c)()
		w := write.NewWriter(filepath.Join(t.TempDir(), "activity.db"), &write.Options{OnCommit: e.Offer})
		ctx, cancel := context.WithCancel(t.Context())
		logCtx, endLog := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = e.Run(ctx) })
		logDone := make(chan error, 1)
		go func() { logDone <- w.Run(logCtx) }()

		trace, above := strings.Repeat("ab", 16), strings.Repeat("cd", 8)
		at := time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC).UnixMicro()
		w.Append(message(at, "m1", "tg:1", "agent:a", `{"type":"tg_message","traceparent":"00-`+trace+`-`+above+`-01","content":{"text":"SECRET TEXT"}}`, "ok")...)
		w.Append(message(at+1000, "m2", "agent:a", "tg:1", `{"type":"tg_reply","inReplyTo":"m1"}`, "timeout")...)
		w.Append(message(at+2000, "m3", "agent:a", "tg:1", `{"type":"tg_reply","traceparent":"00-`+trace+`-`+above+`-00"}`, "ok")...)
		w.Append(message(at+3000, "m4", "agent:a", "tg:1", `{"type":"tg_reply","traceparent":"rubbish"}`, "ok")...)
		// The answers of a peer carry the traceparent unchanged.
		w.Append(message(at+4000, "m5", "agent:a", "tg:1", `{"type":"tg_reply","inReplyTo":"m1","traceparent":"00-`+trace+`-`+above+`-01"}`, "ok")...)
		w.Append(message(at+5000, "m6", "tg:1", "agent:a", `{"type":"delivery_status","inReplyTo":"m3"}`, "ok")...) // m3 was not sampled
		endLog()
		if err := <-logDone; err != nil {
			t.Fatal(err)
		}
		cancel()
		wg.Wait()

		c.mu.Lock()
		defer c.mu.Unlock()
		byName := map[string]exported{}
		for _, sp := range c.spans {
			key := sp.Name
			for _, a := range sp.Attributes {
				if a.Key == "messaging.message.id" {
					key += " " + a.Value.StringValue
				}
			}
			byName[key] = sp
		}
		if len(c.spans) != 8 {
			t.Fatalf("%d spans: %+v", len(c.spans), byName)
		}
		send, deliver, reply := byName["send tg_message m1"], byName["deliver tg_message m1"], byName["send tg_reply m2"]
		if send.TraceID != trace || send.ParentSpanID != above || send.StartTimeUnixNano != "1771329600000000000" || send.EndTimeUnixNano != "1771329600000600000" || send.Status.Code != 1 {
			t.Errorf("the send is %+v", send)
		}
		if deliver.TraceID != trace || deliver.ParentSpanID != send.SpanID || deliver.Kind != 5 {
			t.Errorf("the delivery is %+v", deliver)
		}
		if reply.TraceID != trace || reply.ParentSpanID != send.SpanID || reply.Status.Code != 2 {
			t.Errorf("the reply is %+v", reply)
		}
		if nested := byName["send tg_reply m5"]; nested.TraceID != trace || nested.ParentSpanID != send.SpanID {
			t.Errorf("a reply with the traceparent of what it answers: %+v", nested)
		}
		if own := byName["send tg_reply m4"]; own.TraceID == trace || len(own.TraceID) != 32 || own.ParentSpanID != "" {
			t.Errorf("a message without a trace: %+v", own)
		}
		if c.header.Get("Api-Key") != "s ecret" || c.header.Get("Content-Type") != "application/json" || !strings.Contains(c.raw, "deployment.environment") || strings.Contains(c.raw, "SECRET TEXT") {
			t.Errorf("headers %v, body %s", c.header, c.raw)
		}
		if sent, dropped := e.Stats(); sent != 8 || dropped != 0 {
			t.Errorf("sent %d, dropped %d", sent, dropped)
		}
	})
}

// TestSpans_OfTurn checks that the span of a turn lasts from the message that
// reports its start to the one that reports its end.
func TestSpans_OfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		e := otlp.New(otlp.Settings{Endpoint: "http://collector/v1/traces", Timeout: time.Minute}, nil)
		defer serve(t, e, c)()
		tell := func(at int64, id, turn, state string) {
			e.Offer(1, message(at, id, "agent:a", "system:attention", `{"type":"agent_event","inReplyTo":"m1","content":{"event":"turn","turnId":"`+turn+`","state":"`+state+`","reason":"why","model":"large"}}`, "ok"))
		}
		e.Offer(1, message(1_000_000, "m1", "tg:1", "agent:a", `{"type":"tg_message"}`, "ok"))
		tell(2_000_000, "r1", "t1", "started")
		tell(2_500_000, "r2", "t1", "accepted")
		tell(3_000_000, "r3", "t2", "started")
		tell(5_000_000, "r4", "t1", "finished")
		tell(6_000_000, "r5", "t2", "failed")
		tell(7_000_000, "r6", "t3", "finished") // whose start was not recorded
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Run(ctx); err != nil {
			t.Fatal(err)
		}
		var send exported
		turns := map[string]exported{}
		for _, s := range c.spans {
			switch s.Name {
			case "send tg_message":
				send = s
			case "turn":
				turns[s.StartTimeUnixNano+" "+s.EndTimeUnixNano] = s
			}
		}
		done, failed := turns["2000000000 5000000000"], turns["3000000000 6000000000"]
		if len(turns) != 2 || done.Kind != 1 || done.ParentSpanID != send.SpanID || done.TraceID != send.TraceID || done.Status.Code != 1 || failed.Status.Code != 2 {
			t.Errorf("turns %+v of %+v", turns, send)
		}
		if !strings.Contains(c.raw, `"failed: why"`) || !strings.Contains(c.raw, `"gen_ai.request.model"`) {
			t.Errorf("the spans say %s", c.raw)
		}
	})
}

// TestQueue_IsBoundedInBytes checks that payloads that wait for a collector take
// at most a part of the memory that the log itself may use.
func TestQueue_IsBoundedInBytes(t *testing.T) {
	e := otlp.New(otlp.Settings{Endpoint: "http://127.0.0.1:1/v1/traces", Timeout: time.Second}, nil)
	large := message(1, "m", "a", "b", `{"content":"`+strings.Repeat("x", 1<<20)+`"}`, "ok")
	for range 100 { // of which 63 fit
		e.Offer(1, large)
	}
	if _, dropped := e.Stats(); dropped != 4*37 {
		t.Errorf("%d rows were dropped; want %d", dropped, 4*37)
	}
}

func TestOffer_NeverBlocks(t *testing.T) {
	var said bytes.Buffer
	log := zerolog.New(&said)
	e := otlp.New(otlp.Settings{Endpoint: "http://127.0.0.1:1/v1/traces", Timeout: time.Minute}, &log)
	e.DialWith(func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
	rows := message(1, "m", "a", "b", `{}`, "ok")
	for range 1000 { // nobody takes them
		e.Offer(1, rows)
	}
	if _, dropped := e.Stats(); dropped != 4*(1000-256) {
		t.Errorf("dropped %d", dropped)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Run(ctx); err != nil { // no collector listens
		t.Error(err)
	}
	sent, dropped := e.Stats()
	if sent != 0 || dropped <= 4*(1000-256) {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, fmt.Sprintf(`"dropped":%d`, dropped)) || !strings.Contains(text, "connection refused") {
		t.Errorf("the log says %q", text)
	}
}

// TestExporter_LogsDropsForSlowCollector checks that drops of the queue are
// logged although every request succeeds.
func TestExporter_LogsDropsForSlowCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := zerolog.New(&said)
		e := otlp.New(otlp.Settings{Endpoint: "http://collector/v1/traces", Timeout: time.Minute}, &log)
		defer serve(t, e, &collector{})()
		for range 300 {
			e.Offer(1, message(1, "m", "a", "b", `{}`, "ok"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := e.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if sent, dropped := e.Stats(); sent != 2*256 || dropped != 4*44 || !strings.Contains(said.String(), `"dropped":176`) {
			t.Errorf("sent %d, dropped %d; the log says %q", sent, dropped, said.String())
		}
	})
}

func TestSettings(t *testing.T) {
	for name, test := range map[string]struct {
		env      []string
		endpoint string
		fails    string
	}{
		"nothing":    {},
		"base":       {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"}, endpoint: "http://c:4318/v1/traces"},
		"traces":     {env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/x", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://d"}, endpoint: "http://c:4318/x"},
		"disabled":   {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_SDK_DISABLED", "true"}},
		"none":       {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_TRACES_EXPORTER", "none"}},
		"grpc":       {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, fails: "4318"},
		"no URL":     {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317"}, fails: "OTEL_EXPORTER_OTLP_ENDPOINT"},
		"headers":    {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_HEADERS", "hush"}, fails: "HEADERS"},
		"timeout":    {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_EXPORTER_OTLP_TIMEOUT", "x"}, fails: "TIMEOUT"},
		"attributes": {env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c", "OTEL_RESOURCE_ATTRIBUTES", "x"}, fails: "ATTRIBUTES"},
	} {
		s, err := otlp.FromEnv(env(test.env...))
		if s.Endpoint != test.endpoint || (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %q, %v", name, s.Endpoint, err)
		}
		if err != nil && slices.Contains(test.env, "hush") && strings.Contains(err.Error(), "hush") {
			t.Error("the error holds the secret")
		}
	}
}
