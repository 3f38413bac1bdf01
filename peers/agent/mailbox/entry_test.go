package mailbox_test

import (
	"reflect"
	"testing"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

func TestCompleteFillsInWhatIsMissing(t *testing.T) {
	m := &protocol.Message{MessageID: "m1", From: "tg:42", Timestamp: "2026-06-02T19:10:00Z"}
	c := protocol.ChatMessage{Text: "hello"}
	mailbox.Complete(&c, m)
	want := attention.Event{
		EventID: "m1", Kind: attention.KindMessage, Text: "hello",
		Conversation: attention.Conversation{ID: "42", Kind: attention.ConversationDM}, Author: attention.Author{ID: "42", Kind: attention.AuthorHuman},
	}
	if got := mailbox.EventOf(&c); !reflect.DeepEqual(got, want) || c.CreatedAt != m.Timestamp {
		t.Errorf("%+v, written at %s", got, c.CreatedAt)
	}
	given := protocol.ChatMessage{
		Event: "reaction", SourceID: "s1", CreatedAt: "then", Chat: &protocol.Chat{ID: "C1", Kind: "channel"}, Author: &protocol.Author{ID: "agent:w3", Kind: "agent"},
		ReplyTo: &protocol.ReplyTo{SourceID: "s0", Author: "agent:lead"},
	}
	mailbox.Complete(&given, m)
	if e := mailbox.EventOf(&given); e.EventID != "s1" || e.Kind != "reaction" || e.Conversation.Kind != "channel" || e.Author.Kind != "agent" ||
		*e.ReplyTo != (attention.ReplyTo{EventID: "s0", Author: "agent:lead"}) || given.CreatedAt != "then" {
		t.Errorf("what is given was replaced: %+v", e)
	}
}
