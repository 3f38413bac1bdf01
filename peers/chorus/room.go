package chorus

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// directChatPattern matches a channel context that describes a chat of two.
var directChatPattern = regexp.MustCompile(`(?i)\b(direct (message|conversation|chat)s?|DM|1[:-]1|one[- ](on|to)[- ]one|private (conversation|chat|message)s?|(between|only|just) (the )?two|two (people|persons|participants|members|parties))\b`)

// conversationKind returns the kind of a channel: a channel for several people, unless its
// context describes a direct chat.
func conversationKind(p *InboxMessage) attention.ConversationKind {
	if directChatPattern.MatchString(p.Context) {
		return attention.ConversationDM
	}
	return attention.ConversationChannel
}

// authorOf returns the author of a message: the service itself, an agent of this bus, or a
// person. said is the agent that recently said the same elsewhere, if any. onBus reports which
// agents are online.
func authorOf(p *InboxMessage, said protocol.PeerID, onBus func(protocol.PeerID) bool) protocol.Author {
	a := protocol.Author{ID: text.StripInvisible(p.Sender), Kind: string(attention.AuthorHuman), DisplayName: p.Sender}
	name := protocol.AgentID(strings.ToLower(strings.TrimPrefix(p.Sender, "agent:")))
	service, _, _ := strings.Cut(p.Service, " ")
	switch {
	case said != "":
		a.ID, a.Kind = string(said), string(attention.AuthorAgent)
	case onBus(name):
		a.ID, a.Kind = string(name), string(attention.AuthorAgent)
	case strings.EqualFold(p.Sender, "system"), p.Service != "" && (strings.EqualFold(p.Sender, p.Service) || strings.EqualFold(p.Sender, service)):
		a.Kind = string(attention.AuthorSystem)
	}
	return a
}

// resolveMentions returns whom a message mentions. A service POSTs messages for an agent, which
// it knows under an unknown name. So a person who names nobody known addresses the agent, but an
// agent or the service must name it. known returns the person or other agent of a name, as used
// in mentions, or "".
func resolveMentions(content string, author *protocol.Author, agent protocol.PeerID, inbox InboxName, known func(string) string) (mentions []string) {
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

// echoWindow is how long a text is recognized as an agent's own after a service brings it to
// other inboxes. minEcho is its minimum length, since people also say "yes".
const (
	echoWindow = 10 * time.Minute
	minEcho    = 12
	maxEchoes  = 1000
)

// A roster holds the agents that are online and what they recently said in channels. It is empty
// after a restart.
type roster struct {
	now func() time.Time

	mu     sync.Mutex // guards the fields below
	online map[protocol.PeerID]bool
	recent map[string]recentMessage // keyed by text
}

type recentMessage struct {
	agent   protocol.PeerID
	channel protocol.PeerID
	at      time.Time
}

func newRoster(now func() time.Time) *roster {
	return &roster{now: now, online: map[protocol.PeerID]bool{}, recent: map[string]recentMessage{}}
}

// onPresence handles agents that join and leave the bus.
func (c *roster) onPresence(p protocol.Presence) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.State == protocol.PresenceLeft:
		delete(c.online, p.Peer)
	case protocol.RoleOf(p.Peer) == protocol.RoleAgent:
		c.online[p.Peer] = true
	}
}

func (c *roster) isOnline(agent protocol.PeerID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.online[agent]
}

// recordMessage records what an agent said in a channel.
func (c *roster) recordMessage(agent, channel protocol.PeerID, text string) {
	if text = strings.TrimSpace(text); agent == "" || len(text) < minEcho {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) >= maxEchoes {
		clear(c.recent)
	}
	c.recent[text] = recentMessage{agent, channel, c.now()}
}

// originalAuthor returns the agent that recently said a text in another channel, or "". Behind
// another inbox of the same channel, a similar text is sufficient, since services add or cut
// text.
func (c *roster) originalAuthor(channel protocol.PeerID, text string) protocol.PeerID {
	c.mu.Lock()
	defer c.mu.Unlock()
	text = strings.TrimSpace(text)
	lately := func(e recentMessage) bool { return e.channel != channel && c.now().Sub(e.at) < echoWindow }
	if e, ok := c.recent[text]; ok && lately(e) {
		return e.agent
	}
	_, room, _ := strings.Cut(channel.Name(), ".")
	if len(text) < minEcho {
		return ""
	}
	for said, e := range c.recent {
		if _, other, _ := strings.Cut(e.channel.Name(), "."); other == room && lately(e) && attention.IsForward(text, said) {
			return e.agent
		}
	}
	return ""
}
