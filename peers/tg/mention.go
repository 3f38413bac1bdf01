package tg

import (
	"slices"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"

	"github.com/go-telegram/bot/models"
)

// mentionedNames returns the names that a text mentions with @, in lower case, in order and each
// once. The name of @lead.main is lead. Telegram marks only usernames, so the names of agents,
// which may have hyphens, are found in the text. Mentions in code, links and quotes do not count.
// Links to a user mention the user, and so does a name without @ that Telegram marks. The @ may have the
// full width of Chinese and Japanese.
func mentionedNames(text string, entities []models.MessageEntity, bot *models.User) []string {
	text = strings.ReplaceAll(text, "＠", "@") // of as many units
	out := bridge.MentionedNames(text, func(at int) bool { return isSilent(text, at, entities) })
	for _, s := range spansOf(text, entities) {
		if name := s.linkedName(text, bot); name != "" && !isQuoted(s.Offset, entities) {
			out = bridge.AppendUnique(out, name)
		}
	}
	return out
}

// linkedName returns the name of the user that a span links to, as in mentionedNames, or "". It
// recognizes no username but the bot's: any other may belong to a channel.
func (s *span) linkedName(text string, bot *models.User) string {
	name := ""
	switch s.Type {
	case models.MessageEntityTypeTextMention:
		if s.User != nil {
			name = "id:" + id(s.User.ID)
		}
	case models.MessageEntityTypeTextLink:
		name = linkedUser(s.URL)
	case models.MessageEntityTypeURL:
		name = linkedUser(text[s.from:s.to])
	}
	username := strings.ToLower(bot.Username)
	switch {
	case name == "id:"+id(bot.ID):
		return username
	case name == username, strings.HasPrefix(name, "id:"):
		return name
	}
	return ""
}

// isSilent reports whether the @ at a byte of a text is part of code, a link or a quote. Only messages from Telegram,
// which are short, have entities.
func isSilent(text string, at int, entities []models.MessageEntity) bool {
	if len(entities) == 0 {
		return false
	}
	return isWithin(markdown.Units(text[:at]), entities, models.MessageEntityTypeCode, models.MessageEntityTypePre,
		models.MessageEntityTypeURL, models.MessageEntityTypeEmail) || isQuoted(markdown.Units(text[:at]), entities)
}

// isQuoted reports whether a unit of a text is part of a quote.
func isQuoted(unit int, entities []models.MessageEntity) bool {
	return isWithin(unit, entities, models.MessageEntityTypeBlockquote, models.MessageEntityTypeExpandableBlockquote)
}

func isWithin(unit int, entities []models.MessageEntity, kinds ...models.MessageEntityType) bool {
	return slices.ContainsFunc(entities, func(e models.MessageEntity) bool {
		return slices.Contains(kinds, e.Type) && e.Offset <= unit && unit < e.Offset+e.Length
	})
}
