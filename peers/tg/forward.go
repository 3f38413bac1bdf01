package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// events are what was said in chats, on its way to agents: the host of the surface.
type events struct {
	*chats
	out *outbound
}

// Find returns the chat that a topic names, and why it may have no agent.
func (ev *events) Find(ctx context.Context, q store.Querier, topic protocol.Topic) (protocol.PeerID, string, error) {
	key, err := chatOf(topic)
	if err != nil {
		return "", err.Error(), nil
	}
	c, err := ev.load(ctx, q, key)
	if errors.Is(err, errNoChat) {
		return "", fmt.Sprintf("this bot has no chat %d", key), nil
	}
	if err != nil {
		return "", "", err
	}
	admitted, err := ev.admitsTopic(ctx, q, c.key)
	refusal := ""
	if !admitted {
		refusal = fmt.Sprintf("chat %d is not admitted", c.key)
	}
	return peerOf(c.key), refusal, err
}

// Message builds the tg_message of an event, with what is known now about agents
// and people. Its messageId is the same at each attempt, and another for each agent:
// they share only the sourceId.
func (ev *events) Message(ctx context.Context, e *surface.Event) (protocol.Message, error) {
	var raw, bus string
	var telegramChat int64
	err := ev.db.QueryRowContext(ctx, `SELECT draft, bus_id, telegram_chat FROM events WHERE id = ?`, e.ID).Scan(&raw, &bus, &telegramChat)
	if err != nil {
		return protocol.Message{}, fmt.Errorf("reading event %d: %w", e.ID, err)
	}
	var d draft
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
		return protocol.Message{}, outbox.Permanent(fmt.Errorf("event %d cannot be read: %w", e.ID, err))
	}
	assigned := make([]string, len(e.Agents))
	for i, a := range e.Agents {
		assigned[i] = string(a)
	}
	content := d.Content
	content.SourceID, content.Sequence = e.Source, e.ID
	content.Mentions = resolve(d.Names, assigned, ev.me.Username, func(name string) bool { return ev.isPerson(ctx, name) })
	if d.ReplyMessage != 0 {
		content.ReplyTo = &protocol.ReplyTo{SourceID: ev.sourceID(telegramChat, d.ReplyMessage)}
		content.ReplyTo.Author = ev.writerOf(ctx, telegramChat, d.ReplyMessage)
		switch {
		case content.ReplyTo.Author != "":
		case d.ReplyToBot && len(assigned) > 0:
			content.ReplyTo.Author = assigned[0]
		case d.ReplyUser != "":
			content.ReplyTo.Author = "user:" + strings.ToLower(d.ReplyUser)
		}
	}
	m := protocol.NewMessage(protocol.TypeTGMessage, e.Chat, content)
	if len(m.Content) > maxEvent { // the bus would end the connection, and so everybody's
		return m, outbox.Permanent(fmt.Errorf("the message has %d bytes, and at most %d can be passed on", len(m.Content), maxEvent))
	}
	m.MessageID = messageIDFor(bus, e)
	return m, nil
}

// messageIDFor returns the id of the copy of an event's message that one agent gets.
// The chat's first agent gets the event's own id.
func messageIDFor(event string, e *surface.Event) protocol.MessageID {
	if len(e.Agents) == 0 || e.Agents[0] == e.Agent {
		return protocol.MessageID(event)
	}
	return protocol.MessageID(event + "." + e.Agent.Name())
}

// eventOf is the inverse of messageIDFor.
func eventOf(messageID string) string {
	event, _, _ := strings.Cut(messageID, ".")
	return event
}

func (ev *events) isPerson(ctx context.Context, name string) bool {
	_, found, err := store.One(ctx, ev.db, store.Column[int], `SELECT 1 FROM people WHERE bot = ? AND username = ?`, ev.bot, name)
	return err == nil && found
}

// writerOf returns the agent that wrote a message of the bot, if one did.
func (ev *events) writerOf(ctx context.Context, telegramChat int64, message int) string {
	agent, _, err := store.One(ctx, ev.db, store.Column[string], `SELECT r.agent FROM sends s JOIN replies r ON r.id = s.reply
		WHERE s.bot = ? AND s.telegram_chat = ? AND s.message = ? AND s.message > 0`, ev.bot, telegramChat, message)
	if err != nil {
		return ""
	}
	return agent
}

// Tell tells the people in a chat of trouble with its agents.
func (ev *events) Tell(ctx context.Context, tx *sql.Tx, n *surface.Notice) error {
	key, err := chatOf(n.Chat.Topic())
	if err != nil {
		return err
	}
	c, err := ev.load(ctx, tx, key)
	if err != nil || c.silent() {
		return err
	}
	name := n.Agent.Name()
	switch n.Kind {
	case surface.NoticeSlow, surface.NoticeFailed:
		says := "It takes longer than usual to start an agent for this chat. Your messages are kept, and I go on trying."
		if n.Kind == surface.NoticeFailed {
			says = "No agent could be started for this chat: " + n.Why + ". Your messages are kept, and I go on trying."
		}
		thread, _, err := store.One(ctx, tx, store.Column[int], `SELECT thread FROM events WHERE id = ?`, n.Event)
		if err != nil {
			return err
		}
		return ev.out.notice(ctx, tx, c, thread, "trouble:"+n.Key, says)
	case surface.NoticeGivenUp:
		return ev.out.notice(ctx, tx, c, 0, "gone:"+string(n.Agent)+":"+thisHour(), fmt.Sprintf(
			"@%s, the agent of this chat, ended and could not be started again: %s. Your next message has it started anew, and it goes on with what it did not answer.",
			name, n.Why))
	case surface.NoticeUntaken:
		return ev.out.notice(ctx, tx, c, 0, "untaken:"+string(n.Agent)+":"+today(),
			fmt.Sprintf("@%s does not take messages at the moment. They are kept, and I go on trying.", name))
	}
	return nil // an agent that is away comes back, as a rule
}

// Settled tells the people in a chat of a message that no agent got.
func (ev *events) Settled(ctx context.Context, tx *sql.Tx, e *surface.Event, outcome outbox.State, cause error) error {
	if outcome != outbox.StateDead {
		return nil
	}
	key, err := chatOf(e.Chat.Topic())
	if err != nil {
		return nil //nolint:nilerr // nobody can be told
	}
	c, err := ev.load(ctx, tx, key)
	if errors.Is(err, errNoChat) {
		return nil
	}
	if err != nil || c.silent() {
		return err
	}
	return ev.out.notice(ctx, tx, c, 0, "given-up:"+string(e.Agent)+":"+today(), fmt.Sprintf(
		"A message from here could not be given to @%s (%s). Please send it again.", e.Agent.Name(), text.Clip(cause.Error(), maxReason)))
}

// Wake makes the queue towards Telegram look again.
func (ev *events) Wake() { ev.out.telegram.Wake() }

// today and thisHour name the day and the hour, for what is told once in each.
func today() string { return time.Now().UTC().Format(time.DateOnly) }

func thisHour() string { return time.Now().UTC().Format("2006-01-02T15") }
