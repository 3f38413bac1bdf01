package otlp

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
)

func TestSettings_FromEnvironment(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318/"
	for name, c := range map[string]struct {
		env      string
		endpoint string
		timeout  time.Duration
		resource string
		headers  string
		err      string
	}{
		"nothing":                {"", "", 0, "map[]", "map[]", ""},
		"an endpoint":            {at, "http://c:4318/v1/traces", 10 * time.Second, "map[service.name:hubbub-bus]", "map[]", ""},
		"by https":               {"OTEL_EXPORTER_OTLP_ENDPOINT=https://c", "https://c/v1/traces", 10 * time.Second, "map[service.name:hubbub-bus]", "map[]", ""},
		"that of traces":         {at + " OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://t/x", "http://t/x", 10 * time.Second, "map[service.name:hubbub-bus]", "map[]", ""},
		"no host":                {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http:///x", "", 0, "", "", "ENDPOINT is not an http"},
		"another scheme":         {"OTEL_EXPORTER_OTLP_ENDPOINT=ftp://c", "", 0, "", "", "ENDPOINT is not an http"},
		"no URL":                 {"OTEL_EXPORTER_OTLP_ENDPOINT=http://%zz", "", 0, "", "", "ENDPOINT is not an http"},
		"by gRPC":                {at + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "", 0, "", "", "PROTOCOL is grpc"},
		"by JSON":                {at + " OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "http://c:4318/v1/traces", 10 * time.Second, "map[service.name:hubbub-bus]", "map[]", ""},
		"a timeout":              {at + " OTEL_EXPORTER_OTLP_TIMEOUT=1", "http://c:4318/v1/traces", time.Millisecond, "map[service.name:hubbub-bus]", "map[]", ""},
		"no timeout":             {at + " OTEL_EXPORTER_OTLP_TIMEOUT=0", "", 0, "", "", "TIMEOUT must be a number of milliseconds"},
		"a timeout of words":     {at + " OTEL_EXPORTER_OTLP_TIMEOUT=1s", "", 0, "", "", "TIMEOUT must be a number of milliseconds"},
		"a name":                 {at + " OTEL_RESOURCE_ATTRIBUTES=a=b,service.name=x OTEL_SERVICE_NAME=y", "http://c:4318/v1/traces", 10 * time.Second, "map[a:b service.name:y]", "map[]", ""},
		"a name among others":    {at + " OTEL_RESOURCE_ATTRIBUTES=service.name=x", "http://c:4318/v1/traces", 10 * time.Second, "map[service.name:x]", "map[]", ""},
		"attributes of no value": {at + " OTEL_RESOURCE_ATTRIBUTES=x", "", 0, "", "", "OTEL_RESOURCE_ATTRIBUTES must be"},
		"headers":                {at + " OTEL_EXPORTER_OTLP_HEADERS=a=1%20,b=2,", "http://c:4318/v1/traces", 10 * time.Second, "map[service.name:hubbub-bus]", "map[a:1  b:2]", ""},
		"headers of no name":     {at + " OTEL_EXPORTER_OTLP_HEADERS==secret", "", 0, "", "", "OTEL_EXPORTER_OTLP_HEADERS must be"},
		"headers badly escaped":  {at + " OTEL_EXPORTER_OTLP_HEADERS=a=%zz", "", 0, "", "", "OTEL_EXPORTER_OTLP_HEADERS must be"},
		"disabled":               {at + " OTEL_SDK_DISABLED=TRUE", "", 0, "map[]", "map[]", ""},
		"not disabled":           {at + " OTEL_SDK_DISABLED=no", "http://c:4318/v1/traces", 10 * time.Second, "map[service.name:hubbub-bus]", "map[]", ""},
		"no exporter":            {at + " OTEL_TRACES_EXPORTER=none", "", 0, "map[]", "map[]", ""},
	} {
		s, err := FromEnv(func(want string) string {
			for _, pair := range strings.Fields(c.env) {
				if name, value, _ := strings.Cut(pair, "="); name == want {
					return value
				}
			}
			return ""
		})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v; want %q", name, err, c.err)
			}
			continue
		}
		if err != nil || s.Endpoint != c.endpoint || s.Timeout != c.timeout || fmt.Sprint(s.Resource) != c.resource || fmt.Sprint(s.Headers) != c.headers {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestTraceParent_IsParsed(t *testing.T) {
	trace, span := strings.Repeat("a", 32), strings.Repeat("b", 16)
	known, none := parent{trace, span}, parent{}
	for text, c := range map[string]struct {
		want    parent
		sampled bool
	}{
		"00-" + trace + "-" + span + "-01": {known, true}, "00-" + trace + "-" + span + "-00": {known, false}, "00-" + trace + "-" + span + "-03": {known, true},
		"00-" + trace + "-" + span + "-ff-more": {known, true}, "00-" + trace + "-" + span + "-fe": {known, false},
		"": {none, true}, "00-" + trace + "-" + span: {none, true}, "00-" + trace + "-" + span + "-0": {none, true}, "00-" + trace + "-" + span + "-001": {none, true},
		"00-" + trace + "-" + span + "-0g": {none, true}, "00-" + trace + "-" + span + "-zz": {none, true}, "00-" + trace[1:] + "-" + span + "-00": {none, true}, "00-" + trace + "-" + span[1:] + "-00": {none, true},
		"00-" + strings.Repeat("0", 32) + "-" + span + "-00": {none, true}, "00-" + strings.ToUpper(trace) + "-" + span + "-00": {none, true},
	} {
		if p, sampled := parseParent(text); p != c.want || sampled != c.sampled {
			t.Errorf("%q is %+v, sampled %t", text, p, sampled)
		}
	}
}

func started(id string) *activitylog.Row {
	return &activitylog.Row{At: 5, Event: activitylog.SendStart, MessageID: id, RPCID: "1", Actor: "agent:a", Topic: "t", Payload: []byte(`{"type":"agent_event","content":{"event":"turn","state":"started","turnId":"` + id + `"}}`)}
}

// TestSpans_MemoryIsBounded checks the bounds of the messages under way, of the traces kept
// for answers, and of the turns.
func TestSpans_MemoryIsBounded(t *testing.T) {
	m := newSpanMaker()
	for i := range 20_001 {
		if spans := m.add(started(fmt.Sprint(i))); spans != nil {
			t.Fatalf("a message that began is %+v", spans)
		}
		if len(m.open) != i%20_000+1 || len(m.traces) != i%20_000+1 || len(m.turns) != i%10_000+1 {
			t.Fatalf("after %d there are %d messages, %d traces and %d turns", i+1, len(m.open), len(m.traces), len(m.turns))
		}
	}
}

// TestSpans_OfMessage checks the spans of a delivery, of the message, and of the turn that
// a message ends.
func TestSpans_OfMessage(t *testing.T) {
	m := newSpanMaker()
	m.add(started("m"))
	row := func(event activitylog.Event, at int64, id, status, fault string) []span {
		return m.add(&activitylog.Row{At: at, Event: event, MessageID: id, RPCID: "1", Actor: "agent:a", Topic: "t", Status: status, Error: fault})
	}
	row(activitylog.ProcessStart, 6, "m", "start", "")
	if spans := row(activitylog.ProcessFinish, 8, "m", "timeout", "late"); spans != nil {
		t.Errorf("before its end it is %+v", spans)
	}
	spans := row(activitylog.SendFinish, 9, "m", "no_subscriber", "")
	if len(spans) != 2 || len(m.open) != 0 {
		t.Fatalf("%+v, %d are under way", spans, len(m.open))
	}
	deliver, send := spans[0], spans[1]
	if deliver.Kind != 5 || deliver.Start != "6000" || deliver.End != "8000" || deliver.Status != (status{2, "timeout: late"}) || len(deliver.SpanID) != 16 || len(deliver.TraceID) != 32 || deliver.ParentID != send.SpanID {
		t.Errorf("the delivery is %+v", deliver)
	}
	if send.Kind != 4 || send.Start != "5000" || send.End != "9000" || send.Status != (status{1, ""}) || len(send.SpanID) != 16 || send.ParentID != "" || send.TraceID != deliver.TraceID {
		t.Errorf("the message is %+v", send)
	}
	end := started("end")
	end.At, end.Payload = 20, []byte(`{"type":"agent_event","content":{"event":"turn","state":"failed","turnId":"m","reason":"r"}}`)
	if spans = m.add(end); len(spans) != 1 || spans[0].Kind != 1 || spans[0].Start != "5000" || spans[0].End != "20000" || spans[0].Status != (status{2, "failed: r"}) || len(spans[0].SpanID) != 16 {
		t.Errorf("the turn is %+v", spans)
	}
	if got := attributes("a", "1", "b", "", "c", "3", "odd"); fmt.Sprint(got) != "[{a {1}} {c {3}}]" {
		t.Errorf("the attributes are %v", got)
	}
}

func TestStatusOfAnswer(t *testing.T) {
	now := time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)
	for after, want := range map[string]time.Duration{
		"": 0, "0": 0, "-5": 0, "1": time.Second, "600": 10 * time.Minute, "601": 10 * time.Minute, "99999999999": 10 * time.Minute, "soon": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0, now.Add(time.Hour).Format(http.TimeFormat): 10 * time.Minute,
	} {
		err := statusOfAnswer(503, http.Header{"Retry-After": {after}}, now)
		var e *statusError
		if !errors.As(err, &e) || e.after != want || e.Error() != "the collector answered HTTP 503" {
			t.Errorf("%q: %v, %+v; want %s", after, err, e, want)
		}
	}
	for code, ok := range map[int]bool{199: false, 200: true, 204: true, 299: true, 300: false, 429: false} {
		if err := statusOfAnswer(code, http.Header{}, now); (err == nil) != ok {
			t.Errorf("%d: %v", code, err)
		}
	}
	if pause, again := pauseAfter(errors.New("why"), 1, 0); pause != 0 || again {
		t.Errorf("after another fault: %s, %t", pause, again)
	}
	for code, want := range map[int]string{429: "4s true", 502: "4s true", 503: "4s true", 504: "4s true", 500: "0s false", 400: "0s false"} {
		pause, again := pauseAfter(&statusError{code: code}, 2, 0)
		if got := fmt.Sprint(pause, again); got != want {
			t.Errorf("after %d: %s; want %s", code, got, want)
		}
	}
	if pause, again := pauseAfter(&statusError{code: 503, after: 1}, 2, 0); pause != 1 || !again {
		t.Errorf("a pause that was asked for is %s, %t", pause, again)
	}
}

// TestOffer_CountsQueuedBytes checks that the payloads of messages count while they wait,
// and that taken rows and rows without room do not count.
func TestOffer_CountsQueuedBytes(t *testing.T) {
	e := New(Settings{}, nil)
	rows := []activitylog.Row{{Event: activitylog.SendStart, MessageID: "m", Payload: make([]byte, 1000)}, {Event: activitylog.SendFinish, MessageID: "m", Payload: make([]byte, 99)}}
	e.Offer(0, rows)
	if e.waiting.Load() != 1000 || len(rows[1].Payload) != 99 {
		t.Errorf("%d bytes wait", e.waiting.Load())
	}
	large := []activitylog.Row{{Event: activitylog.SendStart, Payload: make([]byte, queuedBytes-1000)}}
	if e.Offer(0, large); e.waiting.Load() != queuedBytes {
		t.Errorf("as much as may wait: %d", e.waiting.Load())
	}
	if e.Offer(0, rows); e.waiting.Load() != queuedBytes || e.dropped.Load() != 2 {
		t.Errorf("more than may wait: %d, %d dropped", e.waiting.Load(), e.dropped.Load())
	}
	m := newSpanMaker()
	for range 2 {
		e.take(m, <-e.queue)
	}
	if e.waiting.Load() != 0 || len(e.spans) != 1 {
		t.Errorf("%d wait, %d spans", e.waiting.Load(), len(e.spans))
	}
	for range queuedCommits {
		e.Offer(0, rows[1:])
	}
	if e.Offer(0, rows); e.waiting.Load() != 0 || e.dropped.Load() != 4 {
		t.Errorf("more commits than may wait: %d bytes, %d dropped", e.waiting.Load(), e.dropped.Load())
	}
}

// TestSettle_RetriesDropsAndLogs checks when a request is retried, when it is
// given up, and what is logged.
func TestSettle_RetriesDropsAndLogs(t *testing.T) {
	e := New(Settings{}, nil)
	busy := &statusError{code: 503, after: time.Hour}
	counts := func() string {
		return fmt.Sprint(len(e.spans), " ", e.tries, " ", e.sent.Load(), " ", e.dropped.Load(), " ", e.failure != nil)
	}
	e.spans = make([]span, 10)
	for i, c := range []struct {
		n    int
		err  error
		want string // spans, attempts, sent, dropped, an error to log
	}{
		{3, nil, "7 0 3 0 false"}, {3, busy, "7 1 3 0 true"}, {3, nil, "4 0 6 0 false"},
		{1, busy, "4 1 6 0 true"}, {1, busy, "4 2 6 0 true"}, {1, busy, "4 3 6 0 true"}, {1, busy, "4 4 6 0 true"}, {1, busy, "3 0 6 1 true"},
		{1, nil, "2 0 7 1 true"}, // the drop is not logged yet
		{1, errors.New("no"), "1 0 7 2 true"},
	} {
		if e.settle(c.n, c.err); counts() != c.want {
			t.Errorf("%d: %s; want %s", i, counts(), c.want)
		}
	}
	if e.complain(); e.told != 2 || e.failure != nil {
		t.Errorf("told are %d, %v", e.told, e.failure)
	}
	e.dropped.Add(1)
	if e.complain(); e.told != 2 {
		t.Error("it complains twice a minute")
	}
	e.complained = time.Now().Add(-complainEvery)
	if e.complain(); e.told != 3 {
		t.Error("it does not complain again")
	}
	if got := fmt.Sprint(batchSpans, batchWait, queuedCommits, lastWait, queuedBytes, maxTries); got != "512 2s 256 2s 67108864 5" {
		t.Errorf("the bounds are %s", got)
	}
}
