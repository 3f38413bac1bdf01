package mx

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An adapter implements [bridge.Adapter] for the bot's rooms.
type adapter struct {
	*outbound
}

// FindChat implements [bridge.Adapter].
func (a *adapter) FindChat(tx *store.Tx, topic protocol.Topic) (protocol.PeerID, string) {
	c, refusal := a.find(tx, topic)
	if refusal != "" {
		return "", refusal
	}
	if !a.admitsChat(tx, c) {
		refusal = fmt.Sprintf("room %s is not admitted", c.key)
	}
	return c.peer(), refusal
}

// Message implements [bridge.Adapter]. It builds the chat_message of an event from what is known
// now about agents and people.
func (a *adapter) Message(tx *store.Tx, e *bridge.Event) (protocol.Message, error) {
	var bus string
	raw, found := store.One(tx, func(raw *[]byte) []any { return []any{raw, &bus} },
		`SELECT data, bus_id FROM events WHERE id = ?`, e.ID)
	if !found {
		return protocol.Message{}, fmt.Errorf("reading event %d: %w", e.ID, cmp.Or(tx.Err(), errNoEvent))
	}
	var d eventData
	if err := json.Unmarshal(raw, &d); err != nil {
		return protocol.Message{}, outbox.Permanent(fmt.Errorf("event %d cannot be read: %w", e.ID, err))
	}
	c, _ := a.load(tx, e.Chat.Name())
	content := d.Content
	content.Mentions = bridge.ResolveMentions(d.Names, e.Agents, localpart(string(a.bot)),
		func(name string) bool { return len(a.People(tx, e.Chat, name)) > 0 })
	if d.ReplyTo != "" {
		content.ReplyTo = a.answered(tx, c, d.ReplyTo)
	}
	if tx.Err() != nil {
		return protocol.Message{}, tx.Err()
	}
	return bridge.NewMessage(protocol.TypeChatMessage, e, bus, &content)
}

var errNoEvent = errors.New("it is no longer stored")

// answered returns what is known about a message that is answered.
func (a *outbound) answered(tx *store.Tx, c *chat, event string) *protocol.ReplyTo {
	r := &protocol.ReplyTo{SourceID: sourceID(event)}
	type sent struct{ agent, text string }
	if own, found := store.One(tx, func(s *sent) []any { return []any{&s.agent, &s.text} },
		`SELECT r.agent, coalesce(s.body ->> '$.text', '') FROM sends s JOIN replies r ON r.id = s.reply
		WHERE s.event = ? ORDER BY s.reply DESC LIMIT 1`, event); found { // as its last edit left it
		r.Author, r.Text = own.agent, text.Clip(own.text, bridge.MaxQuote)
		r.Name = protocol.PeerID(own.agent).Name()
		return r
	}
	type said struct {
		sender string
		data   []byte
	}
	of, found := store.One(tx, func(s *said) []any { return []any{&s.sender, &s.data} },
		`SELECT sender, data FROM events WHERE event = ? ORDER BY id DESC LIMIT 1`, event)
	var d eventData
	if found && json.Unmarshal(of.data, &d) == nil {
		r.Author, r.Name = "user:"+of.sender, a.nameOf(tx, c.room, of.sender)
		r.Text, r.Attachments = text.Clip(d.Content.Text, bridge.MaxQuote), d.Content.Attachments
	}
	return r
}

// relay delivers what an agent said, and people have seen, to the other agents of the chat as an event.
// In a direct chat with several agents the event counts as said in a channel: it is for none of them
// unless it names one.
func (out *outbound) relay(tx *store.Tx, o *outgoing, event string) {
	out.view(o.chat).Relay(tx, o.agent, &o.content, sourceID(event), func() int64 {
		thread := threadFor(tx, &o.content)
		in := out.describe(tx, o.chat, thread)
		if in.Kind == "dm" {
			in.Kind = "channel"
		}
		d := eventData{Content: bridge.RelayedMessage(protocol.PeerID(o.agent), &o.content, in)}
		own := strings.ToLower(localpart(string(out.bot)))
		for _, name := range bridge.MentionedNames(o.content.Text, codeOrQuotes(o.content.Text)) {
			if name != own { // no person wrote it, so the bot's name does not mean the first agent
				d.Names = append(d.Names, name)
			}
		}
		if len(d.Names) == 0 { // a name takes precedence over the answered message
			d.ReplyTo = eventOf(o.content.ReplyTo)
		}
		return out.putEvent(tx, o.chat, event, string(out.bot), thread, sourceID(event), &d)
	})
}

// putEvent stores an event and returns its number.
func (a *account) putEvent(tx *store.Tx, c *chat, event, sender, thread, source string, d *eventData) int64 {
	return store.Value[int64](tx, `INSERT INTO events
		(chat, event, sender, thread, source_id, data, bus_id, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		c.key, event, sender, thread, source, mustJSON(d), string(protocol.NewMessageID()), nowMicros())
}
