package main

import (
	"encoding/json"
	"slices"
	"strings"

	"hubbub/activitylog"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// past is what the log told so far about where agents take part. It replaces what each
// agent knew at the time.
type past struct {
	places   map[placeKey]*place
	chats    map[string]*chatPast // by conversation id
	answered map[[2]string]bool   // agent, event
	roles    map[string][]string  // that agents announced
}

// A placeKey names a conversation or a thread as one agent sees it.
type placeKey struct{ agent, conversation, thread string }

type place struct{ participating, left, asked bool }

// chatPast is what the log told of a conversation.
type chatPast struct {
	agents  []string
	threads map[string]string // of an event
}

func newPast() *past {
	return &past{places: map[placeKey]*place{}, chats: map[string]*chatPast{}, answered: map[[2]string]bool{}, roles: map[string][]string{}}
}

func (p *past) place(agent string, c *protocol.Chat) *place {
	key := placeKey{agent, c.ID, c.ThreadID}
	if p.places[key] == nil {
		p.places[key] = &place{}
	}
	return p.places[key]
}

func (p *past) chat(id string) *chatPast {
	if p.chats[id] == nil {
		p.chats[id] = &chatPast{threads: map[string]string{}}
	}
	return p.chats[id]
}

// decide decides on a chat message, and remembers what follows from it.
func (p *past) decide(e *activitylog.Entry, c *protocol.ChatMessage, self attention.Self, cfg attention.Config) attention.Decision {
	here, chat := p.place(self.ID, c.Chat), p.chat(c.Chat.ID)
	chat.threads[c.SourceID] = c.Chat.ThreadID
	if c.Author.Kind == string(attention.AuthorAgent) && !slices.Contains(chat.agents, c.Author.ID) {
		chat.agents = append(chat.agents, c.Author.ID)
	}
	facts := attention.Facts{
		Participating: here.participating, Left: here.left, Asked: here.asked, Answered: p.answered[[2]string{self.ID, c.SourceID}],
	}
	own := protocol.PeerID(self.ID).Name()
	for _, other := range chat.agents {
		if strings.TrimPrefix(other, "agent:") != own {
			facts.OtherAgents = append(facts.OtherAgents, other)
		}
	}
	d := attention.Decide(mailbox.EventOf(c), self, facts, cfg)
	switch {
	case d.Action == attention.ActionLeave:
		here.left, here.participating = true, false
	case d.Action == attention.ActionReturn:
		here.left, here.participating = false, true
	case d.Directedness == attention.DirectedToMe && d.Policy == attention.PolicyMustRespond:
		here.participating = true
	}
	if c.Event == protocol.EventMessage {
		here.asked = false
	}
	return d
}

// learn applies a message other than a chat message.
func (p *past) learn(e *activitylog.Entry) {
	if protocol.MessageType(e.Type) != protocol.TypeCollabRequest {
		p.reply(e)
		return
	}
	var c protocol.CollabRequest
	var announced collab.AnnounceParams
	if _, ok := e.Decode(&c); ok && c.Method == collab.IdentityAnnounce.Name &&
		json.Unmarshal(c.Params, &announced) == nil {
		p.roles[e.From] = announced.Roles
	}
}

// reply applies a reply of an agent.
func (p *past) reply(e *activitylog.Entry) {
	var c protocol.ChatReply
	if _, ok := e.Decode(&c); !ok || c.Text == "" {
		return
	}
	p.answered[[2]string{e.From, c.InReplyTo}] = true
	conversation := protocol.PeerID(e.Topic).Name()
	thread := c.ThreadID
	if thread == "" {
		thread = p.chat(conversation).threads[c.InReplyTo]
	}
	here := p.place(e.From, &protocol.Chat{ID: conversation, ThreadID: thread})
	here.participating = true
	here.asked = strings.HasSuffix(strings.TrimRight(c.Text, " \n\t)*_"), "?")
}

// chatContent reads a chat message with its documented defaults; false if the
// row brings none.
func chatContent(e *activitylog.Entry) (*protocol.ChatMessage, bool) {
	if t := protocol.MessageType(e.Type); t != protocol.TypeTGMessage && t != protocol.TypeChatMessage {
		return nil, false
	}
	c := &protocol.ChatMessage{}
	m, ok := e.Decode(c)
	if !ok {
		return nil, false
	}
	m.MessageID = protocol.MessageID(e.MessageID)
	mailbox.Complete(c, &m)
	return c, true
}
