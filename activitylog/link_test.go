package activitylog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestCluesOfAMessage(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for payload, want := range map[string]clues{
		`{"type":"tg_reply","from":"agent:a","inReplyTo":"x","content":{"inReplyTo":"y","eventId":"z"}}`: {typ: "tg_reply", from: "agent:a", answers: []string{"x", "y", "z"}},
		`{"type":"tg_reply","from":"agent:a","inReplyTo":"m"}`:                                           {typ: "tg_reply", from: "agent:a"}, // itself
		`{"type":"tg_message","from":"tg:1","content":{"sourceId":"s","createdAt":"2026-02-17T12:00:00Z","requestId":"r"}}`: {
			typ: "tg_message", from: "tg:1", sourceID: "s", createdAt: epoch, requestID: "r", route: "tg:1\x00agent:t"},
		`{"type":"chat_message","from":"tg:1","content":{"createdAt":"noon"}}`:                                {typ: "chat_message", from: "tg:1", sourceID: "m", route: "tg:1\x00agent:t"},
		`{"type":"chat_message","content":{}}`:                                                                {typ: "chat_message", sourceID: "m"},
		`{"type":"configure","from":"tg:1","content":{"talkTo":"tg:2"}}`:                                      {typ: "configure", from: "tg:1", route: "tg:2\x00agent:t"},
		`{"type":"configure","from":"tg:1","content":{}}`:                                                     {typ: "configure", from: "tg:1"},
		`{"type":"route_assigned","from":"agent:s","content":{"topic":"tg:1","agent":"agent:a"}}`:             {typ: "route_assigned", from: "agent:s", route: "tg:1\x00agent:a"},
		`{"type":"route_assigned","from":"agent:s","content":{"topic":"tg:1"}}`:                               {typ: "route_assigned", from: "agent:s"},
		`{"type":"delivery_status","from":"tg:1","content":{"messageId":"x","sourceId":"y","inReplyTo":"z"}}`: {typ: "delivery_status", from: "tg:1", answers: []string{"x", "y", "z"}},
		`{"type":"tg_reply","from":"tg:1","content":{"messageId":"x","sourceId":"y"}}`:                        {typ: "tg_reply", from: "tg:1"},
		`{"type":"tg_reply","traceparent":"00-` + trace + `-b7ad6b7169203331-01"}`:                            {typ: "tg_reply", trace: trace},
		`{"type":"tg_reply","traceparent":"00-` + trace + `-b7ad6b7169203331"}`:                               {typ: "tg_reply"},
		`{"type":"tg_reply","traceparent":"00-` + trace + `0-b7ad6b7169203331-01-more"}`:                      {typ: "tg_reply"},
		`{"type":"tg_reply","traceparent":"00-` + trace + `-b7ad6b7169203331-01-more"}`:                       {typ: "tg_reply", trace: trace},
		`?`: {},
	} {
		want.id, want.topic, want.at = "m", "agent:t", epoch
		got := cluesOf(&Entry{MessageID: "m", Topic: "agent:t", TS: protocol.FormatTime(epoch), Payload: []byte(payload)})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(clues{})); diff != "" {
			t.Errorf("%s:\n%s", payload, diff)
		}
	}
}

// TestWhatCausedAMessage: the surest reason that there is, by the last message before it that
// fits, or else the first behind it.
func TestWhatCausedAMessage(t *testing.T) {
	at := func(minutes int) time.Time { return epoch.Add(time.Duration(minutes) * time.Minute) }
	answer := func(id string, answers ...string) clues { return clues{id: id, from: "agent:a", answers: answers} }
	chat := func(id, topic, source string) clues {
		return clues{id: id, typ: protocol.TypeTGMessage, from: "tg:1", topic: topic, sourceID: source, route: "tg:1\x00" + topic}
	}
	request := func(id string, typ protocol.MessageType, r string) clues {
		return clues{id: id, typ: typ, requestID: r}
	}
	route := func(id string, typ protocol.MessageType) clues {
		return clues{id: id, typ: typ, route: "tg:1\x00agent:a", at: at(10)}
	}
	late := func(c clues, minutes int) clues { c.createdAt = at(minutes); return c }
	traced := func(c clues) clues { c.trace = "t"; return c }
	for name, c := range map[string]struct {
		all  []clues
		want string // the cause of each
	}{
		"nothing":                          {[]clues{answer("a"), answer("b", "x")}, "- -"},
		"an answer":                        {[]clues{answer("a"), answer("b", "a")}, "- a:answers"},
		"the surest of two":                {[]clues{answer("a"), answer("b"), answer("c", "b", "a")}, "- - b:answers"},
		"one of two is known":              {[]clues{answer("a"), answer("c", "b", "a")}, "- a:answers"},
		"by a source":                      {[]clues{chat("a", "agent:b", "s"), answer("b", "s")}, "- a:answers"},
		"by the source that came to it":    {[]clues{chat("a", "agent:a", "s"), chat("b", "agent:b", "s"), answer("c", "s")}, "- - a:answers"},
		"by its id before a source":        {[]clues{chat("s", "agent:b", "x"), chat("b", "agent:a", "s"), answer("c", "s")}, "- - s:answers"},
		"the last of two sources":          {[]clues{chat("a", "agent:a", "s"), chat("b", "agent:a", "s"), answer("c", "s")}, "- - b:answers"},
		"one that comes later":             {[]clues{answer("b", "a"), answer("a"), answer("a")}, "a:answers - -"},
		"the first of those later":         {[]clues{answer("c", "s"), chat("a", "agent:a", "s"), chat("b", "agent:a", "s")}, "a:answers - -"},
		"none later, if one is before":     {[]clues{chat("a", "agent:a", "s"), answer("c", "s"), chat("b", "agent:a", "s")}, "- a:answers -"},
		"itself, sent twice":               {[]clues{chat("a", "agent:a", "s"), chat("a", "agent:b", "s"), {id: "a", answers: []string{"s"}}}, "- - -"},
		"the result of a spawn":            {[]clues{request("a", protocol.TypeSpawnRequest, "r"), request("b", protocol.TypeSpawnResult, "r")}, "- a:requestId"},
		"a route that was asked for":       {[]clues{request("a", protocol.TypeSpawnRequest, "r"), request("b", protocol.TypeRouteAssigned, "r")}, "- a:requestId"},
		"the result of work":               {[]clues{request("a", protocol.TypeCollabRequest, "r"), request("b", protocol.TypeCollabResult, "r")}, "- a:requestId"},
		"another request":                  {[]clues{request("a", protocol.TypeSpawnRequest, "q"), request("b", protocol.TypeSpawnResult, "r")}, "- -"},
		"a request of no id":               {[]clues{request("a", protocol.TypeSpawnRequest, ""), request("b", protocol.TypeSpawnResult, "")}, "- -"},
		"a result is no request":           {[]clues{request("a", protocol.TypeSpawnResult, "r"), request("b", protocol.TypeSpawnResult, "r")}, "- -"},
		"what answers no request":          {[]clues{request("a", protocol.TypeSpawnRequest, "r"), request("b", protocol.TypeTGReply, "r")}, "- -"},
		"configured by its route":          {[]clues{route("a", protocol.TypeRouteAssigned), route("b", protocol.TypeConfigure)}, "- a:route"},
		"the first chat message":           {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s")}, "- a:bootstrap"},
		"of another chat":                  {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:b", "s")}, "- -"},
		"the second, written later":        {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), late(chat("c", "agent:a", "t"), 11)}, "- a:bootstrap -"},
		"the second, written at the time":  {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), late(chat("c", "agent:a", "t"), 10)}, "- a:bootstrap -"},
		"the second, written before":       {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), late(chat("c", "agent:a", "t"), 9)}, "- a:bootstrap a:bootstrap"},
		"the second, of no time":           {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), chat("c", "agent:a", "t")}, "- a:bootstrap -"},
		"one trace":                        {[]clues{traced(answer("a")), traced(answer("b")), traced(answer("c"))}, "- a:trace a:trace"},
		"an answer in a trace":             {[]clues{traced(answer("a")), traced(answer("b")), traced(answer("c", "b"))}, "- a:trace b:answers"},
		"a trace of others":                {[]clues{traced(answer("a")), answer("b")}, "- -"},
		"two of one cause, told by one id": {[]clues{answer("a"), answer("b", "a"), answer("b", "a")}, "- a:answers a:answers"},
	} {
		l := newLinker(c.all)
		var got []string
		for i := range c.all {
			cause, reason := l.parent(i)
			if cause < 0 {
				got = append(got, "-")
			} else {
				got = append(got, c.all[cause].id+":"+reason)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s; want %s", name, s, c.want)
		}
	}
}

// TestTheStepsOfAChain: causes and consequences, each once, as many as are asked for.
func TestTheStepsOfAChain(t *testing.T) {
	answer := func(id string, answers ...string) clues { return clues{id: id, answers: answers} }
	all := []clues{answer("root"), answer("a", "root"), answer("b", "a"), answer("c", "b"), answer("d", "b"), answer("e", "c"), answer("f"), answer("a", "root")}
	loop := []clues{answer("x", "y"), answer("y", "x"), answer("z", "y")}
	for _, c := range []struct {
		all   []clues
		id    string
		limit int
		want  string
		cut   bool
	}{
		{all, "root", 9, "| root0 a1 b2 c3 e4 d3", false},
		{all, "b", 9, "root0 a1 | b2 c3 e4 d3", false},
		{all, "b", 4, "root0 a1 | b2 c3 e4 d3", false},
		{all, "b", 3, "root0 a1 | b2 c3 e4", true},
		{all, "b", 1, "root0 a1 | b2", true},
		{all, "f", 1, "| f0", false},
		{all, "e", 1, "root0 a1 b2 c3 | e4", false},
		{all, "nobody", 9, "|", false},
		{loop, "x", 9, "y0 | x1", false},
		{loop, "z", 9, "x0 y1 | z2", false},
	} {
		chain := planChain(c.all, c.id, c.limit)
		got := ""
		for _, s := range chain.Causes {
			got += fmt.Sprint(s.ID, s.Depth, " ")
		}
		got += "|"
		for _, s := range chain.Steps {
			got += fmt.Sprint(" ", s.ID, s.Depth)
		}
		if got != c.want || chain.Cut != c.cut {
			t.Errorf("of %s, at most %d: %s, cut %t; want %s", c.id, c.limit, got, chain.Cut, c.want)
		}
	}
}

// TestHowFarAChainReaches: fifteen minutes from the message, unless it is told otherwise.
func TestHowFarAChainReaches(t *testing.T) {
	s := newScript(t)
	s.now = epoch.Add(-time.Millisecond)
	s.send("cause", `{"type":"tg_message","from":"tg:1"}`, "tg:1", "agent:a")
	s.now = epoch.Add(15*time.Minute - 2*time.Millisecond)
	s.send("near", `{"type":"tg_reply","from":"agent:a","inReplyTo":"cause"}`, "agent:a", "tg:1")
	s.now = epoch.Add(30*time.Minute - time.Millisecond)
	s.send("far", `{"type":"tg_reply","from":"agent:a","inReplyTo":"cause"}`, "agent:a", "tg:1")
	r := opened(t, s.written(""))
	for id, want := range map[string]string{"cause": "cause near", "near": "cause near", "far": "far"} {
		c, err := r.Chain(t.Context(), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, step := range append(c.Causes, c.Steps...) {
			got += " " + step.ID
		}
		if strings.TrimSpace(got) != want || c.Cut {
			t.Errorf("the chain of %s is%s; want %s", id, got, want)
		}
	}
	for within, want := range map[time.Duration]int{time.Hour: 3, time.Minute: 1} {
		if c, err := r.Chain(t.Context(), "cause", &ChainOptions{Within: within}); err != nil || len(c.Steps) != want {
			t.Errorf("within %s there are %d steps, %v; want %d", within, len(c.Steps), err, want)
		}
	}
}

// TestTheStateOfAMessage, of its first and last row.
func TestTheStateOfAMessage(t *testing.T) {
	none := &Message{}
	if !none.Begin().IsZero() || !none.End().IsZero() || none.Status() != "" {
		t.Errorf("a message without rows: %s, %s, %q", none.Begin(), none.End(), none.Status())
	}
	m := &Message{Rows: []Entry{{TS: protocol.FormatTime(epoch)}, {TS: protocol.FormatTime(epoch.Add(time.Second))}}}
	if !m.Begin().Equal(epoch) || !m.End().Equal(epoch.Add(time.Second)) {
		t.Errorf("from %s to %s", m.Begin(), m.End())
	}
	m.Refusals = []Entry{{}}
	if m.Status() != "rejected" {
		t.Errorf("refused, it is %q", m.Status())
	}
	m.Publications = []*Publication{{Leg: Leg{Status: "failed"}}, {Leg: Leg{Status: "ok"}}}
	if m.Status() != "ok" {
		t.Errorf("sent again, it is %q", m.Status())
	}
	for _, l := range []Leg{{}, {Start: epoch}, {Finish: epoch}} {
		if l.Duration() != 0 {
			t.Errorf("%+v took %s", l, l.Duration())
		}
	}
	if l := (Leg{Start: epoch, Finish: epoch.Add(time.Second)}); l.Duration() != time.Second {
		t.Errorf("it took %s", l.Duration())
	}
}

// TestRowsFindTheirPass: by the sending that they tell of, by their request, by their topic,
// or else the latest.
func TestRowsFindTheirPass(t *testing.T) {
	row := func(event Event, rpc, actor, topic string) Entry {
		return Entry{Event: event.String(), MessageID: "m", RPCID: rpc, Actor: actor, Topic: topic, Bus: "east", TS: protocol.FormatTime(epoch)}
	}
	start := func(rpc, topic string) Entry { return row(SendStart, rpc, "tg:1", topic) }
	with := func(e Entry, change func(*Entry)) Entry { change(&e); return e }
	sending := func(id int64) func(*Entry) { return func(e *Entry) { e.Sent = id } }
	for name, c := range map[string]struct {
		rows []Entry
		want string // for each row the number of its pass; and of the deliveries of each
	}{
		"one":                              {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a"), row(SendFinish, "1", "tg:1", "a")}, "0000 1"},
		"sent again when it was finished":  {[]Entry{start("1", "a"), row(SendFinish, "1", "tg:1", "a"), start("2", "a"), row(ProcessStart, "7", "p", "a")}, "0011 0 1"},
		"sent again while it goes on":      {[]Entry{start("1", "a"), start("2", "a"), row(SendFinish, "1", "tg:1", "a"), row(SendFinish, "2", "tg:1", "a")}, "0101 0 0"},
		"finished by another bus":          {[]Entry{start("1", "a"), with(row(SendFinish, "1", "tg:1", "a"), func(e *Entry) { e.Bus = "west" })}, "01 0 0"},
		"finished by another request":      {[]Entry{start("1", "a"), row(SendFinish, "2", "tg:1", "a")}, "01 0 0"},
		"finished, and then begun":         {[]Entry{row(SendFinish, "1", "tg:1", "a"), start("1", "a")}, "01 0 0"},
		"a delivery before its start":      {[]Entry{row(ProcessStart, "7", "p", "a"), start("1", "a"), row(SendFinish, "1", "tg:1", "a")}, "000 1"},
		"a delivery before its finish":     {[]Entry{row(ProcessStart, "7", "p", "a"), row(SendFinish, "1", "tg:1", "a")}, "00 1"},
		"by the topic":                     {[]Entry{start("1", "a"), start("2", "b"), row(ProcessStart, "7", "p", "a"), row(ProcessStart, "8", "p", "b")}, "0101 1 1"},
		"of no topic, the latest":          {[]Entry{start("1", "a"), start("2", "b"), row(ProcessStart, "7", "p", "c")}, "011 0 1"},
		"an end by its request":            {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), start("2", "a"), row(ProcessFinish, "7", "p", "a")}, "0010 1 0"},
		"an end of another peer":           {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "q", "a")}, "000 2"},
		"an end of another request":        {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "8", "p", "a")}, "000 2"},
		"ended twice":                      {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a"), row(ProcessFinish, "7", "p", "a")}, "0000 2"},
		"an end without a begin":           {[]Entry{row(ProcessFinish, "7", "p", "a"), start("1", "a")}, "00 1"},
		"an end of no topic":               {[]Entry{start("1", "a"), start("2", "b"), row(ProcessFinish, "7", "p", "c")}, "011 0 1"},
		"by the sending":                   {[]Entry{with(start("1", "a"), func(e *Entry) { e.ID = 1 }), with(start("2", "a"), func(e *Entry) { e.ID = 2 }), with(row(ProcessStart, "7", "p", "a"), sending(1)), with(row(SendFinish, "2", "tg:1", "a"), sending(1))}, "0100 1 0"},
		"by the sending of another log":    {[]Entry{with(start("1", "a"), func(e *Entry) { e.ID = 1 }), with(start("2", "a"), func(e *Entry) { e.ID = 2 }), with(row(ProcessStart, "7", "p", "a"), func(e *Entry) { e.Sent, e.Log = 1, 1 })}, "011 0 1"},
		"what is none of it":               {[]Entry{start("1", "a"), row(Rejected, "1", "tg:1", "a"), row(Subscribe, "1", "tg:1", "a")}, "0-- 0"},
		"deliveries that ended are passed": {[]Entry{start("1", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a"), row(ProcessStart, "7", "p", "a"), row(ProcessFinish, "7", "p", "a")}, "00000 2"},
	} {
		var a Assembler
		var passes []*Publication
		got := ""
		for i := range c.rows {
			p, _ := a.Add(&c.rows[i])
			if p == nil {
				got += "-"
				continue
			}
			at := 0
			for at < len(passes) && passes[at] != p {
				at++
			}
			if at == len(passes) {
				passes = append(passes, p)
			}
			got += fmt.Sprint(at)
		}
		for _, p := range passes {
			got += fmt.Sprint(" ", len(p.Deliveries))
		}
		if got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
