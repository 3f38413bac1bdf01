package tg_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestHalt_OvertakesMessages checks that an agent with a full mailbox receives a halt at once,
// and the end of the halt in order with the messages.
func TestHalt_OvertakesMessages(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will := models.User{ID: dm.ID, FirstName: "Will"}
		var mu sync.Mutex
		var texts []string
		tell := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			texts = append(texts, what)
		}
		full := func(d *peer.Delivery) error {
			var c protocol.Configure
			if err := d.Decode(&c); err == nil && c.Halt != "" {
				tell(c.Halt)
				return nil
			}
			return errors.New("full")
		}
		lead.Refuse(full)
		h.api.Say(dm, will, "one")
		h.pass(time.Minute)
		h.api.Say(dm, will, "/halt")
		h.pass(time.Second)
		mu.Lock()
		if !slices.Equal(texts, []string{"on"}) {
			t.Errorf("told %q", texts)
		}
		mu.Unlock()
		lead.Refuse(func(*peer.Delivery) error { return errors.New("full") })
		h.api.Say(dm, will, "/halt")
		h.pass(time.Second)
		h.api.Say(dm, will, "/resume")
		h.api.Say(dm, will, "two")
		h.pass(time.Second)
		lead.Refuse(func(d *peer.Delivery) error {
			var c protocol.Configure
			var m protocol.ChatMessage
			if err := d.Decode(&c); err == nil && c.Halt != "" {
				tell(c.Halt)
			} else if err := d.Decode(&m); err == nil {
				tell(m.Text)
			}
			return nil
		})
		h.pass(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		at := func(s string) int { return slices.Index(texts[1:], s) }
		if len(texts) != 5 || at("on") > at("off") || at("one") > at("off") || at("off") > at("two") || at("on") < 0 {
			t.Errorf("told %q", texts)
		}
	})
}
