package console

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/agentstats"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A chat is the state of one chat.
type chat struct {
	Topic   string
	Title   string
	Kind    string
	State   string // step of its bootstrap
	Problem string // why it has no agent
	Agents  []string
	In, Out int64
	Failed  int64 // replies that were not delivered
	Last    time.Time
	Events  []*chatEvent // newest last
	byID    map[string]*chatEvent
}

// KindWord returns the kind of the chat in everyday words.
func (c *chat) KindWord() string {
	switch {
	case c.Kind == "dm":
		return "direct chat"
	case strings.HasPrefix(c.Topic, "tg:") && c.Kind == "channel":
		return "group"
	case strings.HasPrefix(c.Topic, "mx:") && c.Kind == "channel":
		return "room"
	}
	return c.Kind
}

// A chatEvent is one event of a chat, or one reply in it.
type chatEvent struct {
	At        time.Time
	ID        string // eventId, preceded by "edit " or "delete " for those kinds; or the messageId of a reply
	MessageID string
	Kind      string // message, edit, reaction, ..., reply, signal
	Author    string
	Reply     bool // by an agent of this bus
	InReplyTo string
	Text      string
	Agents    []string // agents that received it
	RelayedID string   // eventId with which a reply was relayed to the other agents of the chat
	Status    string   // of a reply: accepted, delivered, ...
	Reason    string
}

// eventID returns the eventId. Edits and deletions have that of their message.
func (e *chatEvent) eventID() string {
	if e.Kind == protocol.EventEdit || e.Kind == protocol.EventDelete {
		return strings.TrimPrefix(e.ID, e.Kind+" ")
	}
	return e.ID
}

func (f *readModel) chat(topic string) *chat {
	c := f.chats.touch(topic)
	if c.byID == nil {
		*c = chat{Topic: topic, State: "unknown", byID: map[string]*chatEvent{}}
	}
	return c
}

// addName adds a name to a list, unless the list has it or is full.
func addName(names *[]string, name string) {
	if !slices.Contains(*names, name) && len(*names) < maxNames {
		*names = append(*names, name)
	}
}

// add appends an event. If there are too many, it removes the oldest.
func (c *chat) add(e *chatEvent) {
	c.Events = appendByID(c.Events, c.byID, e, func(e *chatEvent) string { return e.ID })
	c.Last = e.At
}

// LastLine returns the last line that people in the chat can see, or nil. Signals, deleted
// messages and undelivered replies do not count.
func (c *chat) LastLine() *chatEvent {
	for _, e := range slices.Backward(c.Events) {
		seen := e.Kind == protocol.EventMessage || e.Kind == protocol.EventEdit ||
			e.Kind == "reply" && e.Status != protocol.StatusAccepted && e.Status != protocol.StatusFailed
		if seen && e.Text != "" && c.byID[protocol.EventDelete+" "+e.eventID()] == nil {
			return e
		}
	}
	return nil
}

// appendByID appends an event to a list and its index. If there are too many, it removes the
// older half.
func appendByID[E any](list []*E, byID map[string]*E, e *E, id func(*E) string) []*E {
	if len(list) >= 2*maxEvents {
		for _, old := range list[:maxEvents] {
			delete(byID, id(old))
		}
		list = append(list[:0], list[maxEvents:]...)
	}
	byID[id(e)] = e
	return append(list, e)
}

// isChat reports whether an identity is a chat, not a program.
func isChat(id string) bool {
	return protocol.IsChat(protocol.PeerID(id))
}

// applyRoute applies a message about assigning an agent to a chat.
func (f *readModel) applyRoute(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var r struct {
		protocol.RouteAssigned
		TalkTo protocol.Topic
		Status string
		Error  string
	}
	unread := json.Unmarshal(m.Content, &r) != nil
	topic, state, agent := string(r.Topic), "assigned", string(r.Agent)
	switch m.Type {
	case protocol.TypeSpawnRequest:
		topic, state, agent = cmp.Or(topic, string(m.From)), "asked for an agent", ""
		unread = false // the topic defaults to the sender
	case protocol.TypeSpawnResult:
		state, agent = r.Status, ""
	case protocol.TypeConfigure:
		topic, state, agent = string(r.TalkTo), "configured", e.Topic
	}
	if unread || !isChat(topic) {
		return
	}
	c := f.chat(topic)
	c.State = state
	if m.Type == protocol.TypeSpawnRequest {
		c.Last = at
		return
	}
	c.Problem = text.Clip(r.Error, maxText)
	if agent != "" {
		addName(&c.Agents, agent)
		addName(&f.agent(agent).Chats, topic)
	}
}

// applyChatMessage applies an event of a chat. It is called for each agent that receives the
// event.
func (f *readModel) applyChatMessage(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var content protocol.ChatMessage
	if json.Unmarshal(m.Content, &content) != nil {
		return
	}
	id, kind := cmp.Or(content.SourceID, e.MessageID), cmp.Or(content.Event, protocol.EventMessage)
	key := id
	if kind == protocol.EventEdit || kind == protocol.EventDelete {
		key = kind + " " + id // edits and deletions have the id of their message
	}
	c := f.chat(string(m.From))
	if content.Chat != nil {
		c.Title, c.Kind = text.Clip(content.Chat.Title, maxText), content.Chat.Kind
		f.titles.Note(m.From, c.Title)
	}
	c.State = "talking"
	addName(&c.Agents, e.Topic)
	ev := c.byID[key]
	if said := c.relayed(&content); ev == nil && said != nil {
		said.RelayedID, ev = id, said
	}
	if ev == nil {
		ev = &chatEvent{
			At:        at,
			ID:        key,
			MessageID: e.MessageID,
			Kind:      kind,
			Author:    author(content.Author),
			Text:      text.Clip(content.Text, maxText),
		}
		if content.Signal != "" && ev.Text == "" {
			ev.Text = content.Signal
		}
		if content.ReplyTo != nil {
			ev.InReplyTo = content.ReplyTo.SourceID
		}
		c.In++
		c.add(ev)
	}
	addName(&ev.Agents, e.Topic)
	a := f.agent(e.Topic)
	addName(&a.Chats, c.Topic)
	got := *ev
	got.MessageID = e.MessageID
	a.event(id).fill(&got, c.Topic)
}

// relayed returns the reply that a message relays to the other agents of the chat, or nil.
func (c *chat) relayed(m *protocol.ChatMessage) *chatEvent {
	if m.Author == nil || protocol.RoleOf(protocol.PeerID(m.Author.ID)) != protocol.RoleAgent {
		return nil
	}
	words := text.Clip(m.Text, maxText)
	for _, ev := range slices.Backward(c.Events[max(len(c.Events)-relayLookback, 0):]) {
		if ev.Reply && ev.Author == m.Author.ID && ev.Text == words {
			return ev
		}
	}
	return nil
}

// relayLookback is the number of events that relayed searches.
const relayLookback = 100

func author(a *protocol.Author) string {
	if a == nil {
		return ""
	}
	name := cmp.Or(a.DisplayName, a.ID)
	if a.DisplayName == "" && a.Username != "" {
		name = "@" + a.Username
	}
	return text.Clip(name, 80)
}

// applyReply applies a reply from an agent.
func (f *readModel) applyReply(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var content protocol.ChatReply
	if json.Unmarshal(m.Content, &content) != nil || content.Typing || !isChat(e.Topic) {
		return
	}
	c := f.chat(e.Topic)
	if c.byID[e.MessageID] != nil {
		return // sent again
	}
	ev := &chatEvent{
		At: at, ID: e.MessageID, MessageID: e.MessageID, Kind: "reply", Author: string(m.From), Reply: true,
		InReplyTo: content.InReplyTo, Text: text.Clip(content.Text, maxText),
	}
	if content.Signal != "" {
		ev.Kind, ev.Text = "signal", content.Signal
	}
	c.Out++
	c.add(ev)
	f.agent(string(m.From)).Replies++
}

// A deliveryStatus is the last status of a reply.
type deliveryStatus struct {
	protocol.DeliveryStatus
	At    time.Time
	Chat  string
	Agent string
	Text  string
}

// applyDeliveryStatus applies the delivery status of a reply.
func (f *readModel) applyDeliveryStatus(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var content protocol.DeliveryStatus
	if json.Unmarshal(m.Content, &content) != nil {
		return
	}
	chat := f.chat(string(m.From))
	ev := chat.byID[string(content.MessageID)]
	if ev != nil {
		ev.Status, ev.Reason = content.Status, text.Clip(content.Reason, maxText)
	}
	if content.Status != protocol.StatusFailed && content.Status != protocol.StatusUnknown {
		return
	}
	s := f.statuses.touch(string(content.MessageID))
	if s.At.IsZero() { // the bridge repeats a status until it is received
		chat.Failed++
	}
	*s = deliveryStatus{DeliveryStatus: content, At: at, Chat: string(m.From), Agent: e.Topic}
	if ev != nil {
		s.Text = ev.Text
	}
}

// An agent is the state of one agent.
type agent struct {
	agentstats.Tracker
	ID           string
	Online       time.Time // when it last announced itself
	Last         time.Time // when it last recorded anything
	Chats        []string
	Replies      int64
	BudgetRecord protocol.BudgetRecord // of the last turn that a budget prevented; zero after a reset
	BudgetAt     time.Time             // of BudgetRecord

	Events []*agentEvent // newest last
	byID   map[string]*agentEvent
}

// An agentEvent is one event as one agent handles it.
type agentEvent struct {
	agentstats.EventState
	ID        string
	At        time.Time
	MessageID string // of the event's chat message
	Chat      string
	Author    string
	Text      string
}

func (f *readModel) agent(id string) *agent {
	a := f.agents.touch(id)
	if a.byID == nil {
		*a = agent{ID: id, Tracker: agentstats.Tracker{MaxEvents: 4 * maxEvents},
			byID: map[string]*agentEvent{}}
	}
	return a
}

func (a *agent) event(id string) *agentEvent {
	e := a.byID[id]
	if e == nil {
		e = &agentEvent{ID: id}
		a.Events = appendByID(a.Events, a.byID, e, func(e *agentEvent) string { return e.ID })
	}
	return e
}

func (e *agentEvent) fill(c *chatEvent, chat string) {
	if e.At.IsZero() {
		e.At, e.MessageID, e.Chat, e.Author, e.Text = c.At, c.MessageID, chat, c.Author, c.Text
	}
}

// Open returns the number of open events among the remembered ones.
func (a *agent) Open() (n int) {
	for _, e := range a.Events {
		if e.Open() {
			n++
		}
	}
	return n
}

// applyAgentRecord applies a record of an agent.
func (f *readModel) applyAgentRecord(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	r, err := protocol.ParseRecord(m.Content)
	if err != nil || protocol.RoleOf(m.From) != protocol.RoleAgent {
		return
	}
	switch {
	case protocol.Topic(e.Topic) == protocol.TopicAgents && r.Event == "online":
		a := f.agent(string(m.From))
		a.Online, a.Last = at, at
	case protocol.Topic(e.Topic) == protocol.TopicAttention:
		a := f.agent(string(m.From))
		a.Last = at
		a.applyRecord(&activitylog.AttentionRecord{At: at, Record: r})
	}
}

// BudgetUntil returns the time until which a budget prevents turns, or zero.
func (a *agent) BudgetUntil(now time.Time) time.Time {
	until, err := time.Parse(time.RFC3339, a.BudgetRecord.Until)
	if err != nil || !until.After(now) {
		return time.Time{}
	}
	return until
}

func (a *agent) applyRecord(r *activitylog.AttentionRecord) {
	r.Reason = text.Clip(r.Reason, maxText)
	a.Add(r, func(id string) *agentstats.EventState { return &a.event(id).EventState })
	switch c := r.Content.(type) {
	case *protocol.BudgetRecord:
		a.BudgetRecord, a.BudgetAt = *c, r.At
		a.BudgetRecord.Reason = r.Reason
	case *protocol.HaltRecord:
		if c.State == protocol.HaltBudgetReset {
			a.BudgetRecord = protocol.BudgetRecord{}
		}
	case *protocol.AttentionDecision:
		if e := a.event(r.EventID); e.At.IsZero() {
			e.At = r.At
		}
	}
}
