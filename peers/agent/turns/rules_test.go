package turns

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// heldAt is a message that came the given number of seconds after noon.
func heldAt(id string, seconds float64, change ...func(e *mailbox.Entry)) *mailbox.Entry {
	e := &mailbox.Entry{
		EventID: id, Chat: "tg:42", ReceivedAt: noon.Add(time.Duration(seconds * float64(time.Second))),
		Content: protocol.ChatMessage{
			Event: protocol.EventMessage, Chat: &protocol.Chat{ID: "42", Kind: "dm"}, Author: &protocol.Author{ID: "77", Kind: "human"},
		},
		Decision: attention.Decision{Injection: attention.ModeBuffered},
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func mode(m attention.Mode) func(e *mailbox.Entry) {
	return func(e *mailbox.Entry) { e.Decision.Injection = m }
}

func author(id string) func(e *mailbox.Entry) {
	return func(e *mailbox.Entry) { e.Content.Author.ID = id }
}

func thread(id string) func(e *mailbox.Entry) {
	return func(e *mailbox.Entry) { e.Content.Chat.ThreadID = id }
}

// typed is when the author 77 typed, in seconds.
func typed(from, last float64) map[string]typingSpan {
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	return map[string]typingSpan{"77": {at(from), at(last)}}
}

// TestGroupFragments_ByAuthorThreadAndWindow checks that messages of one author in one thread
// within 2 s, or with typing in between, and within 5 s in total (20 s with typing), are one
// turn, due at the first limit.
func TestGroupFragments_ByAuthorThreadAndWindow(t *testing.T) {
	for name, c := range map[string]struct {
		held  []*mailbox.Entry
		typed map[string]typingSpan
		want  string // "ids due in seconds", one for each group
	}{
		"one":                 {[]*mailbox.Entry{heldAt("a", 0)}, nil, "a 2"},
		"two":                 {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 1)}, nil, "ab 3"},
		"at the window's end": {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 2)}, nil, "ab 4"},
		"after the window":    {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 2.1)}, nil, "a 2, b 4.1"},
		"up to the cap":       {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 2), heldAt("c", 4), heldAt("d", 5)}, nil, "abcd 5"},
		"beyond the cap":      {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 2), heldAt("c", 4), heldAt("d", 5.1)}, nil, "abc 5, d 7.1"},
		"two authors":         {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 1, author("78")), heldAt("c", 1.5)}, nil, "ac 3.5, b 3"},
		"two threads":         {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 1, thread("T"))}, nil, "a 2, b 3"},
		"at once":             {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 1, mode(attention.ModeImmediate))}, nil, "ab 1"},
		"a knock alone":       {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 1, mode(attention.ModeNotify)), heldAt("c", 1.5)}, nil, "a 2, b 1, c 3.5"},
		"an edit alone": {
			[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 1, func(e *mailbox.Entry) { e.Content.Event = protocol.EventEdit })}, nil, "a 2, b 3",
		},
		"typing holds":            {[]*mailbox.Entry{heldAt("a", 0)}, typed(1, 3), "a 13"},
		"typing until all came":   {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 4)}, typed(1, 3), "ab 6"},
		"typing up to the cap":    {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 20)}, typed(1, 15), "ab 20"},
		"typing beyond the cap":   {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 20.1)}, typed(1, 15), "a 20, b 22.1"},
		"typing as long as it is": {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 11)}, typed(1, 1), "ab 13"},
		"typing no more":          {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 11.1)}, typed(1, 1), "a 11, b 13.1"},
		"typed before":            {[]*mailbox.Entry{heldAt("a", 0)}, typed(-3, 0), "a 2"},
		"typing just in time":     {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 4)}, typed(2, 3), "ab 6"},
		"typing too late":         {[]*mailbox.Entry{heldAt("a", 0), heldAt("b", 4)}, typed(2.1, 3), "a 2, b 6"},
		"somebody else types":     {[]*mailbox.Entry{heldAt("a", 0, author("78"))}, typed(1, 1), "a 2"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			limit := 5 * time.Second
			if c.typed != nil {
				limit *= 4
			}
			for _, g := range groupHeld(c.held, 2*time.Second, limit, func(e *mailbox.Entry) typingSpan { return c.typed[e.Content.Author.ID] }) {
				var ids strings.Builder
				for _, e := range g.events {
					ids.WriteString(e.EventID)
				}
				got = append(got, fmt.Sprint(ids.String(), " ", g.due.Sub(noon).Seconds()))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("got %q; want %q", strings.Join(got, ", "), c.want)
			}
		})
	}
}

func TestSoonest_OfTwoTimes(t *testing.T) {
	later := noon.Add(1)
	for _, c := range [][3]time.Time{
		{{}, {}, {}}, {noon, {}, noon}, {{}, noon, noon}, {noon, later, noon}, {later, noon, noon}, {noon, noon, noon},
	} {
		if got := earliest(c[0], c[1]); !got.Equal(c[2]) {
			t.Errorf("of %v and %v it is %v", c[0], c[1], got)
		}
	}
}

// TestRetryDelay_DoublesOrIsTheRequestedOne checks the pause after each failure.
func TestRetryDelay_DoublesOrIsTheRequestedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Runner{opts: Options{FirstRetry: 2 * time.Second}}
		later := func(after time.Duration) error {
			return fmt.Errorf("asked: %w", &harness.RetryLaterError{After: after, Err: errors.New("busy")})
		}
		for _, c := range []struct {
			failures int
			failure  error
			want     time.Duration
		}{
			{0, harness.ErrTemporary, 2 * time.Second}, {1, harness.ErrTemporary, 4 * time.Second}, {3, harness.ErrTemporary, 16 * time.Second},
			{0, later(time.Minute), time.Minute}, {3, later(time.Second), 16 * time.Second},
		} {
			if got := time.Until(r.retryAt(&mailbox.Turn{Failures: c.failures}, c.failure)); got != c.want {
				t.Errorf("after %d failures and %v it waits %v; want %v", c.failures, c.failure, got, c.want)
			}
		}
	})
}

func TestSource_OfAnEvent(t *testing.T) {
	for chat, want := range map[protocol.Topic]string{"tg:42": "telegram", "chorus:ops": "chorus", "collab": "bus", "cli:will": "cli"} {
		if got := platformOf(chat); got != want {
			t.Errorf("%s is on %s; want %s", chat, got, want)
		}
	}
	r := &Runner{opts: Options{Settings: mailbox.Settings{Self: attention.Self{ID: "agent:lead", Roles: []string{"sre", "role:ops"}}}}}
	for mention, want := range map[string]bool{
		"agent:lead": true, "role:sre": true, "role:ops": true, "agent:w9": false, "role:lead": false, "sre": false, "role:role:ops": false,
	} {
		if r.meant(mention) != want {
			t.Errorf("%s means the agent: %v; want %v", mention, !want, want)
		}
	}
}

// TestThreadSlots_AreHeldUntilAccepted checks that a turn holds its thread until it was accepted
// or has ended, and that turns of one thread start in order.
func TestThreadSlots_AreHeldUntilAccepted(t *testing.T) {
	rs := &executions{byID: map[string]*execution{}, entering: map[string]chan struct{}{}}
	stopped := map[string]error{}
	begin := func(id, place string, accepted bool) {
		rs.byID[id] = &execution{threadKey: place, accepted: accepted, cancel: func(why error) { stopped[id] = why }}
	}
	begin("t1", "p", false)
	begin("t2", "q", true)
	for _, c := range [][3]string{{"p", "t9", "t1"}, {"q", "t9", ""}, {"r", "t9", ""}, {"r", "t1", "t1"}} {
		if got := rs.holder(c[0], c[1]); got != c[2] {
			t.Errorf("for %s, %s is held by %q; want %q", c[1], c[0], got, c[2])
		}
	}
	if all, there := rs.busy("tg:1"); all != 1 || there != 0 {
		t.Errorf("%d turns are busy, %d in another chat; want the one that was not accepted", all, there)
	}
	why := errors.New("because")
	for id, want := range map[string][2]bool{"t1": {true, false}, "t2": {true, true}, "t9": {false, true}} {
		if running, tell := rs.stop(id, why); running != want[0] || tell != want[1] {
			t.Errorf("stopping %s gives %v and %v; want %v", id, running, tell, want)
		}
	}
	if len(stopped) != 2 || stopped["t1"] != why {
		t.Errorf("stopped were %v", stopped)
	}

	first, enter1 := rs.enqueue("p")
	second, enter2 := rs.enqueue("p")
	third, enter3 := rs.enqueue("p")
	if other, _ := rs.enqueue("q"); first != nil || other != nil {
		t.Error("the first of a place waits")
	}
	open := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if open(second) || open(third) {
		t.Error("nobody has entered yet")
	}
	enter1()
	enter1()
	if !open(second) || open(third) {
		t.Error("the second follows the first, and the third the second")
	}
	enter2()
	enter3()
	if again, _ := rs.enqueue("p"); !open(third) || again != nil {
		t.Error("a place remembers those who have entered")
	}
}

// TestChatShare_IsHalfOfTheTurns also checks that it is at least one.
func TestChatShare_IsHalfOfTheTurns(t *testing.T) {
	for _, c := range []struct {
		all, there, most int
		want             string
	}{
		{0, 0, 8, ""}, {7, 3, 8, ""}, {4, 4, 8, "the limit of 4 running turns in one chat is reached"}, {8, 0, 8, "the limit of 8 running turns is reached"},
		{0, 0, 1, ""}, {1, 0, 1, "the limit of 1 running turn is reached"}, {1, 1, 3, "the limit of 1 running turn in one chat is reached"},
	} {
		if got := full(c.all, c.there, c.most); got != c.want {
			t.Errorf("%d run, %d here, %d may: %q", c.all, c.there, c.most, got)
		}
	}
}
