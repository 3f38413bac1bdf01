package mailbox_test

import (
	"reflect"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

func TestComplete_FillsInMissingFields(t *testing.T) {
	m := &protocol.Message{MessageID: "m1", From: "tg:42", Timestamp: "2026-06-02T19:10:00Z"}
	c := protocol.ChatMessage{Text: "hello"}
	mailbox.ApplyDefaults(&c, m)
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
	mailbox.ApplyDefaults(&given, m)
	if e := mailbox.EventOf(&given); e.EventID != "s1" || e.Kind != "reaction" || e.Conversation.Kind != "channel" || e.Author.Kind != "agent" ||
		*e.ReplyTo != (attention.ReplyTo{EventID: "s0", Author: "agent:lead"}) || given.CreatedAt != "then" {
		t.Errorf("what is given was replaced: %+v", e)
	}
}

// TestEntry_SentAt checks that the time of a chat counts, also in small letters, unless it is no time or
// after the receipt.
func TestEntry_SentAt(t *testing.T) {
	sent, received := time.Date(2026, 6, 2, 19, 10, 0, 0, time.UTC), time.Date(2026, 6, 2, 19, 20, 0, 0, time.UTC)
	for given, want := range map[string]time.Time{
		"2026-06-02T19:10:00Z": sent, "2026-06-02t19:10:00z": sent, "2026-06-02t21:10:00.000+02:00": sent,
		"2026-06-02T19:30:00Z": received, "then": received, "": received,
	} {
		e := mailbox.Entry{ReceivedAt: received, Content: protocol.ChatMessage{CreatedAt: given}}
		if got := e.SentAt(); !got.Equal(want) {
			t.Errorf("%q: sent at %s, want %s", given, got, want)
		}
	}
}

// TestConversation_IsThatOfItsChat checks that a peer cannot affect the turns of another chat by
// naming its conversation.
func TestConversation_IsThatOfItsChat(t *testing.T) {
	for _, c := range []struct {
		from       protocol.PeerID
		chat, want string
	}{
		{"chorus:evil", "-1001", "chorus:evil/-1001"},
		{"chorus:evil", "work", "chorus:evil/work"},
		{"chorus:evil", "chorus:evilest", "chorus:evil/chorus:evilest"},
		{"chorus:evil", "chorus:good", "chorus:evil/chorus:good"},
		{"chorus:-1001", "", "chorus:-1001"},
		{"chorus:-1001", "-1001", "chorus:-1001"},
		{"chorus:evil", "chorus:evil", "chorus:evil"},
		{"chorus:evil", "chorus:evil/room", "chorus:evil/room"},
		{"cli:will.chat-lead", "cli:will.chat-lead", "cli:will.chat-lead"},
		{"tg:-1001", "-1002", "-1002"}, // a group that moved
		{"tg:-1001", "", "-1001"},
	} {
		m := protocol.ChatMessage{Chat: &protocol.Chat{ID: c.chat}}
		mailbox.ApplyDefaults(&m, &protocol.Message{From: c.from})
		if m.Chat.ID != c.want {
			t.Errorf("%s tells of %q: taken as %q, want %q", c.from, c.chat, m.Chat.ID, c.want)
		}
	}
}

// TestAuthor_OfAnEvent checks that a person belongs to their chat, even if their name is the
// identity of another.
func TestAuthor_OfAnEvent(t *testing.T) {
	for _, c := range []struct{ chat, id, kind, writer string }{
		{"tg:42", "77", "human", "tg:77"},
		{"cli:will.chat-lead", "cli:will", "human", "cli:will"},
		{"chorus:inbox", "will", "human", "chorus:will"},
		{"chorus:inbox", "tg:77", "human", "chorus:tg:77"},
		{"chorus:inbox", "cli:will", "human", "chorus:cli:will"},
		{"chorus:inbox", "agent:worker", "agent", "agent:worker"},
		{"tg:42", "worker", "agent", "agent:worker"},
		{"collab:broker", "tg:77", "human", "tg:77"},
	} {
		e := &mailbox.Entry{Chat: protocol.Topic(c.chat)}
		e.Content.Author = &protocol.Author{ID: c.id, Kind: c.kind}
		if got := e.AuthorIdentity(); got != c.writer {
			t.Errorf("%s in %s is %s, not %s", c.id, c.chat, got, c.writer)
		}
		if got := e.OnBehalfOf(); c.kind == "human" && got != c.writer {
			t.Errorf("behind what %s says in %s is %q, not %s", c.id, c.chat, got, c.writer)
		}
	}
}
