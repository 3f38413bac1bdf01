package tg

import (
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// mentionedNames returns the names that a text mentions with @, in lower case, in order and each
// once. The name of @lead.main is lead. Telegram marks only usernames, so the names of agents,
// which may have hyphens, are found in the text. Mentions in code, links and quotes do not count.
// Links to a user mention the user, and so does a name without @ that Telegram marks.
func mentionedNames(text string, entities []models.MessageEntity, bot *models.User) []string {
	var out []string
	for _, label := range attention.Labels(text) {
		name := strings.ToLower(strings.TrimRight(text[label.From+1:label.NameEnd], "-"))
		if name != "" && name[0] != '-' && !isSilent(text, label.From, entities) {
			out = appendUnique(out, name)
		}
	}
	for _, s := range spansOf(text, entities) {
		if name := s.linkedName(text, bot); name != "" && !isQuoted(s.Offset, entities) {
			out = appendUnique(out, name)
		}
	}
	return out
}

// linkedName returns the name of the user to whom a span leads, as in mentionedNames, or "". Of
// usernames it knows only the bot's: others may be those of channels.
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

// appendUnique appends a name unless the list has it.
func appendUnique(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// isSilent reports whether the @ at a byte of a text is part of code, a link or a quote.
func isSilent(text string, at int, entities []models.MessageEntity) bool {
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

// resolveMentions resolves names to mentions, given the chat's agents in the order of their
// assignment, the bot's username, and a function that knows people. The bot's name means the
// first agent, unless an agent is named.
func resolveMentions(names []string, agents []protocol.PeerID, bot string, isPerson func(string) bool) []string {
	var out []string
	toBot, toAgent := false, false
	for _, name := range names {
		switch {
		case slices.Contains(agents, protocol.AgentID(name)):
			out = appendUnique(out, "agent:"+name)
			toAgent = true
		case name == strings.ToLower(bot):
			toBot = true
		case strings.HasPrefix(name, "id:"):
			out = appendUnique(out, "user:"+strings.TrimPrefix(name, "id:"))
		case isPerson(name) || strings.HasSuffix(name, "bot"):
			out = appendUnique(out, "user:"+name)
		default:
			out = appendUnique(out, "role:"+name)
		}
	}
	if toBot && !toAgent && len(agents) > 0 {
		out = appendUnique(out, string(agents[0]))
	}
	return out
}
