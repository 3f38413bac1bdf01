package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func second(n float64) time.Time {
	return noon.Add(time.Duration(n * float64(time.Second))).Round(time.Millisecond)
}

func leg(from, until float64, status string) activitylog.Leg {
	l := activitylog.Leg{Start: second(from), Status: status}
	if until > 0 {
		l.Finish = second(until)
	}
	return l
}

// step is a message that is first seen at from; its last row is at until.
func step(id string, depth int, from, until float64, passes ...*activitylog.Publication) chain.Step {
	row := func(n float64) activitylog.Entry { return activitylog.Entry{TS: second(n).Format(time.RFC3339Nano)} }
	return chain.Step{Depth: depth, Reason: "answers", Message: &read.Message{
		ID: id, Type: "tg_message", Topic: "agent:lead", Publications: passes, Rows: []activitylog.Entry{row(from), row(until)},
	}}
}

func pass(topic string, l activitylog.Leg, deliveries ...*activitylog.Delivery) *activitylog.Publication {
	return &activitylog.Publication{Leg: l, Topic: topic, Deliveries: deliveries}
}

func to(peer string, l activitylog.Leg) *activitylog.Delivery {
	return &activitylog.Delivery{Leg: l, Peer: peer}
}

// bars writes a waterfall, a line for each bar.
func bars(w *view.Waterfall) string {
	var b strings.Builder
	for _, bar := range w.Bars {
		end := "open"
		if !bar.Open() {
			end = fmt.Sprint(bar.Finish.Sub(noon).Seconds())
		}
		if bar.Kind == view.BarNote {
			fmt.Fprintf(&b, "%d note %s self=%v\n", bar.Depth, bar.Note, bar.Self)
			continue
		}
		fmt.Fprintf(&b, "%d %s %s%s %s %v-%s", bar.Depth, bar.Kind, bar.Topic, bar.Peer, bar.Status, bar.Start.Sub(noon).Seconds(), end)
		for word, is := range map[string]bool{" self": bar.Self, " cause": bar.Cause} {
			if is {
				b.WriteString(word)
			}
		}
		b.WriteString(strings.TrimRight(" "+bar.Reason+" "+bar.Error, " ") + "\n")
	}
	return b.String()
}

// TestWaterfall_OfChain checks the bars: the causes, the message each time that it was
// sent, with its deliveries, and the effects with only their failed deliveries.
func TestWaterfall_OfChain(t *testing.T) {
	refused := step("m4", 1, 6, 6.5)
	refused.Refusals = []activitylog.Entry{{Error: "first"}, {Error: "may not"}}
	c := &chain.Chain{
		Causes: []chain.Step{step("m0", 0, 0, 1, pass("system:spawn", leg(0, 1, "ok"), to("agent:system", leg(0.2, 0.8, "ok"))))},
		Steps: []chain.Step{
			step("m1", 0, 2, 5,
				pass("tg:42", leg(2, 3, "partial"), to("tg:bot", leg(2.1, 2.9, "ok")), to("agent:b", leg(2.1, 2.5, "ok")), to("agent:c", leg(2.1, 2.2, "offline"))),
				pass("tg:42", leg(4, 5, "ok"), to("tg:bot", leg(4.1, 4.9, "ok"))),
				pass("system:log", leg(4.5, 0, ""))),
			step("m2", 1, 5, 6, pass("agent:lead", leg(5, 6, "failed"), to("agent:lead", leg(5.1, 5.2, "ok")), to("agent:d", leg(5.1, 5.3, "timeout")))),
			refused,
		},
	}
	const want = `0 message system:spawn ok 0-1 cause answers
0 message tg:42 partial 2-3 self answers
1 delivery tg:bot ok 2.1-2.9 self
1 delivery agent:c offline 2.1-2.2 self
1 note and 1 more peers self=true
0 message tg:42 ok 4-5 self sent again
1 delivery tg:bot ok 4.1-4.9 self
0 message system:log  4.5-open self also sent
1 message agent:lead failed 5-6 answers
2 delivery agent:d timeout 5.1-5.3
1 message agent:lead rejected 6-6.5 answers may not
`
	w := view.NewWaterfall(c, 1, 0)
	if got := bars(w); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !w.Begin.Equal(noon) || w.Whole != 6500*time.Millisecond || w.Place(second(3.25)) != 0.5 {
		t.Errorf("it begins at %v and lasts %v; the middle is at %v", w.Begin, w.Whole, w.Place(second(3.25)))
	}
	if got := bars(view.NewWaterfall(c, 9, 2)); strings.Count(got, " delivery ") != 4 || !strings.Contains(got, "and 1 more peers") {
		t.Errorf("with at most two deliveries a pass it is\n%s", got)
	}
	if w := view.NewWaterfall(&chain.Chain{Steps: []chain.Step{step("m", 0, 1, 1)}}, 1, 0); w.Whole != time.Microsecond || len(w.Bars) != 1 {
		t.Errorf("a moment lasts %v", w.Whole)
	}
}

// TestWaterfall_ShowsWaitsAndTurns checks that a decision waits for its turn and that a
// turn lasts until its end. Each appears once, at the message that begins it.
func TestWaterfall_ShowsWaitsAndTurns(t *testing.T) {
	record := func(id string, from float64, content string) chain.Step {
		s := step(id, 1, from, from+0.1, pass("system:attention", leg(from, from+0.1, "ok")), pass("system:attention", leg(from+0.01, from+0.1, "ok")))
		s.Type, s.From, s.Payload = "agent_event", "agent:lead", []byte(`{"content":`+content+`}`)
		return s
	}
	w := view.NewWaterfall(&chain.Chain{Steps: []chain.Step{
		step("m", 0, 0, 0.1),
		record("decided", 1, `{"event":"attention_decision","eventId":"e1"}`),
		record("started", 3, `{"event":"turn","eventId":"e1","turnId":"t1","state":"started"}`),
		record("ended", 7, `{"event":"turn","eventId":"e1","turnId":"t1","state":"finished"}`),
	}}, 1, 0)
	told := map[string]time.Duration{}
	for _, b := range w.Bars {
		if b.Span.Kind != "" {
			told[b.ID+" "+b.Span.Kind] += b.Lasted()
		}
	}
	if len(told) != 2 || told["decided "+chain.SpanWait] != 2*time.Second || told["started "+chain.SpanTurn] != 4*time.Second {
		t.Errorf("afterwards go on %v", told)
	}
}

func TestNameOf(t *testing.T) {
	for _, c := range []struct {
		typ, payload, want string
		told               bool
	}{
		{"agent_event", `{"content":{"event":"online"}}`, "online", true},
		{"agent_event", `{"content":{}}`, "agent_event", false},
		{"agent_event", `?`, "agent_event", false},
		{"tg_message", `{"content":{"event":"edit"}}`, "tg_message", false},
		{"", ``, "message", false},
	} {
		if name, told := view.NameOf(c.typ, []byte(c.payload)); name != c.want || told != c.told {
			t.Errorf("%s %s is named %q, %v", c.typ, c.payload, name, told)
		}
	}
}
