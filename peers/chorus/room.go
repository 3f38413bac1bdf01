package chorus

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// directChatPattern matches a channel context that describes a chat of two.
var directChatPattern = text.Pattern(
	`(?i)\b(direct (message|conversation|chat)s?|DM|1[:-]1|one[- ](on|to)[- ]one|private (conversation|chat|message)s?|(between|only|just) (the )?two|two (people|persons|participants|members|parties))\b`,
)

// conversationKind returns the kind of a channel: a channel for several people, unless its
// context describes a direct chat.
func conversationKind(p *InboxMessage) attention.ConversationKind {
	if directChatPattern().MatchString(p.Context) {
		return attention.ConversationDM
	}
	return attention.ConversationChannel
}

// authorOf returns the author of a message: the service itself, an agent, or a person. The kind
// that the service declares decides. Otherwise an author is an agent if it said the same
// elsewhere (echoed), or has the identity of an agent as its name. A mere name does not suffice,
// since people have names, too. onBus reports which agents are online.
func authorOf(p *InboxMessage, echoed protocol.PeerID, onBus func(protocol.PeerID) bool) protocol.Author {
	a := protocol.Author{ID: text.CleanName(p.Sender), Kind: string(attention.AuthorHuman), DisplayName: p.Sender}
	bare, isIdentity := strings.CutPrefix(p.Sender, "agent:")
	name := protocol.AgentID(strings.ToLower(bare))
	service, _, _ := strings.Cut(p.Service, " ")
	switch {
	case p.Kind == attention.AuthorHuman:
	case echoed != "":
		a.ID, a.Kind = string(echoed), string(attention.AuthorAgent)
		return a
	case p.Kind == attention.AuthorAgent, p.Kind == "" && isIdentity && onBus(name):
		a.Kind = string(attention.AuthorAgent)
		if onBus(name) {
			a.ID = string(name)
		}
		return a
	case p.Kind == attention.AuthorSystem, strings.EqualFold(p.Sender, "system"),
		p.Service != "" && (strings.EqualFold(p.Sender, p.Service) || strings.EqualFold(p.Sender, service)):
		a.Kind = string(attention.AuthorSystem)
	}
	if isIdentity {
		a.ID = string(personPeer(p.Sender)) // not the agent of that name
	}
	return a
}

// inChannel reports whether a message was written in a channel for several people.
func (in *inboundMessage) inChannel() bool {
	return in.said.Chat.Kind == string(attention.ConversationChannel)
}

// A room is a channel whose service POSTs the same messages to several inboxes.
const (
	roomWait    = time.Second // for the same message at another inbox, in a new channel
	roomHistory = 50          // messages of a channel among which one must have been POSTed elsewhere, too
)

// joinRoom gives a message the sourceId of the same message at another inbox, so that a claim on it
// counts for all agents of the room.
func (s *Store) joinRoom(tx *store.Tx, in *inboundMessage) {
	if !in.inChannel() {
		return
	}
	type twin struct{ source, content []byte }
	for _, t := range store.All(tx, func(t *twin) []any { return []any{&t.source, &t.content} },
		`SELECT CAST(i.source_id AS BLOB), i.content FROM channel c JOIN inbound i ON i.channel = c.peer AND i.external_id = ?1
		WHERE c.external_id = ?2 AND c.peer <> ?3 ORDER BY i.seq`,
		in.posted.MessageID, in.posted.ChannelID, in.channel) {
		var said protocol.ChatMessage
		if json.Unmarshal(t.content, &said) == nil && said.Text == in.said.Text && said.Chat != nil &&
			said.Chat.Service == in.said.Chat.Service {
			in.sourceID, in.said.SourceID = string(t.source), string(t.source)
			tx.Fail(in.encode())
			return
		}
	}
}

// isRoom reports whether another agent receives the messages of a channel, too. The agent of
// another inbox may still be starting.
func (c adapter) isRoom(tx *store.Tx, e *bridge.Event) bool {
	return slices.ContainsFunc(store.All(tx, store.Scalar[protocol.PeerID], `SELECT DISTINCT t.channel
		FROM (SELECT source_id FROM inbound WHERE channel = ?1 ORDER BY seq DESC LIMIT ?2) m
		JOIN inbound t ON t.source_id = m.source_id AND t.channel <> ?1
		JOIN channel s ON s.peer = t.channel JOIN inbox i ON i.name = s.inbox AND i.secret_sha256 IS NOT NULL`,
		e.Chat, roomHistory), func(sibling protocol.PeerID) bool {
		return c.agentOf(tx, sibling) != e.Agent
	})
}

// agentOf returns the agent of a channel, or "".
func (c adapter) agentOf(tx *store.Tx, channel protocol.PeerID) protocol.PeerID {
	for _, a := range c.g.router.Agents(tx, channel) {
		return a.Agent
	}
	return ""
}

// otherAgent returns the agent of another inbox of the same channel by its own name or that of the inbox,
// or "" if there is none.
func (c adapter) otherAgent(tx *store.Tx, channel protocol.PeerID, name string) string {
	for _, sibling := range store.All(tx, store.Scalar[protocol.PeerID], `SELECT s.peer FROM channel c
		JOIN channel s ON s.external_id = c.external_id AND s.peer <> c.peer WHERE c.peer = ?`, channel) {
		agent := c.agentOf(tx, sibling)
		if agent != "" && (strings.EqualFold(name, string(inboxOfPeer(sibling))) || strings.EqualFold(name, agent.Name())) {
			return string(agent)
		}
	}
	return ""
}

// address sets the mentions of a message in a channel. A service POSTs messages for an agent,
// which it knows under a name of its own. So a person who names nobody known is addressing the
// agent. In a room, several agents would be addressed, so a message that names nobody there
// addresses nobody. This is decided once, when the message is first sent to its agent.
func (c adapter) address(tx *store.Tx, e *bridge.Event, content *protocol.ChatMessage) {
	own := []string{e.Agent.Name()}
	implied := false
	if c.agentOf(tx, e.Chat) == e.Agent { // the bridge also asks what a message means to other agents
		own = append(own, string(inboxOfPeer(e.Chat)))
		type decision struct{ made, ambient bool }
		was, _ := store.One(tx, func(d *decision) []any { return []any{&d.made, &d.ambient} },
			`SELECT ambient IS NOT NULL, coalesce(ambient, 0) FROM inbound WHERE seq = ?`, e.ID)
		if !was.made {
			was.ambient = c.isRoom(tx, e)
			tx.Exec(`UPDATE inbound SET ambient = ? WHERE seq = ?`, was.ambient, e.ID)
		}
		implied = !was.ambient && content.Author.Kind == string(attention.AuthorHuman)
	}
	content.Mentions = resolveMentions(content.Text, e.Agent, own, implied,
		func(name string) string { return c.knownName(tx, e, content.Text, name) })
}

// knownName returns the person or other agent that a name in a channel means, or "".
func (c adapter) knownName(tx *store.Tx, e *bridge.Event, text, name string) string {
	if sibling := c.otherAgent(tx, e.Chat, name); sibling != "" {
		return sibling
	}
	if agent := protocol.AgentID(strings.ToLower(name)); name == bridge.LeadingName(text) &&
		c.g.senders.roster.isOnline(agent) { // the broker delivers the message to that agent
		return string(agent)
	}
	if store.Value[bool](
		tx,
		`SELECT EXISTS (SELECT 1 FROM (SELECT CAST(content AS TEXT) AS said FROM inbound WHERE channel = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 500)
		WHERE json_valid(said) AND lower(said ->> '$.author.displayName') = lower(?3) AND said ->> '$.author.kind' = 'human')`,
		e.Chat,
		e.ID,
		name,
	) {
		return "user:" + strings.ToLower(name)
	}
	return ""
}

// resolveMentions returns whom a message mentions: the agent, by one of its own names, and the
// persons and other agents whose names known returns. If implied is set and the text mentions none
// of those, it mentions the agent.
func resolveMentions(
	content string,
	agent protocol.PeerID,
	own []string,
	implied bool,
	known func(string) string,
) (mentions []string) {
	add := func(name string) {
		if !slices.Contains(mentions, name) {
			mentions = append(mentions, name)
		}
	}
	lookedUp := map[string]bool{}
	for _, label := range attention.Labels(content) {
		name := content[label.From+1 : label.NameEnd]
		if slices.ContainsFunc(own, func(own string) bool { return strings.EqualFold(name, own) }) {
			add(string(agent))
			continue
		}
		if lookedUp[name] || len(lookedUp) == bridge.MaxMentions {
			continue
		}
		lookedUp[name] = true
		if other := known(name); other != "" {
			add(other)
			implied = false
		}
	}
	if implied {
		add(string(agent))
	}
	return mentions
}

// inboxOfPeer returns the inbox of a channel.
func inboxOfPeer(channel protocol.PeerID) InboxName {
	inbox, _, _ := strings.Cut(channel.Name(), ".")
	return InboxName(inbox)
}
