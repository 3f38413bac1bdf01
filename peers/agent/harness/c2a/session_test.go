package c2a

import (
	"slices"
	"testing"

	"hubbub/peers/agent/harness"

	"pgregory.net/rapid"
)

func TestParseFrame(t *testing.T) {
	for line, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":"a","result":{}}`: true, `{"id":7,"error":{"code":1,"message":"m"}}`: true,
		`{"method":"x"}`: true, `{"id":null,"method":"x"}`: true,
		`{}`: false, `[]`: false, `null`: false, `"x"`: false, `{"id":1,"method":3}`: false, `{"error":"text","id":1}`: false, "": false,
	} {
		f, err := parseFrame([]byte(line))
		if (err == nil) != ok {
			t.Errorf("%s: %v, %v", line, f, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parseFrame(rapid.SliceOf(rapid.Byte()).Draw(t, "line")) //nolint:errcheck // it must only not panic
	})
}

func TestTools_ListFollowsCapabilities(t *testing.T) {
	n, err := negotiate(Version0602, []byte(`{"capabilities":{"chatTools":{"react":true,"claim":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, name := range []string{"chat.list_events", "chat.send_message", "chat.react", "chat.claim", "work.create"} {
		for _, tool := range n.callableTools([]harness.Tool{{Name: name}}) {
			shown = append(shown, tool.Name)
		}
	}
	if want := []string{"chat.list_events", "chat.react", "chat.claim", "work.create"}; !slices.Equal(shown, want) {
		t.Errorf("shown %v, want %v", shown, want)
	}
	if n.callableTools(nil) == nil {
		t.Error("a host without tools lists null")
	}
}

func TestCapabilities_InterruptRequiresCancellation(t *testing.T) {
	for answer, want := range map[string]bool{
		`{"capabilities":{"injection":{"interrupt":true},"utilities":{"cancellation":true}}}`: true,
		`{"capabilities":{"injection":{"interrupt":true},"utilities":{}}}`:                    false,
		`{"capabilities":{"injection":{},"utilities":{"cancellation":true}}}`:                 false,
	} {
		n, err := negotiate(Version0602, []byte(answer))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.capabilities().Injection.Interrupt; got != want {
			t.Errorf("%s: interrupts are %t, want %t", answer, got, want)
		}
	}
}

// TestCall_IsStaleAfterAChange checks that a call counts only if the program had accepted the
// newest text before, in any order of edits, answers and calls.
func TestCall_IsStaleAfterAChange(t *testing.T) {
	line := func(s *session, line string) *frame {
		f, err := parseFrame([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		s.dispatch(f)
		return f
	}
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat.send_message","arguments":{"inReplyTo":"e1","text":"old"}}}`
	accept := func(s *session, id string) {
		line(s, `{"jsonrpc":"2.0","id":"`+id+`","result":{"accepted":true}}`)
	}
	for name, withdraw := range map[string]func(h *Harness, d *delivery){
		"accepted":     func(h *Harness, d *delivery) { h.acceptLocked("d1"); h.Cancel("t1", "edited") },
		"not answered": func(h *Harness, d *delivery) { h.withdraw(d, errNotReading) },
	} {
		h := New([]string{"program"}, nil)
		s := &session{h: h, out: make(chan []byte, 8), calls: make(chan *frame, 8), agreed: &negotiated{}, open: map[string]*frame{}}
		h.supervisor.SetCurrent(s)
		deliver := func(id string) *delivery {
			d := &delivery{turn: &harness.Turn{ID: "t1", Event: harness.Event{EventID: "e1", Revision: "words of " + id}}, ids: []string{id}, lastID: id, sentTo: s, done: make(chan struct{})}
			h.enqueueLocked(d)
			return d
		}
		first := deliver("d1")
		early := line(s, call)
		if early.stale || h.isStale(early.event()) {
			t.Errorf("%s: a call about the first words is refused", name)
		}
		withdraw(h, first)
		if f := line(s, call); !f.stale || !h.isStale(f.event()) {
			t.Errorf("%s: a call after the change is taken", name)
		}
		deliver("d2")
		accept(s, "d1") // too late
		queued := line(s, call)
		if !queued.stale {
			t.Errorf("%s: a call before the newer words were accepted is taken", name)
		}
		accept(s, "d2")
		if h.isStale("e1") || !queued.stale {
			t.Errorf("%s: after the acceptance, calls are refused, or one from before is taken", name)
		}
		newest := line(s, call)
		if newest.stale {
			t.Errorf("%s: a call about the newest words is refused", name)
		}
		if early.turn != "t1" || early.revision != "words of d1" || newest.revision != "words of d2" { // tools refuse a late call by it
			t.Errorf("%s: of the calls about the first and the newest words, one is about %q, one about %q", name, early.revision, newest.revision)
		}
	}
}
