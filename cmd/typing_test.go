package cmd_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestTyping_AndKnocks checks that a person's message waits while another bridge reports that
// this person types, and that a knock for a role describes the message to the model without its
// text.
func TestTyping_AndKnocks(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &chatModel{}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, "--harness=openai", "--model=parrot", "--base-url="+web.URL+"/v1", "--role=backend-agents", "--compose-window=5s")
	will := s.api.User("Will")
	room := s.api.AddChat(models.Chat{ID: -100, Type: "group", Title: "Team"})
	s.api.Say(room, will, "@"+s.api.Bot().Username+" hello")
	s.awaitTexts(room, 1)

	s.api.Say(room, will, "@backend-agents the word is swordfish")
	knock := ""
	s.await("the knock", func() bool {
		for _, turn := range model.prompts() {
			if strings.Contains(turn, "to_my_role") {
				knock = turn
			}
		}
		return knock != ""
	})
	mustContain(t, knock, "a message for a role that you have, short", "chat.read_thread")
	if strings.Contains(knock, "swordfish") {
		t.Errorf("the knock gives away what was said: %s", knock)
	}

	ctx, cancel := context.WithCancel(t.Context())
	surface := peer.New("tg:tester", &peer.Options{Buses: []string{s.tap.address()}})
	var wg sync.WaitGroup
	wg.Go(func() { _ = surface.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	send := func(event, id, author, text string) {
		t.Helper()
		m := protocol.NewMessage(protocol.TypeTGMessage, "tg:-100", protocol.ChatMessage{
			Event: event, SourceID: id, Text: text, Mentions: []string{"agent:tg--100"}, Chat: &protocol.Chat{ID: "-100", Kind: "channel"}, Author: &protocol.Author{ID: author, Kind: "human"},
		})
		if result, err := surface.Send(ctx, "agent:tg--100", m); err != nil || result.DeliveredTo == 0 {
			t.Fatalf("%s %s: %+v, %v", event, id, result, err)
		}
	}
	started := func(id string) (merged []string, found bool) {
		for _, r := range recordsOf[protocol.TurnRecord](s) {
			if r.EventID == id && r.State == "started" {
				return r.MergedEventIDs, true
			}
		}
		return nil, false
	}
	send(protocol.EventMessage, "e1", "77", "sing, one moment")
	send(protocol.EventTyping, "", "77", "")
	send(protocol.EventMessage, "e9", "78", "sing")
	s.await("the turn of who came later", func() bool {
		send(protocol.EventTyping, "", "77", "")
		_, found := started("e9")
		return found
	})
	if _, found := started("e1"); found {
		t.Error("a turn began while its author typed")
	}
	send(protocol.EventMessage, "e2", "77", "here it is")
	var merged []string
	s.await("the turn of who typed", func() (found bool) {
		merged, found = started("e2")
		return found
	})
	if !slices.Equal(merged, []string{"e1", "e2"}) {
		t.Errorf("the turn is over %q", merged)
	}
}
