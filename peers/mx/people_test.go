package mx_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/mx/mxtest"
	"hubbub/protocol"
)

// TestBridge_HearsPeople checks who is heard, whose edits count, and that signals replace each
// other, while the homeserver demands pauses.
func TestBridge_HearsPeople(t *testing.T) {
	d, s := newDriver(t)
	b := bustest.Start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Bridge(ctx, b.URL(), filepath.Join(t.TempDir(), "bridge.db")) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	stranger := s.Room("@mallory:hs")
	room := s.Room("@will:hs", "@ann:hs")
	await(t, s, "the bot joins", func() bool { return len(s.Sent(room, "m.room.member")) == 1 })
	await(t, s, "the bot rejects a stranger", func() bool {
		list := s.Sent(stranger, "m.room.member")
		return len(list) == 1 && list[0].Content["membership"] == "leave"
	})
	lead, cli := b.Join(t, "agent:lead", "agent:lead"), b.Join(t, "cli:operator")
	said := s.Say(room, "@will:hs", "hello all")
	for {
		route := protocol.RouteAssigned{Agent: "agent:lead"}
		if cli.Send(t, protocol.Topic("mx:"+room), protocol.TypeRouteAssigned, route).DeliveredTo == 1 {
			break
		}
	}
	next := func(event string) (m protocol.ChatMessage) {
		t.Helper()
		for m.Event != event {
			if err := lead.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}
	if m := next("message"); m.SourceID != "mx:"+said || m.Chat.Kind != "channel" || m.Author.ID != "@will:hs" {
		t.Errorf("the agent got %+v", m)
	}
	replace := func(user, text string) {
		s.Send(room, user, "m.room.message", map[string]any{
			"msgtype": "m.text", "body": "* " + text, "m.new_content": map[string]any{"msgtype": "m.text", "body": text},
			"m.relates_to": map[string]any{"rel_type": "m.replace", "event_id": said},
		})
	}
	replace("@ann:hs", "forged")
	replace("@will:hs", "hello everybody")
	if m := next("edit"); m.Text != "hello everybody" || m.SourceID != "mx:"+said {
		t.Errorf("the edit is %+v", m)
	}
	s.Send(room, "@ann:hs", "m.room.message", map[string]any{"msgtype": "m.notice", "body": "build passed"})
	if m := next("status"); m.Text != "build passed" {
		t.Errorf("the notice is %+v", m)
	}
	comeAndGo(s, room)
	for _, want := range []string{"inv joined", "dir joined", "invited left", "direct left"} {
		if m := next("membership"); m.Text != want {
			t.Errorf("%s: the membership is %+v", want, m)
		}
	}
	s.Limit(3)
	for _, signal := range []string{"working", "done"} {
		reply := protocol.ChatReply{Signal: signal, InReplyTo: "mx:" + said, IdempotencyKey: signal}
		if r := lead.Send(t, protocol.Topic("mx:"+room), protocol.TypeChatReply, reply); r.DeliveredTo != 1 {
			t.Fatalf("%s was not taken: %+v", signal, r)
		}
	}
	await(t, s, "the last signal alone", func() bool {
		shown, gone := s.Sent(room, "m.reaction"), s.Sent(room, "m.room.redaction")
		return len(shown) == 2 && len(gone) == 1 && gone[0].Redacts == shown[0].ID &&
			strings.Contains(fmt.Sprint(shown[1].Content), "✅")
	})
	refuseReaction(t, s, lead, room, said)
}

// refuseReaction checks that an answer is shown, and no notice that it was lost, if the homeserver
// refuses only the reaction that comes with it.
func refuseReaction(t *testing.T, s *mxtest.Server, lead *bustest.Scripted, room, said string) {
	t.Helper()
	s.Refuse("m.reaction")
	reply := protocol.ChatReply{Signal: "agree", Text: "Agreed.", InReplyTo: "mx:" + said, IdempotencyKey: "agree"}
	lead.Send(t, protocol.Topic("mx:"+room), protocol.TypeChatReply, reply)
	for status := (protocol.DeliveryStatus{}); status.IdempotencyKey != "agree" || status.Status != protocol.StatusFailed; {
		if err := lead.NextOf(t, protocol.TypeDeliveryStatus).Decode(&status); err != nil {
			t.Fatal(err)
		}
	}
	lead.Send(t, protocol.Topic("mx:"+room), protocol.TypeChatReply, protocol.ChatReply{Text: "Next."})
	await(t, s, "the next answer", func() bool { return slices.Contains(s.Texts(room), "Next.") })
	if texts := s.Texts(room); !slices.Equal(texts, []string{"Agreed.", "Next."}) { // the answer was shown
		t.Errorf("without the reaction, people read %q", texts)
	}
}

// comeAndGo has people invited, joining, declining, leaving and banned.
func comeAndGo(s *mxtest.Server, room string) {
	for _, step := range [][2]string{
		{"@invited:hs", "invite"}, {"@declines:hs", "invite"},
		{"@declines:hs", "leave"}, // who never was there
		{"@invited:hs", "join"},
		{"@invited:hs", "join"}, // with another name or picture
		{"@direct:hs", "join"}, {"@invited:hs", "leave"}, {"@direct:hs", "ban"},
	} {
		s.Member(room, step[0], map[string]any{"membership": step[1], "displayname": step[0][1:4]})
	}
}

// await waits until a condition of the homeserver holds.
func await(t *testing.T, s *mxtest.Server, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		changed := s.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("never came: %s", what)
		}
	}
}
