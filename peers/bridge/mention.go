package bridge

import (
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// MaxMentions bounds the names of a message that are looked up.
const MaxMentions = 100

// MentionedNames returns the names that a text mentions with @, in lower case, in order and each
// once, and at most MaxMentions. The name of @lead.main is lead. isSilent reports whether the @ at a byte of
// the text mentions nobody, as in code. It is called in the order of the text.
func MentionedNames(text string, isSilent func(at int) bool) []string {
	var out []string
	for _, label := range attention.Labels(text) {
		name := strings.ToLower(strings.TrimRight(text[label.From+1:label.NameEnd], "-"))
		if name != "" && name[0] != '-' && !isSilent(label.From) {
			out = AppendUnique(out, name)
		}
		if len(out) == MaxMentions {
			break
		}
	}
	return out
}

// AppendUnique appends a name unless the list has it.
func AppendUnique(list []string, name string) []string {
	if slices.Contains(list, name) {
		return list
	}
	return append(list, name)
}

// UserMention starts the name of a user who is mentioned by ID, not by name.
const UserMention = "id:"

// ResolveMentions resolves names to mentions, given the chat's agents in the order of their
// assignment, the bot's name, and a function that knows people. The bot's name means the first
// agent, unless an agent is named.
func ResolveMentions(names []string, agents []protocol.PeerID, bot string, isPerson func(string) bool) []string {
	var out []string
	toBot, toAgent := false, false
	for _, name := range names {
		user, byID := strings.CutPrefix(name, UserMention)
		switch {
		case slices.Contains(agents, protocol.AgentID(name)):
			out = AppendUnique(out, "agent:"+name)
			toAgent = true
		case strings.EqualFold(name, bot):
			toBot = true
		case byID:
			out = AppendUnique(out, "user:"+user)
		case isPerson(name):
			out = AppendUnique(out, "user:"+name)
		default:
			out = AppendUnique(out, "role:"+name)
		}
	}
	if toBot && !toAgent && len(agents) > 0 {
		out = AppendUnique(out, string(agents[0]))
	}
	return out
}
