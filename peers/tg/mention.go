package tg

import (
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/tg/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// mentionedNames returns the names that a text mentions with @, in lower case, in order and each
// once. The name of @lead.main is lead. Telegram marks only usernames, so the names of agents,
// which may have hyphens, are found in the text. Mentions in code and links do not count.
func mentionedNames(text string, entities []models.MessageEntity) []string {
	var out []string
	for _, label := range attention.Labels(text) {
		name := strings.ToLower(strings.TrimRight(text[label.From+1:label.NameEnd], "-"))
		if name != "" && name[0] != '-' && !inCodeOrLink(text, label.From, entities) {
			out = appendUnique(out, name)
		}
	}
	for _, e := range entities {
		if e.Type == models.MessageEntityTypeTextMention && e.User != nil {
			out = appendUnique(out, "id:"+id(e.User.ID))
		}
	}
	return out
}

// appendUnique appends a name unless the list has it.
func appendUnique(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// inCodeOrLink reports whether the @ at a byte of a text is part of code or a link.
func inCodeOrLink(text string, at int, entities []models.MessageEntity) bool {
	unit := markdown.Units(text[:at])
	silent := []models.MessageEntityType{models.MessageEntityTypeCode, models.MessageEntityTypePre,
		models.MessageEntityTypeURL, models.MessageEntityTypeEmail}
	return slices.ContainsFunc(entities, func(e models.MessageEntity) bool {
		return slices.Contains(silent, e.Type) && e.Offset <= unit && unit < e.Offset+e.Length
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
