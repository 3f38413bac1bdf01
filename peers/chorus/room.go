package chorus

import (
	"regexp"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// directChatPattern matches a channel context that describes a chat of two.
var directChatPattern = regexp.MustCompile(
	`(?i)\b(direct (message|conversation|chat)s?|DM|1[:-]1|one[- ](on|to)[- ]one|private (conversation|chat|message)s?|(between|only|just) (the )?two|two (people|persons|participants|members|parties))\b`,
)

// conversationKind returns the kind of a channel: a channel for several people, unless its
// context describes a direct chat.
func conversationKind(p *InboxMessage) attention.ConversationKind {
	if directChatPattern.MatchString(p.Context) {
		return attention.ConversationDM
	}
	return attention.ConversationChannel
}

// authorOf returns the author of a message: the service itself, an agent of this bus, or a
// person. echoed is the agent that recently said the same elsewhere, if any. onBus reports which
// agents are online.
func authorOf(p *InboxMessage, echoed protocol.PeerID, onBus func(protocol.PeerID) bool) protocol.Author {
	a := protocol.Author{ID: text.StripInvisible(p.Sender), Kind: string(attention.AuthorHuman), DisplayName: p.Sender}
	name := protocol.AgentID(strings.ToLower(strings.TrimPrefix(p.Sender, "agent:")))
	service, _, _ := strings.Cut(p.Service, " ")
	switch {
	case echoed != "":
		a.ID, a.Kind = string(echoed), string(attention.AuthorAgent)
	case onBus(name):
		a.ID, a.Kind = string(name), string(attention.AuthorAgent)
	case strings.EqualFold(p.Sender, "system"),
		p.Service != "" && (strings.EqualFold(p.Sender, p.Service) || strings.EqualFold(p.Sender, service)):
		a.Kind = string(attention.AuthorSystem)
	}
	return a
}

// resolveMentions returns whom a message mentions. A service POSTs messages for an agent, which
// it knows under an unknown name. So a person who names nobody known addresses the agent, but an
// agent or the service must name it. known returns the person or other agent of a name, as used
// in mentions, or "".
func resolveMentions(
	content string,
	author *protocol.Author,
	agent protocol.PeerID,
	inbox InboxName,
	known func(string) string,
) (mentions []string) {
	add := func(name string) {
		if !slices.Contains(mentions, name) {
			mentions = append(mentions, name)
		}
	}
	others := false
	for _, label := range attention.Labels(content) {
		name := content[label.From+1 : label.NameEnd]
		if strings.EqualFold(name, agent.Name()) || strings.EqualFold(name, string(inbox)) {
			add(string(agent))
		} else if other := known(name); other != "" {
			add(other)
			others = true
		}
	}
	if !others && author.Kind == string(attention.AuthorHuman) {
		add(string(agent))
	}
	return mentions
}

// inboxOfPeer returns the inbox of a channel.
func inboxOfPeer(channel protocol.PeerID) InboxName {
	inbox, _, _ := strings.Cut(channel.Name(), ".")
	return InboxName(inbox)
}
