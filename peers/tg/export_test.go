package tg

import (
	"strings"

	"hubbub/peers/bridge"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// CrashAt sets the function that is called at the points between receiving, storing, sending and
// acknowledging.
func (b *Bridge) CrashAt(f func(point string)) { b.crash = f }

// NamesOf parses an update and returns its mentions, given the agents of the chat.
func NamesOf(raw []byte, agents ...protocol.PeerID) ([]string, error) {
	h, err := parseUpdate(raw, &models.User{ID: 42, Username: "hubbub_bot"})
	return bridge.ResolveMentions(h.data.Names, agents, "hubbub_bot", func(name string) bool { return name == "will" || strings.HasSuffix(name, "bot") }), err
}

// NextPoll returns the parameters of the next poll.
func NextPoll(highest int64, size, fresh int) (offset int64, wait bool) {
	c := cursor{}.next(highest, size, fresh)
	return c.offset, c.wait
}
