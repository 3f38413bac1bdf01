package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
)

// The states of a delivery: one turn of an external agent.
const (
	deliveryPosting = "posting" // on its way
	deliveryOpen    = "open"    // the agent has it; its callback lives until it is due
	deliveryFailed  = "failed"  // the agent will never have it
	deliveryStale   = "stale"   // the turn was delivered anew, with other words
)

// A delivery is the body of a POST to an external agent.
type delivery struct {
	Channel  json.RawMessage `json:"channel"`
	Message  message         `json:"message"`
	Callback string          `json:"callback,omitempty"`
	MCP      any             `json:"mcp,omitempty"`
}

type message struct {
	ID      string          `json:"id"`
	Sender  string          `json:"sender"`
	Content string          `json:"content"`
	Knock   json.RawMessage `json:"knock,omitempty"`
}

var errRemoved = errors.New("the agent was removed, or got something newer instead")

// deliver has a turn POSTed to its agent and waits until the agent has it (nil), or
// never will. What the turn says is in body. The same words again are the same
// delivery; other words are another, and make the one before stale.
func (g *Gateway) deliver(ctx context.Context, agent AgentName, turn, chat string, body []byte) error {
	var id int64
	err := g.store.inTx(ctx, func(tx *sql.Tx) (err error) {
		id, err = g.prepare(ctx, tx, agent, turn, chat, body)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing a delivery: %w", err)
	}
	settled, forget := g.awaited.expect(id)
	defer forget()
	g.posts.Wake()
	for {
		reached, trouble, err := g.store.outcome(ctx, id)
		switch {
		case err != nil:
			return err
		case reached:
			return nil
		case trouble != "":
			return errors.New(trouble)
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// outcome reports whether the agent has a delivery, or why it never will.
func (s *Store) outcome(ctx context.Context, id int64) (reached bool, trouble string, err error) {
	var state string
	err = s.db.QueryRowContext(ctx, `SELECT state, trouble FROM delivery WHERE id = ?`, id).Scan(&state, &trouble)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && state == deliveryStale:
		return false, errRemoved.Error(), nil
	case err != nil:
		return false, "", fmt.Errorf("reading a delivery: %w", err)
	}
	return state == deliveryOpen, trouble, nil
}

// prepare stores the delivery of a turn for its POST, if there is none of the same
// words, and returns its id.
func (g *Gateway) prepare(ctx context.Context, tx *sql.Tx, agent AgentName, turn, chat string, body []byte) (id int64, err error) {
	var state, before string
	digest := hashSecret(string(body))
	err = tx.QueryRowContext(ctx, `SELECT id, state, digest FROM delivery WHERE agent = ? AND turn = ? ORDER BY id DESC LIMIT 1`, agent, turn).
		Scan(&id, &state, &before)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	switch {
	case known && before == "": // of an earlier version
		err = store.Exec(ctx, tx, `UPDATE delivery SET digest = ?, body = ? WHERE id = ?`, digest, body, id)
	case !known || before != digest:
		err = store.Exec(ctx, tx, `UPDATE delivery SET state = ?, body = NULL WHERE agent = ? AND turn = ?`, deliveryStale, agent, turn)
		if err == nil {
			id, err = g.newDelivery(ctx, tx, agent, turn, chat, body, known)
		}
		state = deliveryPosting
	}
	if err != nil || state != deliveryPosting {
		return id, err
	}
	number := strconv.FormatInt(id, 10)
	_, err = g.posts.EnqueueTx(ctx, tx, string(agent)+"/"+hashSecret(channelOf(body)), "delivery:"+number, []byte(number))
	return id, err
}

// newDelivery stores a delivery with a callback and a token of its own. A message
// that the agent had before, in other words, gets another id: agents know
// repetitions by it.
func (g *Gateway) newDelivery(ctx context.Context, tx *sql.Tx, agent AgentName, turn, chat string, body []byte, again bool) (int64, error) {
	callback, token := newSecret(callbackPrefix), newSecret(toolPrefix)
	res, err := tx.ExecContext(ctx, `INSERT INTO delivery (agent, turn, chat, channel, state, digest, due_at, callback_sha256, token_sha256)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, agent, turn, chat, channelOf(body), deliveryPosting, hashSecret(string(body)),
		micros(g.store.now().Add(g.opts.CallbackTTL)), hashSecret(callback), hashSecret(token))
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	if again {
		var d delivery
		if err := json.Unmarshal(body, &d); err != nil {
			return 0, err
		}
		d.Message.ID = fmt.Sprintf("%s~%d", d.Message.ID, id)
		if body, err = json.Marshal(d); err != nil {
			return 0, err
		}
	}
	return id, store.Exec(ctx, tx, `UPDATE delivery SET body = ?, callback = ?, token = ? WHERE id = ?`,
		body, g.store.seal.seal(turnLabel(id), []byte(callback)), g.store.seal.seal(turnLabel(id), []byte(token)), id)
}

func turnLabel(id int64) string { return "turn:" + strconv.FormatInt(id, 10) }

// channelOf returns the channel's id of a delivery.
func channelOf(body []byte) string {
	var d struct {
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
	}
	_ = json.Unmarshal(body, &d) // it was written here
	return d.Channel.ID
}

// sendPost POSTs one delivery to its external agent.
func (g *Gateway) sendPost(ctx context.Context, item outbox.Item) error {
	id, err := strconv.ParseInt(string(item.Body), 10, 64)
	if err != nil {
		return outbox.Permanent(err)
	}
	connection, body, err := g.postOf(ctx, id)
	if errors.Is(err, errRemoved) || errors.Is(err, errSealed) || errors.Is(err, ErrNotFound) {
		return outbox.Permanent(err)
	}
	if err != nil {
		return err
	}
	return verdictOfPost(g.poster.post(ctx, connection, "", body), item.Attempt)
}

// postOf returns where a delivery goes and what is POSTed. The callback's lifetime
// begins anew with every attempt.
func (g *Gateway) postOf(ctx context.Context, id int64) (connection string, body []byte, err error) {
	var agent AgentName
	var channel string
	var callback, token []byte
	err = g.store.db.QueryRowContext(ctx, `UPDATE delivery SET due_at = ? WHERE id = ? AND state = ? RETURNING agent, channel, body, callback, token`,
		micros(g.store.now().Add(g.opts.CallbackTTL)), id, deliveryPosting).Scan(&agent, &channel, &body, &callback, &token)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil, errRemoved
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading a delivery: %w", err)
	}
	if callback, err = g.store.seal.open(turnLabel(id), callback); err != nil {
		return "", nil, err
	}
	if token, err = g.store.seal.open(turnLabel(id), token); err != nil {
		return "", nil, err
	}
	settings, err := g.store.agent(ctx, agent)
	if err != nil {
		return "", nil, err
	}
	if connection, err = g.store.connection(ctx, agent); err != nil {
		return "", nil, err
	}
	var d delivery
	if err := json.Unmarshal(body, &d); err != nil {
		return "", nil, fmt.Errorf("reading a delivery: %w", err)
	}
	server := MCPServer{URL: g.toolsURL(agent, channel), Headers: map[string]string{"Authorization": "Bearer " + string(token)}}
	d.Callback, d.MCP = g.opts.PublicURL+callbackPath+string(callback), server
	if settings.MCPList {
		server.Name = "chat"
		d.MCP = []MCPServer{server}
	}
	body, err = json.Marshal(d)
	return connection, body, err
}

// settlePost stores what became of a delivery: the agent has it, or never will.
func (g *Gateway) settlePost(ctx context.Context, tx *sql.Tx, item outbox.Item, outcome outbox.State, cause error) error {
	if outcome == outbox.StateSent {
		return store.Exec(ctx, tx, `UPDATE delivery SET state = ?, body = NULL WHERE id = ? AND state = ?`, deliveryOpen, string(item.Body), deliveryPosting)
	}
	why := string(outcome)
	if cause != nil {
		why = cause.Error()
	}
	return store.Exec(ctx, tx, `UPDATE delivery SET state = ?, trouble = ?, body = NULL, callback = NULL, token = NULL, due_at = 0 WHERE id = ? AND state = ?`,
		deliveryFailed, why, string(item.Body), deliveryPosting)
}

func (g *Gateway) afterPost(item outbox.Item, outcome outbox.State, cause error) {
	if id, err := strconv.ParseInt(string(item.Body), 10, 64); err == nil {
		g.awaited.tell(id)
	}
	if outcome != outbox.StateSent {
		agent, _, _ := strings.Cut(item.Destination, "/")
		g.log.Warn().Str("agent", agent).Str("outcome", string(outcome)).Err(cause).Msg("delivery not taken by its agent")
	}
}

// awaited are the deliveries whose outcome somebody waits for, one waiter each.
type awaited struct {
	mu      sync.Mutex
	waiting map[int64]chan struct{}
}

func (a *awaited) expect(id int64) (settled <-chan struct{}, forget func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine := make(chan struct{}, 1)
	if a.waiting == nil {
		a.waiting = map[int64]chan struct{}{}
	}
	a.waiting[id] = mine
	return mine, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.waiting[id] == mine {
			delete(a.waiting, id)
		}
	}
}

func (a *awaited) tell(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if waiting := a.waiting[id]; waiting != nil {
		select {
		case waiting <- struct{}{}:
		default:
		}
	}
}
