package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/outbox"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A forwardItem is the body of an item towards an agent. Without an event it
// only configures the agent.
type forwardItem struct {
	Event int64 `json:"event,omitempty"`
}

// destination names a chat in the queue towards Telegram.
func (b *Bridge) destination(key int64) string { return string(topicOf(key)) }

// agentDestination names one agent of a chat in the queue towards the agents:
// each agent goes at its own pace.
func (b *Bridge) agentDestination(key int64, agent string) string {
	return b.destination(key) + " > " + agent
}

// parseDestination is the inverse of both.
func parseDestination(destination string) (key int64, agent string, err error) {
	topic, agent, _ := strings.Cut(destination, " > ")
	key, err = chatOf(protocol.Topic(topic))
	return key, agent, err
}

func (b *Bridge) queueForward(ctx context.Context, tx *sql.Tx, key int64, agent, name string, item forwardItem) error {
	body, err := json.Marshal(item)
	if err != nil {
		return err
	}
	_, err = b.forward.EnqueueTx(ctx, tx, b.agentDestination(key, agent), name, body)
	return err
}

// errAbsent is an agent that is not on the bus.
var errAbsent = errors.New("the agent is not on the bus")

// errRejected is an agent that does not want a message.
var errRejected = errors.New("the agent rejected the message")

// sendForward makes one attempt towards an agent: it configures it when it is
// not configured, and passes the event on.
func (b *Bridge) sendForward(ctx context.Context, item outbox.Item) error {
	key, agent, err := parseDestination(item.Destination)
	var body forwardItem
	if err == nil {
		err = json.Unmarshal(item.Body, &body)
	}
	if err != nil {
		return permanent(err)
	}
	var configured, spawned bool
	var state string
	err = b.db.QueryRowContext(ctx, `SELECT a.configured, a.spawned, c.state FROM assignments a JOIN chats c ON c.bot = a.bot AND c.chat = a.chat
		WHERE a.bot = ? AND a.chat = ? AND a.agent = ?`, b.bot, key, agent).Scan(&configured, &spawned, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return permanent(errors.New("the agent is no longer assigned to this chat"))
	}
	if err != nil {
		return err
	}
	if !configured {
		if err := b.configure(ctx, key, agent); err != nil {
			return b.agentTrouble(ctx, key, agent, spawned, item.Attempt, err)
		}
	}
	if body.Event == 0 {
		return nil
	}
	m, err := b.eventMessage(ctx, key, body.Event, agent)
	if err != nil {
		return err
	}
	b.crash("forwarding")
	if err := b.tell(ctx, agent, m); err != nil {
		return b.agentTrouble(ctx, key, agent, spawned, item.Attempt, err)
	}
	b.crash("forwarded")
	if state == chatAsking || state == chatWaiting { // it came back without its spawner
		return exec(ctx, b.db, `UPDATE chats SET state = 'assigned', request = '', told = 0, trouble = '' WHERE bot = ? AND chat = ? AND state IN ('asking','waiting')`, b.bot, key)
	}
	return nil
}

// configure tells an agent which chat it talks to.
func (b *Bridge) configure(ctx context.Context, key int64, agent string) error {
	m := protocol.NewMessage(protocol.TypeConfigure, peerOf(key), protocol.Configure{TalkTo: topicOf(key)})
	if err := b.tell(ctx, agent, m); err != nil {
		return err
	}
	b.crash("configured")
	return b.setConfigured(ctx, key, agent, true)
}

func (b *Bridge) setConfigured(ctx context.Context, key int64, agent string, configured bool) error {
	return exec(ctx, b.db, `UPDATE assignments SET configured = ?4 WHERE bot = ?1 AND chat = ?2 AND agent = ?3 AND configured <> ?4`,
		b.bot, key, agent, configured)
}

// errUntaken is an agent that is there and failed, or did not answer.
var errUntaken = errors.New("the agent did not take the message")

// tell sends a message to an agent; nil means that the agent has it.
func (b *Bridge) tell(ctx context.Context, agent string, m protocol.Message) error {
	result, err := b.peer.Send(ctx, protocol.Topic(agent), m)
	if err != nil {
		return err
	}
	return heard(agent, &result)
}

// heard decides from the bus's answer whether the one who is addressed has a
// message. Others may listen too; they do not count.
func heard(addressee string, r *protocol.SendResult) error {
	i := slices.IndexFunc(r.Failures, func(f protocol.Failure) bool { return string(f.Peer) == addressee })
	switch {
	case r.Addressee == protocol.AddresseeOK:
		return nil
	case r.Addressee == protocol.AddresseeAbsent:
		return errAbsent
	case i >= 0 && r.Failures[i].Status == protocol.OutcomeRejected:
		return fmt.Errorf("%w: %s", errRejected, r.Failures[i].Error)
	case i >= 0 && r.Failures[i].Status == protocol.OutcomeOffline:
		return errors.New("the agent left before it took the message")
	case i >= 0:
		return fmt.Errorf("%w: %s %s", errUntaken, r.Failures[i].Status, r.Failures[i].Error)
	case r.Addressee == protocol.AddresseeFailed:
		return errUntaken
	case r.DeliveredTo < 1:
		return errAbsent
	}
	return nil // a bus that does not say who; somebody took it
}

// agentTrouble says what follows from an attempt that failed. An agent that is not
// there is configured again before it gets anything: the next one of its name may
// be a new one. A spawned one is asked for again: its spawner may have stopped it.
func (b *Bridge) agentTrouble(ctx context.Context, key int64, agent string, spawned bool, attempt int, err error) error {
	if errors.Is(err, errRejected) && attempt >= maxRejections {
		return permanent(err)
	}
	if errors.Is(err, errUntaken) && attempt >= untakenAttempts {
		if notice := b.tellUntaken(ctx, key, agent); notice != nil {
			return errors.Join(err, notice)
		}
	}
	if !errors.Is(err, errAbsent) {
		return err
	}
	if err := b.setConfigured(ctx, key, agent, false); err != nil {
		return err
	}
	if !spawned || attempt < 2 {
		return err
	}
	revive := inTx(ctx, b.db, func(tx *sql.Tx) error {
		c, err := b.loadChat(ctx, tx, key)
		if err != nil || c.state != chatAssigned || !c.present {
			return err
		}
		if often, err := b.askedOften(ctx, tx, key); err != nil || often {
			return err
		}
		b.log.Warn().Str("topic", string(topicOf(key))).Str("peer", agent).Msg("the chat's agent is gone; asking for it again")
		return b.askForAgent(ctx, tx, c)
	})
	if revive != nil {
		return errors.Join(err, revive)
	}
	wake(b.chats)
	return err
}

// tellUntaken tells a chat, once a day for each agent, that what it writes waits.
func (b *Bridge) tellUntaken(ctx context.Context, key int64, agent string) error {
	err := inTx(ctx, b.db, func(tx *sql.Tx) error {
		c, err := b.loadChat(ctx, tx, key)
		if err != nil || !c.present || c.stopped {
			return err
		}
		day := time.Now().UTC().Format(time.DateOnly)
		return b.notice(ctx, tx, c, 0, "untaken:"+agent+":"+day, fmt.Sprintf(
			"@%s does not take messages at the moment. They are kept, and I go on trying.", protocol.PeerID(agent).Name()))
	})
	b.telegram.Wake()
	return err
}

// asksPerMinute bounds how often a chat asks for an agent that is gone: a spawner
// that believes the agent to be there answers at once, again and again.
const asksPerMinute = 3

// askedOften counts by name, as names are in order of time: a chat's requests are
// kept for as long as it has an agent.
func (b *Bridge) askedOften(ctx context.Context, tx *sql.Tx, key int64) (often bool, err error) {
	since, err := ulid.New(ulid.Timestamp(time.Now().Add(-time.Minute)), nil)
	if err != nil {
		return false, err
	}
	var asks int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM requests WHERE request >= ? AND bot = ? AND chat = ? AND created_at <= ?`,
		requestName(since), b.bot, key, now()).Scan(&asks)
	return asks >= asksPerMinute, err
}

// eventMessage builds the tg_message of an event, with what is known now about
// agents and people. Its messageId is the same at each attempt, and another for
// each agent: they share only the sourceId.
func (b *Bridge) eventMessage(ctx context.Context, key, event int64, agent string) (protocol.Message, error) {
	var raw, source, bus, agents string
	var telegramChat int64
	err := b.db.QueryRowContext(ctx, `SELECT draft, source_id, bus_id, agents, telegram_chat FROM events WHERE id = ?`, event).
		Scan(&raw, &source, &bus, &agents, &telegramChat)
	if err != nil {
		return protocol.Message{}, fmt.Errorf("reading event %d: %w", event, err)
	}
	var d draft
	var assigned []string
	if err := errors.Join(json.Unmarshal([]byte(raw), &d), json.Unmarshal([]byte(agents), &assigned)); err != nil {
		return protocol.Message{}, permanent(fmt.Errorf("event %d cannot be read: %w", event, err))
	}
	content := d.Content
	content.SourceID, content.Sequence = source, event
	content.Mentions = resolve(d.Names, assigned, b.me.Username, func(name string) bool { return b.isPerson(ctx, name) })
	if d.ReplyMessage != 0 {
		content.ReplyTo = &protocol.ReplyTo{SourceID: b.sourceID(telegramChat, d.ReplyMessage)}
		content.ReplyTo.Author = b.writerOf(ctx, telegramChat, d.ReplyMessage)
		switch {
		case content.ReplyTo.Author != "":
		case d.ReplyToBot && len(assigned) > 0:
			content.ReplyTo.Author = assigned[0]
		case d.ReplyUser != "":
			content.ReplyTo.Author = "user:" + strings.ToLower(d.ReplyUser)
		}
	}
	m := protocol.NewMessage(protocol.TypeTGMessage, peerOf(key), content)
	if len(m.Content) > maxEvent { // the bus would end the connection, and so everybody's
		return m, permanent(fmt.Errorf("the message has %d bytes, and at most %d can be passed on", len(m.Content), maxEvent))
	}
	m.MessageID = messageIDFor(bus, assigned, agent)
	return m, nil
}

// messageIDFor names the copy of an event's message that one agent gets. The
// first agent of the chat gets the event's own name.
func messageIDFor(event string, assigned []string, agent string) protocol.MessageID {
	if len(assigned) == 0 || assigned[0] == agent {
		return protocol.MessageID(event)
	}
	return protocol.MessageID(event + "." + protocol.PeerID(agent).Name())
}

// eventOf is the inverse of messageIDFor.
func eventOf(messageID string) string {
	event, _, _ := strings.Cut(messageID, ".")
	return event
}

func (b *Bridge) isPerson(ctx context.Context, name string) bool {
	var found bool
	err := b.db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM people WHERE bot = ? AND username = ?)`, b.bot, name).Scan(&found)
	return err == nil && found
}

// writerOf returns the agent that wrote a message of the bot, if one did.
func (b *Bridge) writerOf(ctx context.Context, telegramChat int64, message int) string {
	var agent string
	err := b.db.QueryRowContext(ctx, `SELECT r.agent FROM sends s JOIN replies r ON r.id = s.reply
		WHERE s.bot = ? AND s.telegram_chat = ? AND s.message = ? AND s.message > 0`, b.bot, telegramChat, message).Scan(&agent)
	if err != nil {
		return ""
	}
	return agent
}

// forwardSettled tells the user of a message that no agent got.
func (b *Bridge) forwardSettled(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	var body forwardItem
	if outcome != outbox.StateDead || json.Unmarshal(item.Body, &body) != nil || body.Event == 0 {
		return nil
	}
	key, agent, err := parseDestination(item.Destination)
	if err != nil {
		return nil //nolint:nilerr // nobody can be told
	}
	b.log.Error().Err(cause).Str("topic", string(topicOf(key))).Str("peer", agent).Msg("a message was given up")
	c, err := b.loadChat(ctx, tx, key)
	if err != nil || !c.present || c.stopped {
		if errors.Is(err, errNoChat) {
			err = nil
		}
		return err
	}
	day := time.Now().UTC().Format(time.DateOnly)
	return b.notice(ctx, tx, c, 0, "given-up:"+agent+":"+day, fmt.Sprintf(
		"A message from here could not be given to @%s (%s). Please send it again.", protocol.PeerID(agent).Name(), clip(cause.Error(), 200)))
}
