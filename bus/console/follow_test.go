package console

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/activitylog/write"
	"hubbub/bus/report"
	"hubbub/protocol"
)

// noBus is a bus of which nothing is known.
type noBus struct{}

func (noBus) Peers() []report.Peer      { return nil }
func (noBus) Counters() report.Counters { return report.Counters{} }

// TestFollow_SkipsRowsOfBusyBus checks that one pass reads a bounded number of
// rows, and counts the rows that it skips.
func TestFollow_SkipsRowsOfBusyBus(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	w := write.NewWriter(path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	write := func(n int) {
		rows := make([]activitylog.Row, 0, n)
		for i := range n {
			m := protocol.NewMessage(protocol.TypeAgentEvent, "agent:a", map[string]any{"n": i})
			payload, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.SendStart, MessageID: string(m.MessageID), Actor: "agent:a", Topic: "x", Status: "start", Payload: payload})
		}
		w.Append(rows...)
		if err := w.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reader := read.Open(path)
	defer reader.Close()
	c := New(noBus{}, reader, nil)
	write(3000)
	at, err := c.catchUp(t.Context(), nil)
	if err != nil || c.model.rows != 3000 || c.model.Skipped != 0 {
		t.Fatalf("at first: %d rows, %d skipped, %v", c.model.rows, c.model.Skipped, err)
	}
	write(followRows / 2)
	if at, err = c.catchUp(t.Context(), at); err != nil || c.model.rows != 3000+followRows/2 || c.model.Skipped != 0 {
		t.Fatalf("then: %d rows, %d skipped, %v", c.model.rows, c.model.Skipped, err)
	}
	before := c.model.rows
	write(followRows + 700)
	if _, err = c.catchUp(t.Context(), at); err != nil || c.model.rows != before+followRows || c.model.Skipped != 700 {
		t.Fatalf("when busy: %d rows, %d skipped, %v", c.model.rows-before, c.model.Skipped, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestReadModel_IsBounded(t *testing.T) {
	b := newLRUMap[string, int](100)
	for i := range 1000 {
		b.touch(fmt.Sprint(i))
		*b.touch("kept") = -1
		if b.Len() > 100 {
			t.Fatalf("%d entries", b.Len())
		}
	}
	if v := b.get("kept"); v == nil || *v != -1 {
		t.Error("what was touched last was forgotten")
	}
	if b.get("1") != nil {
		t.Error("what was touched long ago is kept")
	}

	c := &chat{byID: map[string]*chatEvent{}}
	a := &agent{byID: map[string]*agentEvent{}}
	for i := range 10 * maxEvents {
		c.add(&chatEvent{ID: fmt.Sprint(i)})
		a.event(fmt.Sprint(i))
	}
	if len(c.Events) > 2*maxEvents || len(c.byID) != len(c.Events) || len(a.Events) > 2*maxEvents || len(a.byID) != len(a.Events) {
		t.Errorf("%d and %d events, %d and %d ids", len(c.Events), len(a.Events), len(c.byID), len(a.byID))
	}
}

func TestRate_Decays(t *testing.T) {
	var r rate
	at := time.Unix(1000, 0)
	for range 600 {
		at = at.Add(100 * time.Millisecond)
		r.add(at)
	}
	if v := r.at(at); math.Abs(v-600*(1-1/math.E)) > 5 {
		t.Errorf("after a minute of ten a second: %.1f", v)
	}
	if v := r.at(at.Add(10 * time.Minute)); v > 0.1 {
		t.Errorf("after ten quiet minutes: %.2f", v)
	}
}

func TestQuantile_InterpolatesBuckets(t *testing.T) {
	ms := time.Millisecond
	buckets := func(counts ...uint64) []report.Bucket {
		return []report.Bucket{{Upper: ms, Count: counts[0]}, {Upper: 2 * ms, Count: counts[1]}, {Upper: 4 * ms, Count: counts[2]}, {Count: counts[3]}}
	}
	before := buckets(10, 0, 5, 0)
	after := buckets(10, 90, 15, 0)
	if v := quantile(before, after, 0.5); v < 1 || v > 2 {
		t.Errorf("half took %.2f ms", v)
	}
	if v := quantile(before, after, 0.99); v < 2 || v > 4 {
		t.Errorf("99 of 100 took %.2f ms", v)
	}
	if v := quantile(after, after, 0.5); v != -1 {
		t.Errorf("of nothing: %.2f", v)
	}
}

func TestWaterfall_BarsLieOnAxis(t *testing.T) {
	at := time.Unix(0, 0)
	v := &messageView{}
	v.draw(&view.Waterfall{Begin: at, Whole: time.Second, Bars: []view.Bar{
		{Start: at, Finish: at.Add(time.Second)}, {Start: at.Add(time.Second), Finish: at.Add(time.Second)},
		{Start: at.Add(300 * time.Millisecond)}, {Finish: at.Add(500 * time.Millisecond)}, {Kind: view.BarNote},
	}})
	for i, b := range v.Bars {
		left, width := percentOf(t, b.Left), percentOf(t, b.Width)
		if left < 0 || left+width > 100.01 {
			t.Errorf("bar %d begins at %s and is %s wide", i, b.Left, b.Width)
		}
	}
	if v.Whole != time.Second || v.Bars[2].Left != "30.00%" || v.Bars[2].Width != "70.00%" || len(v.Ticks) != 6 {
		t.Errorf("%+v", v)
	}
}

func percentOf(t *testing.T, text string) (v float64) {
	t.Helper()
	if text == "" { // a note has no bar
		return 0
	}
	number, ok := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		t.Errorf("%q is no percentage", text)
	}
	return v
}

func TestTicks_AreRoundAndFew(t *testing.T) {
	for _, test := range []struct{ whole, want time.Duration }{
		{time.Microsecond, time.Microsecond / 5}, {4 * time.Millisecond, time.Millisecond}, {1430 * time.Millisecond, 500 * time.Millisecond},
		{9 * time.Second, 2 * time.Second}, {70 * time.Second, 10 * time.Second}, {14 * time.Minute, 2 * time.Minute}, {100 * time.Hour, 15 * time.Hour},
	} {
		step := tickStep(test.whole)
		if n := test.whole / step; step != test.want || n < 2 || n > 7 {
			t.Errorf("%s has a mark every %s, want %s", test.whole, step, test.want)
		}
	}
}

func TestWaterfall_DrawsSpansBehindMessage(t *testing.T) {
	at := time.Unix(0, 0)
	c := &chain.Chain{}
	record := func(id string, after time.Duration, content string) {
		m := &read.Message{ID: id, Type: "agent_event", From: "agent:a", Payload: []byte(`{"content":` + content + `}`)}
		for _, end := range []time.Duration{0, time.Millisecond} {
			m.Rows = append(m.Rows, activitylog.Entry{TS: protocol.FormatTime(at.Add(after + end))})
		}
		c.Steps = append(c.Steps, chain.Step{Message: m})
	}
	record("decision", 0, `{"event":"attention_decision","eventId":"e"}`)
	record("started", time.Second, `{"event":"turn","eventId":"e","turnId":"t","state":"started"}`)
	record("finished", 4*time.Second, `{"event":"turn","eventId":"e","turnId":"t","state":"finished"}`)
	record("started", 5*time.Second, `{"event":"turn","eventId":"e","turnId":"t","state":"started"}`)
	v := newMessageView(c)
	wait, turn := &v.Bars[0], &v.Bars[1]
	if wait.Span.Kind != "wait" || wait.Lasted() != time.Second || turn.Span.Kind != "turn" || turn.Lasted() != 3*time.Second || v.Bars[2].Span.Kind+v.Bars[3].Span.Kind != "" {
		t.Errorf("wait %q %s, turn %q %s", wait.Span.Kind, wait.Lasted(), turn.Span.Kind, turn.Lasted())
	}
	if left, width := percentOf(t, turn.SpanLeft), percentOf(t, turn.SpanWidth); left < 19 || left+width > 100 || width < 55 {
		t.Errorf("the turn is drawn at %s, %s wide", turn.SpanLeft, turn.SpanWidth)
	}
}

// A slowReader is a visitor who reads an answer late: a row comes first.
type slowReader struct {
	*httptest.ResponseRecorder
	model *readModel
	t     *testing.T
}

func (s *slowReader) Write(b []byte) (int, error) {
	if !s.model.mu.TryLock() {
		s.t.Error("no row can be applied while the answer is sent")
		return len(b), nil
	}
	s.model.mu.Unlock()
	return s.ResponseRecorder.Write(b)
}

// TestPage_SlowReaderDoesNotHoldModel checks that the model may change while a
// page is sent.
func TestPage_SlowReaderDoesNotHoldModel(t *testing.T) {
	c := New(noBus{}, nil, nil)
	c.model.chat("tg:1")
	for _, page := range []string{"", "agents", "agent?id=agent:a", "chat?id=tg:1", "peer?id=tg:1", "work", "decisions", "owed", "health", "item?id=none", "message?id=none", "state.json"} {
		w := &slowReader{httptest.NewRecorder(), c.model, t}
		c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/"+page, nil))
		if w.Body.Len() == 0 {
			t.Errorf("%q has no answer", page)
		}
	}
}
