package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"hubbub/peers/attention"
)

func TestChatHost_ReturnsTheNewestEvents(t *testing.T) {
	for limit, want := range map[int]string{0: "e1 e2 e3", 2: "e2 e3", 3: "e1 e2 e3"} {
		c := newChat()
		for i := range 3 {
			c.add(&eventRecord{event: attention.Event{EventID: fmt.Sprint("e", i+1)}})
		}
		r := string(c.Call(context.Background(), "chat.list_events", []byte(fmt.Sprintf(`{"limit":%d}`, limit))).StructuredContent)
		var got []string
		for i := range 3 {
			if id := fmt.Sprint("e", i+1); strings.Contains(r, `"eventId":"`+id+`"`) {
				got = append(got, id)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("limit %d: read %v, want %s", limit, got, want)
		}
	}
}

func TestChatHost_WantsVisibilityAndDirectedness(t *testing.T) {
	for _, c := range []struct {
		marks string
		wrong int
	}{
		{`"visibility":"dm","directedness":"ambient"`, 0},
		{`"visibility":"ephemeral","directedness":"to_my_role"`, 0},
		{`"visibility":"thread"`, 1},
		{`"directedness":"to_me"`, 1},
		{`"visibility":"public","directedness":"to_me"`, 1},
		{`"visibility":"","directedness":"nobody"`, 2},
		{`"target":"D"`, 2},
	} {
		chat := newChat()
		chat.add(&eventRecord{event: attention.Event{EventID: "e"}})
		chat.Call(t.Context(), "chat.send_message", []byte(`{"inReplyTo":"e","text":"yes","idempotencyKey":"k",`+c.marks+`}`))
		if len(chat.unmarked) != c.wrong {
			t.Errorf("%s: %v, want %d problems", c.marks, chat.unmarked, c.wrong)
		}
	}
}

// TestChatHost_ReceiptIsNotAnAnswer checks that "seen" and "unclear" leave a must_respond open.
func TestChatHost_ReceiptIsNotAnAnswer(t *testing.T) {
	for signal, want := range map[string][2]bool{ // whether it settles what must be answered, and what may be
		"seen": {false, true}, "unclear": {false, false}, "agree": {true, true}, "queued": {true, true}, "declined": {true, true}, "blocked": {true, true},
	} {
		for i, policy := range []attention.Policy{attention.PolicyMustRespond, attention.PolicyMayRespond} {
			chat := newChat()
			chat.add(&eventRecord{event: attention.Event{EventID: "e"}, decision: attention.Decision{Policy: policy}})
			chat.Call(t.Context(), "chat.react", []byte(`{"inReplyTo":"e","signal":"`+signal+`"}`))
			if got := chat.events["e"].settled; got != want[i] {
				t.Errorf("%s settles %s: %t, want %t", signal, policy, got, want[i])
			}
		}
	}
}
