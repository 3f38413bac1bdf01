package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/protocol"
)

// A delivery is the body of a POST to an external agent.
type delivery struct {
	Channel  deliveryChannel `json:"channel"`
	Message  deliveryMessage `json:"message"`
	Callback string          `json:"callback"`
	MCP      any             `json:"mcp"`
}

type deliveryChannel struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Service string `json:"service,omitempty"`
	Context string `json:"context,omitempty"`
}

type deliveryMessage struct {
	ID      string           `json:"id"`
	Sender  string           `json:"sender"`
	Content string           `json:"content"`
	Knock   *attention.Knock `json:"knock,omitempty"`
}

// An eventRow is one stored event of an external agent.
type eventRow struct {
	seq         int64
	agent       AgentName
	id          string
	event       attention.EventKind
	channel     string
	chat        protocol.PeerID
	thread      string
	author      string
	kind        protocol.MessageType
	origin      origin
	content     json.RawMessage
	receivedAt  int64
	directed    attention.Directedness
	policy      attention.Policy
	injection   attention.Mode
	reason      string
	needsClaim  bool
	claimToken  int64
	disposition attention.Disposition
	turn        int64
}

const eventColumns = `seq, agent, event_id, kind, channel, chat, thread, author, type, message_id, traceparent, content, received_at,
	directedness, policy, injection, reason, needs_claim, claim_token, disposition, turn`

func scanEvent(row interface{ Scan(...any) error }) (*eventRow, error) {
	e := &eventRow{}
	var content []byte
	err := row.Scan(&e.seq, &e.agent, &e.id, &e.event, &e.channel, &e.chat, &e.thread, &e.author, &e.kind, &e.origin.id, &e.origin.trace, &content, &e.receivedAt,
		&e.directed, &e.policy, &e.injection, &e.reason, &e.needsClaim, &e.claimToken, &e.disposition, &e.turn)
	e.content = content
	return e, err
}

func eventBySeq(ctx context.Context, q querier, seq int64) (*eventRow, error) {
	return scanEvent(q.QueryRowContext(ctx, `SELECT `+eventColumns+` FROM event WHERE seq = ?`, seq))
}

// events reads the events that a condition chooses.
func events(ctx context.Context, q querier, where string, args ...any) ([]*eventRow, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+eventColumns+` FROM event WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	defer rows.Close()
	var list []*eventRow
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, fmt.Errorf("reading events: %w", err)
		}
		list = append(list, e)
	}
	return list, rows.Err()
}

// chatMessage returns what was said, with defaults for what is missing.
func (e *eventRow) chatMessage() protocol.ChatMessage {
	var c protocol.ChatMessage
	_ = json.Unmarshal(e.content, &c) // it was read before it was stored
	if c.Chat == nil {
		c.Chat = &protocol.Chat{ID: e.chat.Name()}
	}
	if c.Author == nil {
		c.Author = &protocol.Author{ID: string(e.chat)}
	}
	return c
}

var errRemoved = errors.New("the agent was removed, or its turn was closed")

// sendPost POSTs one turn to its external agent.
func (g *Gateway) sendPost(ctx context.Context, item outbox.Item) error {
	id, err := strconv.ParseInt(string(item.Body), 10, 64)
	if err != nil {
		return outbox.Permanent(err)
	}
	d, agent, err := g.deliveryOf(ctx, id)
	if err != nil {
		if errors.Is(err, errRemoved) || errors.Is(err, errSealed) || errors.Is(err, ErrNotFound) {
			return outbox.Permanent(err)
		}
		return err
	}
	connection, err := g.store.connection(ctx, agent)
	if errors.Is(err, ErrNotFound) || errors.Is(err, errSealed) {
		return outbox.Permanent(err)
	}
	if err != nil {
		return err
	}
	body, err := json.Marshal(d)
	if err != nil {
		return outbox.Permanent(err)
	}
	return verdictOfPost(g.poster.post(ctx, connection, "", body), item.Attempt)
}

// deliveryOf makes the body of a turn's POST. The callback's lifetime begins
// anew with every attempt.
func (g *Gateway) deliveryOf(ctx context.Context, id int64) (*delivery, AgentName, error) {
	var agent AgentName
	var channel string
	var callback, token, knock []byte
	err := g.store.db.QueryRowContext(ctx, `UPDATE turn SET due_at = ? WHERE id = ? AND state = 'posting' RETURNING agent, channel, callback, token, knock`,
		micros(g.store.now().Add(g.opts.CallbackTTL)), id).Scan(&agent, &channel, &callback, &token, &knock)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", errRemoved
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading a turn: %w", err)
	}
	secret, err := g.store.seal.open(turnLabel(id), callback)
	if err != nil {
		return nil, agent, err
	}
	bearer, err := g.store.seal.open(turnLabel(id), token)
	if err != nil {
		return nil, agent, err
	}
	settings, err := g.store.agent(ctx, g.store.db, agent)
	if err != nil {
		return nil, agent, err
	}
	list, err := events(ctx, g.store.db, `turn = ? ORDER BY (SELECT min(o.seq) FROM event o WHERE o.agent = event.agent AND o.event_id = event.event_id), seq`, id)
	if err != nil {
		return nil, agent, err
	}
	if len(list) == 0 {
		return nil, agent, errRemoved
	}
	d := &delivery{Callback: g.opts.PublicURL + callbackPath + string(secret)}
	server := MCPServer{URL: g.toolsURL(agent, channel), Headers: map[string]string{"Authorization": "Bearer " + string(bearer)}}
	d.MCP = server
	if settings.MCPList {
		server.Name = "chat"
		d.MCP = []MCPServer{server}
	}
	d.Channel, d.Message, err = describe(list, knock)
	return d, agent, err
}

// describe makes the channel and the message of a delivery from the events of
// its turn, in order. The message is named for the last of them.
func describe(list []*eventRow, knock []byte) (deliveryChannel, deliveryMessage, error) {
	last := list[len(list)-1]
	c := last.chatMessage()
	ch := deliveryChannel{ID: last.channel, Name: channelName(c), Service: serviceName(last.chat, c), Context: channelContext(last, c)}
	m := deliveryMessage{ID: last.id, Sender: senderName(*c.Author)}
	if last.event == attention.KindEdit {
		m.ID = fmt.Sprintf("%s~%d", last.id, last.seq) // the same event again, with other words
	}
	if knock != nil {
		m.Knock = &attention.Knock{}
		if err := json.Unmarshal(knock, m.Knock); err != nil {
			return ch, m, fmt.Errorf("reading a knock: %w", err)
		}
		m.Content = fmt.Sprintf("Knock: %s from %s in %s. Its content is not shown; read it with %s if you can help, else do nothing.",
			m.Knock.Topic, m.Knock.From, m.Knock.Where, m.Knock.PullWith)
		return ch, m, nil
	}
	parts := make([]string, 0, len(list))
	for _, e := range list {
		if part := contentOf(e.chatMessage()); part != "" {
			parts = append(parts, part)
		}
	}
	m.Content = strings.Join(parts, "\n")
	return ch, m, nil
}

// contentOf is a message's text; where there is none, the kinds of its
// attachments, and for a reaction its signal.
func contentOf(c protocol.ChatMessage) string {
	switch {
	case c.Text != "":
		return c.Text
	case c.Event == protocol.EventReaction:
		return "(reaction: " + c.Signal + ")"
	case len(c.Attachments) > 0:
		kinds := make([]string, len(c.Attachments))
		for i, a := range c.Attachments {
			kinds[i] = a.Kind
		}
		return "(attached: " + strings.Join(kinds, ", ") + ")"
	}
	return ""
}

func senderName(a protocol.Author) string {
	for _, name := range []string{a.DisplayName, a.Username, a.ID} {
		if strings.TrimSpace(name) != "" {
			return name
		}
	}
	return "unknown"
}

func channelName(c protocol.ChatMessage) string {
	if c.Chat.Title == "" && (c.Chat.Kind == "" || c.Chat.Kind == "dm") {
		return senderName(*c.Author)
	}
	return c.Chat.Title
}

func serviceName(chat protocol.PeerID, c protocol.ChatMessage) string {
	switch {
	case chat.Family() == "tg":
		return "Telegram, through Hubbub"
	case c.Chat.Service != "":
		return c.Chat.Service + ", through Hubbub"
	default:
		return "Hubbub"
	}
}

// channelContext is the gateway's own description of a channel; only the part of
// a Chorus service comes from outside.
func channelContext(e *eventRow, c protocol.ChatMessage) string {
	what := "A direct chat with one person."
	if c.Chat.Kind != "" && c.Chat.Kind != "dm" {
		what = "A chat with several people; they reach you by mentioning @" + string(e.agent) + " or by answering you."
	}
	text := what + " POST what you want to say to the callback; the chat.* tools read what was said before."
	if c.Chat.Context != "" {
		text += " The service describes the channel so: " + c.Chat.Context
	}
	return text
}

// settlePost stores what became of a delivery: the agent has it, or never will.
func (g *Gateway) settlePost(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	id, err := strconv.ParseInt(string(item.Body), 10, 64)
	if err != nil {
		return nil
	}
	if outcome == outbox.StateSent {
		_, err := tx.ExecContext(ctx, `UPDATE turn SET state = 'open' WHERE id = ? AND state = 'posting'`, id)
		return err
	}
	why := string(outcome)
	if cause != nil {
		why = cause.Error()
	}
	return g.closeTurnTx(ctx, tx, id, why)
}

func (g *Gateway) afterPost(item outbox.Item, outcome outbox.State, cause error) {
	g.turns.look()
	g.toBus.Wake()
	if outcome != outbox.StateSent {
		agent, _, _ := strings.Cut(item.Destination, "/")
		g.log.Warn().Str("agent", agent).Str("outcome", string(outcome)).Err(cause).Msg("a delivery did not reach its agent")
	}
}
