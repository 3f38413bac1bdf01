package mailbox

import (
	"testing"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

func TestReservedKeys_AreRefused(t *testing.T) {
	e := &Entry{EventID: "e1"}
	for key, reserved := range map[string]bool{
		"e1:reply": false, "mine": false, "": false, "reply": false, "react": false, "e1:replying": false, "failed": false,
		"e2:reply": true, "react:e1:done": true, "react:": true, "failed:e1": true, "failed:e9": true, "escalation:e1": true, "unclear:e1": true, "unclear": false, "interim:e1": true, "interim": false, "choice:e1": true, "chosen:e1": true, "choice": false, "decision:1": true, "decided:1": true, "file:1": true, "budget_1": true,
	} {
		if ReservedKey(key, e) != reserved {
			t.Errorf("%q is reserved: %v; want %v", key, !reserved, reserved)
		}
	}
}

func TestAudience_OfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		chat protocol.Chat
		want string
	}{
		{protocol.Chat{ID: "42", Kind: "dm"}, "dm"},
		{protocol.Chat{ID: "42", Kind: "dm", ThreadID: "7"}, "dm"},
		{protocol.Chat{ID: "C1", Kind: "channel"}, "channel"},
		{protocol.Chat{ID: "C1", Kind: "channel", ThreadID: "7"}, "thread"},
		{protocol.Chat{ID: "C1", Kind: "thread"}, "thread"},
		{protocol.Chat{ID: "C1", Kind: "system"}, "channel"},
	} {
		e := &Entry{Content: protocol.ChatMessage{Chat: &c.chat}}
		if got := e.Visibility(); got != c.want {
			t.Errorf("in %+v it is seen by the %s; want %s", c.chat, got, c.want)
		}
	}
}

func TestOutboxOrder_ByKindOfMessage(t *testing.T) {
	of := func(mode attention.Mode, p attention.Priority) *Entry {
		return &Entry{Decision: attention.Decision{Injection: mode, Priority: p}}
	}
	calm, urgent := attention.PriorityNormal, attention.PriorityUrgent
	for name, c := range map[string]struct {
		list []*Entry
		want int
	}{
		"a message":                       {[]*Entry{of(attention.ModeBuffered, calm)}, RankNormal},
		"an urgent message that may wait": {[]*Entry{of(attention.ModeBuffered, urgent)}, RankNormal},
		"one that may not wait":           {[]*Entry{of(attention.ModeImmediate, calm)}, RankImmediate},
		"an urgent one":                   {[]*Entry{of(attention.ModeImmediate, urgent)}, RankUrgent},
		"a message, then one at once":     {[]*Entry{of(attention.ModeBuffered, calm), of(attention.ModeImmediate, calm)}, RankImmediate},
		"one at once, then an urgent one": {[]*Entry{of(attention.ModeImmediate, calm), of(attention.ModeImmediate, urgent)}, RankUrgent},
	} {
		if got := rankOf(c.list); got != c.want {
			t.Errorf("%s has rank %d; want %d", name, got, c.want)
		}
	}
}

func TestMerge_TakesMessagesOnly(t *testing.T) {
	for _, c := range []struct {
		event  string
		mode   attention.Mode
		action attention.Action
		want   bool
	}{
		{protocol.EventMessage, attention.ModeBuffered, attention.ActionNone, true},
		{protocol.EventMessage, attention.ModeImmediate, attention.ActionReturn, true},
		{protocol.EventMessage, attention.ModeImmediate, attention.ActionLeave, false},
		{protocol.EventMessage, attention.ModeNotify, attention.ActionNone, false},
		{protocol.EventEdit, attention.ModeBuffered, attention.ActionNone, false},
		{protocol.EventAssignment, attention.ModeBuffered, attention.ActionNone, false},
	} {
		e := &Entry{Content: protocol.ChatMessage{Event: c.event}, Decision: attention.Decision{Injection: c.mode, Action: c.action}}
		if e.Mergeable() != c.want {
			t.Errorf("%s %s %s merges: %v; want %v", c.event, c.mode, c.action, !c.want, c.want)
		}
	}
}

func TestWake_AnswerGoesToItsConversation(t *testing.T) {
	for _, c := range []struct {
		origin Origin
		want   bool
	}{
		{Origin{}, false},
		{Origin{DeliveryID: "d", AnsweredID: "q", MessageID: "m"}, false},
		{Origin{QuestionID: "q"}, true},
		{Origin{ConversationID: "c"}, true},
		{Origin{FlightID: "f"}, true},
		{Origin{WorkItemID: "w"}, true},
	} {
		if c.origin.TakesText() != c.want {
			t.Errorf("%+v takes words: %v; want %v", c.origin, !c.want, c.want)
		}
	}
	if ReplyType("chorus:ops") != protocol.TypeChatReply || ReplyType("tg:42") != protocol.TypeTGReply {
		t.Error("a chat gets replies of the type of another")
	}
}

// TestLeave_IsRememberedForItsThread checks that the agent stays away from the thread or chat
// that it left until it is mentioned again.
func TestLeave_IsRememberedForItsThread(t *testing.T) {
	for _, c := range []struct {
		place participation
		want  bool
	}{
		{participation{}, false},
		{participation{joined: 5}, false},
		{participation{left: 5}, true},
		{participation{chatLeft: 5}, true},
		{participation{chatLeft: 5, joined: 3}, true},
		{participation{chatLeft: 5, joined: 7}, false},
	} {
		if c.place.hasLeft() != c.want {
			t.Errorf("%+v is gone: %v; want %v", c.place, !c.want, c.want)
		}
	}
}
