package tg

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An adapter implements [bridge.Adapter] for the bot's chats.
type adapter struct {
	*outbound
}

// FindChat implements [bridge.Adapter].
func (a *adapter) FindChat(tx *store.Tx, topic protocol.Topic) (id protocol.PeerID, refusal string) {
	key, err := chatOf(topic)
	if err != nil {
		return "", err.Error()
	}
	c, known := a.load(tx, key)
	switch {
	case !known:
		return "", fmt.Sprintf("this bot has no chat %d", key)
	case !a.admitsTopic(tx, c.key):
		refusal = fmt.Sprintf("chat %d is not admitted", c.key)
	}
	return peerOf(c.key), refusal
}

// Message implements [bridge.Adapter]. It builds the tg_message of an event from what is known
// now about agents and people. Its messageId is the same at each attempt and different for each
// agent; the agents share the sourceId.
func (a *adapter) Message(ctx context.Context, e *bridge.Event) (m protocol.Message, err error) {
	failed := store.Autocommit(ctx, a.db, func(tx *store.Tx) { m, err = a.message(tx, e) })
	return m, cmp.Or(err, failed)
}

func (a *adapter) message(tx *store.Tx, e *bridge.Event) (protocol.Message, error) {
	var bus string
	var telegramChat int64
	raw, found := store.One(tx, func(raw *[]byte) []any { return []any{raw, &bus, &telegramChat} },
		`SELECT data, bus_id, telegram_chat FROM events WHERE id = ?`, e.ID)
	if !found {
		return protocol.Message{}, fmt.Errorf("reading event %d: %w", e.ID, cmp.Or(tx.Err(), sql.ErrNoRows))
	}
	var d eventData
	if err := json.Unmarshal(raw, &d); err != nil {
		return protocol.Message{}, outbox.Permanent(fmt.Errorf("event %d cannot be read: %w", e.ID, err))
	}
	content := d.Content
	if content.Forwarded != "" {
		content.Text = "> " + strings.ReplaceAll(strings.TrimSuffix("Forwarded from "+content.Forwarded+":\n"+
			content.Text, "\n"), "\n", "\n> ")
	}
	content.SourceID, content.Sequence = e.Source, e.ID
	content.Mentions = resolveMentions(d.Names, e.Agents, a.me.Username, func(name string) bool {
		return store.Value[bool](tx, `SELECT 1 FROM people WHERE bot = ? AND username = ?`, a.bot, name)
	})
	if d.ReplyText != "" {
		content.ReplyTo = &protocol.ReplyTo{Name: d.ReplyName, Text: d.ReplyText, Attachments: d.ReplyFiles}
	}
	if d.ReplyMessage != 0 {
		content.ReplyTo = &protocol.ReplyTo{
			Name: d.ReplyName, Text: d.ReplyText, Attachments: d.ReplyFiles,
			SourceID: a.sourceID(telegramChat, d.ReplyMessage),
			Author: store.Value[string](tx, `SELECT r.agent FROM sends s JOIN replies r ON r.id = s.reply
				WHERE s.bot = ? AND s.telegram_chat = ? AND s.message = ? AND s.message > 0`, a.bot, telegramChat,
				d.ReplyMessage),
		}
		switch {
		case content.ReplyTo.Author != "":
		case d.ReplyToBot && len(e.Agents) > 0:
			content.ReplyTo.Author = string(e.Agents[0])
		case d.ReplyUser != "":
			content.ReplyTo.Author = "user:" + strings.ToLower(d.ReplyUser)
		case content.Event == protocol.EventReaction && a.isSending(tx, e.Chat):
			return protocol.Message{}, outbox.Later(reactionPause, errBeingSent)
		}
	}
	if tx.Err() != nil {
		return protocol.Message{}, tx.Err()
	}
	if content.Event == protocol.EventReaction && content.ReplyTo != nil && content.Author != nil {
		setReactionTarget(&content)
	}
	m := protocol.NewMessage(protocol.TypeTGMessage, e.Chat, content)
	if len(m.Content) > maxEvent { // the bus would close the connection that all chats share
		return m, outbox.Permanent(fmt.Errorf("the message has %d bytes; at most %d can be delivered", len(m.Content),
			maxEvent))
	}
	m.MessageID = messageIDFor(bus, e)
	return m, nil
}

// reactionPause is how long a reaction waits for a message that is being sent. Telegram shows a
// message before it returns the message's number.
const reactionPause = 200 * time.Millisecond

var errBeingSent = errors.New("the message that this may be about is still being sent")

// isSending reports whether a send to the chat began within the last minute and has not ended.
func (a *adapter) isSending(tx *store.Tx, chat protocol.PeerID) bool {
	key, err := chatOf(chat.Topic())
	tx.Fail(err)
	return store.Value[bool](tx,
		`SELECT EXISTS (SELECT 1 FROM sends WHERE bot = ? AND chat = ? AND begun_at > ? AND attempt > 0 AND kind = 'text')`,
		a.bot, key, nowMicros()-time.Minute.Microseconds())
}

// setReactionTarget adds the members that draft 2026-08-11 defines for a reaction: the actor, the
// target, and the agent that wrote the target.
func setReactionTarget(c *protocol.ChatMessage) {
	c.ReactionID, c.TargetEventID = c.SourceID, c.ReplyTo.SourceID
	c.Actor = &protocol.Party{ID: c.Author.ID, Kind: c.Author.Kind}
	if agent := c.ReplyTo.Author; protocol.RoleOf(protocol.PeerID(agent)) == protocol.RoleAgent {
		c.Recipient = &protocol.Party{ID: agent, Kind: string(attention.AuthorAgent)}
	}
}

// messageIDFor returns the messageId of an event's message to one agent. The chat's first agent
// gets the event's own ID.
func messageIDFor(event string, e *bridge.Event) protocol.MessageID {
	if len(e.Agents) == 0 || e.Agents[0] == e.Agent {
		return protocol.MessageID(event)
	}
	return protocol.MessageID(event + "." + e.Agent.Name())
}

// eventID returns the event's own ID from a messageId of messageIDFor.
func eventID(messageID string) string {
	event, _, _ := strings.Cut(messageID, ".")
	return event
}

// Notify implements [bridge.Adapter].
func (a *adapter) Notify(tx *store.Tx, n *bridge.Notice) {
	key, words, thread, name := "", "", 0, n.Agent.Name()
	switch n.Kind {
	case bridge.NoticeSlow, bridge.NoticeStartFailed:
		key, thread = "trouble:"+n.Key, store.Value[int](tx, `SELECT thread FROM events WHERE id = ?`, n.Event)
		words = "Starting an agent for this chat is taking longer than usual. Your messages are saved, and I'll keep " +
			"trying."
		if n.Kind == bridge.NoticeStartFailed {
			words = "No agent could be started for this chat: " + n.Reason +
				". Your messages are saved, and I'll keep trying."
		}
	case bridge.NoticeAgentFailed:
		key = "gone:" + string(n.Agent) + ":" + thisHour()
		words = fmt.Sprintf("@%s, the agent of this chat, stopped and could not be restarted: %s. "+
			"Your next message starts it again, and it continues with what it hasn't answered.", name, n.Reason)
	case bridge.NoticeDeclined:
		key = "untaken:" + string(n.Agent) + ":" + today()
		words = fmt.Sprintf("@%s isn't accepting messages at the moment. They are saved, and I'll keep trying.", name)
	default:
		return // an absent agent usually returns
	}
	a.notify(tx, n.Chat, thread, key, words)
}

// OnSettled implements [bridge.Adapter]. It notifies the people in a chat about a message that an
// agent never received.
func (a *adapter) OnSettled(tx *store.Tx, e *bridge.Event, outcome outbox.State, cause error) {
	if outcome == outbox.StateDead {
		a.notify(tx, e.Chat, 0, "given-up:"+string(e.Agent)+":"+today(), fmt.Sprintf(
			"A message from this chat could not be delivered to @%s (%s). Please send it again.", e.Agent.Name(),
			text.Clip(cause.Error(), maxReason)))
	}
}

// notify queues a notice to a chat, if the chat can be written to.
func (a *adapter) notify(tx *store.Tx, of protocol.PeerID, thread int, key, says string) {
	n, err := chatOf(of.Topic())
	if err != nil {
		return
	}
	if c, known := a.load(tx, n); known && !c.isMuted() {
		a.notice(tx, c, thread, key, says)
	}
}

// today and thisHour are parts of the keys of notices that are sent once a day or hour.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

func thisHour() string { return time.Now().UTC().Format("2006-01-02T15") }
