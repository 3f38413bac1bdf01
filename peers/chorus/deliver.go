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

// A turn is what an agent gives the gateway to POST.
type turn struct {
	agent   AgentName
	name    string
	chat    string
	channel string // the channel's id
	body    delivery
	digest  string // of the message, not of what is said about its channel: that changes without it
}

func readTurn(agent AgentName, name, chat string, body []byte) (*turn, error) {
	t := &turn{agent: agent, name: name, chat: chat}
	var channel struct {
		ID string `json:"id"`
	}
	if err := errors.Join(json.Unmarshal(body, &t.body), json.Unmarshal(t.body.Channel, &channel)); err != nil {
		return nil, fmt.Errorf("reading a turn: %w", err)
	}
	said, err := json.Marshal(t.body.Message)
	if err != nil {
		return nil, fmt.Errorf("reading what a turn says: %w", err)
	}
	t.channel, t.digest = channel.ID, hashSecret(string(said))
	return t, nil
}

var errRemoved = errors.New("the agent was removed, or got something newer instead")

// deliver has a turn POSTed to its agent and waits until the agent has it (nil), or
// never will. What the turn says is in body. The same words again are the same
// delivery; other words are another, and make the one before stale.
func (g *Gateway) deliver(ctx context.Context, agent AgentName, name, chat string, body []byte) error {
	t, err := readTurn(agent, name, chat, body)
	if err != nil {
		return err
	}
	var id int64
	err = store.InTx(ctx, g.store.db, func(tx *sql.Tx) (err error) {
		id, err = g.prepare(ctx, tx, t)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing a delivery: %w", err)
	}
	settled, forget := g.awaited.expect(id)
	defer forget()
	g.posts.Wake()
	for {
		o, found, err := store.One(ctx, g.store.db, scanOutcome, `SELECT state, trouble FROM delivery WHERE id = ?`, id)
		switch {
		case err != nil:
			return err
		case !found, o.state == deliveryStale:
			return errRemoved
		case o.state == deliveryOpen:
			return nil
		case o.state == deliveryFailed:
			return errors.New(o.trouble)
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// An outcome is what became of a delivery.
type outcome struct{ state, trouble string }

func scanOutcome(row store.Row) (o outcome, err error) { return o, row.Scan(&o.state, &o.trouble) }

// prepare stores the delivery of a turn for its POST, if there is none of the same
// words, and returns its id.
func (g *Gateway) prepare(ctx context.Context, tx *sql.Tx, t *turn) (id int64, err error) {
	var state, before string
	err = tx.QueryRowContext(ctx, `SELECT id, state, digest FROM delivery WHERE agent = ? AND turn = ? ORDER BY id DESC LIMIT 1`, t.agent, t.name).
		Scan(&id, &state, &before)
	known := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	switch {
	case known && before == "": // of an earlier version
		err = g.fill(ctx, tx, id, t)
	case !known || before != t.digest:
		state = deliveryPosting
		id, err = g.newDelivery(ctx, tx, t, known)
	}
	if err != nil || state != deliveryPosting {
		return id, err
	}
	number := strconv.FormatInt(id, 10)
	_, err = g.posts.EnqueueTx(ctx, tx, string(t.agent)+"/"+hashSecret(t.channel), "delivery:"+number, []byte(number))
	return id, err
}

// newDelivery stores a delivery with a callback and a token of its own. A message
// that the agent had before, in other words, gets another id: agents know
// repetitions by it.
func (g *Gateway) newDelivery(ctx context.Context, tx *sql.Tx, t *turn, again bool) (int64, error) {
	err := store.Exec(ctx, tx, `UPDATE delivery SET state = ?, body = NULL WHERE agent = ? AND turn = ?`, deliveryStale, t.agent, t.name)
	if err != nil {
		return 0, err
	}
	callback, token := newSecret(callbackPrefix), newSecret(toolPrefix)
	res, err := tx.ExecContext(ctx, `INSERT INTO delivery (agent, turn, chat, channel, state, due_at, callback_sha256, token_sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		t.agent, t.name, t.chat, t.channel, deliveryPosting, micros(g.store.now().Add(g.opts.CallbackTTL)), hashSecret(callback), hashSecret(token))
	if err != nil {
		return 0, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return 0, err
	}
	if again {
		t.body.Message.ID = fmt.Sprintf("%s~%d", t.body.Message.ID, id)
	}
	seal := func(secret string) []byte { return g.store.seal.seal(turnLabel(id), []byte(secret)) }
	err = store.Exec(ctx, tx, `UPDATE delivery SET callback = ?, token = ? WHERE id = ?`, seal(callback), seal(token), id)
	if err != nil {
		return 0, err
	}
	return id, g.fill(ctx, tx, id, t)
}

// fill stores what a delivery says.
func (g *Gateway) fill(ctx context.Context, tx *sql.Tx, id int64, t *turn) error {
	body, err := json.Marshal(t.body)
	if err != nil {
		return err
	}
	return store.Exec(ctx, tx, `UPDATE delivery SET digest = ?, body = ? WHERE id = ?`, t.digest, body, id)
}

func turnLabel(id int64) string { return "turn:" + strconv.FormatInt(id, 10) }

// sendPost POSTs one delivery to its external agent.
func (g *Gateway) sendPost(ctx context.Context, item outbox.Item) error {
	id, err := strconv.ParseInt(string(item.Body), 10, 64)
	if err != nil {
		return outbox.Permanent(err)
	}
	connection, body, err := g.postOf(ctx, id)
	switch {
	case errors.Is(err, errRemoved), errors.Is(err, ErrNotFound):
		return outbox.Drop(err) // nobody waits for it
	case errors.Is(err, errSealed):
		return outbox.Permanent(err)
	case err != nil:
		return err
	}
	return verdictOfPost(g.poster.post(ctx, connection, "", body), item.Attempt)
}

// postOf returns where a delivery goes and what is POSTed. The callback's lifetime
// begins anew with every attempt.
func (g *Gateway) postOf(ctx context.Context, id int64) (connection string, body []byte, err error) {
	var name AgentName
	var channel string
	var callback, token []byte
	err = g.store.db.QueryRowContext(ctx, `UPDATE delivery SET due_at = ? WHERE id = ? AND state = ? RETURNING agent, channel, body, callback, token`,
		micros(g.store.now().Add(g.opts.CallbackTTL)), id, deliveryPosting).Scan(&name, &channel, &body, &callback, &token)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil, errRemoved
	}
	if err != nil {
		return "", nil, fmt.Errorf("reading a delivery: %w", err)
	}
	agent, err := g.store.agent(ctx, name)
	if err != nil {
		return "", nil, err
	}
	var d delivery
	callback, sealed := g.store.seal.open(turnLabel(id), callback)
	token, alike := g.store.seal.open(turnLabel(id), token)
	if err := errors.Join(sealed, alike, json.Unmarshal(body, &d)); err != nil {
		return "", nil, err
	}
	server := MCPServer{URL: g.toolsURL(name, channel), Headers: map[string]string{"Authorization": "Bearer " + string(token)}}
	d.Callback, d.MCP = g.opts.PublicURL+callbackPath+string(callback), server
	if agent.Settings.MCPList {
		server.Name = "chat"
		d.MCP = []MCPServer{server}
	}
	body, err = json.Marshal(d)
	return agent.connection, body, err
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
	if outcome != outbox.StateSent && outcome != outbox.StateDropped {
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
