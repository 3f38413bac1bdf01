package tgtest

import (
	"slices"
	"strings"

	"github.com/go-telegram/bot/models"
)

// ReactionEmoji are the emoji that Telegram accepts as reactions.
var ReactionEmoji = strings.Fields(`
	❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓
	🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷
	🤷‍♀ 😡`)

func (s *Server) setMessageReaction(c *chat, req *request) (any, *apiError) {
	var reactions []models.ReactionType
	if err := req.decode("reaction", &reactions); err != nil {
		return nil, err
	}
	id := int(req.int("message_id"))
	if _, ok := c.messages[id]; !ok {
		return nil, badRequest("message to react not found")
	}
	if len(reactions) > 1 {
		return nil, badRequest("REACTIONS_TOO_MANY")
	}
	for _, r := range reactions {
		if r.ReactionTypeEmoji == nil || !slices.Contains(ReactionEmoji, r.ReactionTypeEmoji.Emoji) {
			return nil, badRequest("REACTION_INVALID")
		}
	}
	c.reactions[id] = reactions
	s.recordLocked(req, nil)
	return true, nil
}
