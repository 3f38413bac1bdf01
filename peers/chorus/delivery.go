package chorus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol/chorus"
	"hubbub/protocol/notify"
)

// The states of a delivery: one turn of an external agent.
const (
	deliveryPosting = "posting" // on its way
	deliveryOpen    = "open"    // the agent has it; its callback accepts events until due_at
	deliveryFailed  = "failed"  // the agent will never get it
	deliveryStale   = "stale"   // the turn was delivered again with another text
)

// A delivery is one turn of an external agent, as stored.
type delivery struct {
	id              int64
	agent           AgentName
	turn, chat      string // as named by the agent
	revision        string // of the delivered text
	channel         string // the channel ID
	state, trouble  string
	digest          string // of the message, without the description of its channel, which may change
	due             int64
	body            []byte // a chorus.Post, without callback and tools
	callback, token []byte // sealed
}

const deliveryColumns = `id, agent, turn, chat, channel, state, trouble, digest, due_at, body, callback, token, revision`

func (d *delivery) columns() []any {
	return []any{
		&d.id,
		&d.agent,
		&d.turn,
		&d.chat,
		&d.channel,
		&d.state,
		&d.trouble,
		&d.digest,
		&d.due,
		&d.body,
		&d.callback,
		&d.token,
		&d.revision,
	}
}

var errSuperseded = errors.New("the agent was removed, or has received something newer")

// A deliveryQueue POSTs deliveries to external agents.
type deliveryQueue struct {
	g       *Gateway
	queue   *outbox.Outbox // destination: agent and channel
	waiters waiters
}

func newDeliveryQueue(g *Gateway) *deliveryQueue {
	q := &deliveryQueue{g: g}
	q.queue = g.newOutbox(q.send, outbox.Options{
		Name:         "post",
		Parallel:     32,
		StopTimeout:  g.opts.StopTimeout,
		OnSettled:    q.settle,
		AfterSettled: q.logOutcome,
	})
	return q
}

// deliver POSTs a turn to its agent. It returns nil when the agent has the turn, and an error if
// the agent will never get it. Repeating the same message is the same delivery. Another message
// is a new delivery, and makes the previous one stale.
func (q *deliveryQueue) deliver(ctx context.Context, d *delivery, p *chorus.Post) error {
	message, err := json.Marshal(p.Message)
	if err != nil {
		return fmt.Errorf("encoding the message of a turn: %w", err)
	}
	d.digest = hashSecret(string(message))
	if err := store.InTx(ctx, q.g.store.db, func(tx *store.Tx) { q.prepare(tx, d, p) }); err != nil {
		return fmt.Errorf("storing a delivery: %w", err)
	}
	settled, forget := q.waiters.register(d.id)
	defer forget()
	for {
		now, err := readOne(ctx, q.g.store.db,
			errSuperseded,
			(*delivery).columns,
			`SELECT `+deliveryColumns+` FROM delivery WHERE id = ?`,
			d.id)
		switch {
		case err != nil:
			return err
		case now.state == deliveryStale:
			return errSuperseded
		case now.state == deliveryOpen:
			return nil
		case now.state == deliveryFailed:
			return errors.New(now.trouble)
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// prepare stores the delivery of a turn, unless the same message is already stored, and sets its
// ID.
func (q *deliveryQueue) prepare(tx *store.Tx, d *delivery, p *chorus.Post) {
	before, again := store.One(
		tx,
		(*delivery).columns,
		`SELECT `+deliveryColumns+` FROM delivery WHERE agent = ? AND turn = ? ORDER BY id DESC LIMIT 1`,
		d.agent,
		d.turn,
	)
	d.id, d.state = before.id, before.state
	if !again || before.digest != d.digest {
		q.insert(tx, d)
		if again { // agents recognize repeated deliveries by the message ID
			p.Message.ID = fmt.Sprintf("%s~%d", p.Message.ID, d.id)
		}
		body, err := json.Marshal(p)
		tx.Fail(err)
		tx.Exec(`UPDATE delivery SET digest = ?, body = ? WHERE id = ?`, d.digest, body, d.id)
	} else {
		tx.Exec(`UPDATE delivery SET revision = ? WHERE id = ?`, d.revision, d.id)
	}
	if d.state == deliveryPosting {
		number := strconv.FormatInt(d.id, 10)
		_, err := q.queue.EnqueueTx(tx, string(d.agent)+"/"+hashSecret(d.channel), "delivery:"+number, []byte(number))
		tx.Fail(err)
	}
}

// insert stores a delivery with its own callback and token, and replaces earlier ones.
func (q *deliveryQueue) insert(tx *store.Tx, d *delivery) {
	tx.Exec(`UPDATE delivery SET state = ?, body = NULL WHERE agent = ? AND turn = ?`, deliveryStale, d.agent, d.turn)
	callback, token := newSecret(callbackPrefix), newSecret(toolPrefix)
	d.state = deliveryPosting
	d.id = store.Value[int64](
		tx,
		`INSERT INTO delivery (agent, turn, revision, chat, channel, state, due_at, callback_sha256, token_sha256)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		d.agent,
		d.turn,
		d.revision,
		d.chat,
		d.channel,
		d.state,
		micros(q.g.store.now().Add(q.g.opts.CallbackTTL)),
		hashSecret(callback),
		hashSecret(token),
	)
	seal := func(secret string) []byte { return q.g.store.seal.seal(turnLabel(d.id), secret) }
	tx.Exec(`UPDATE delivery SET callback = ?, token = ? WHERE id = ?`, seal(callback), seal(token), d.id)
}

func turnLabel(id int64) string { return "turn:" + strconv.FormatInt(id, 10) }

// send POSTs one delivery to its external agent.
func (q *deliveryQueue) send(ctx context.Context, item outbox.Item) error {
	connection, body, err := q.buildPost(ctx, string(item.Body))
	switch {
	case errors.Is(err, errSuperseded), errors.Is(err, ErrNotFound):
		return outbox.Drop(err) // nobody is waiting for it
	case errors.Is(err, errCannotUnseal):
		return outbox.Permanent(err)
	case err != nil:
		return err
	}
	return classifyPostError(q.g.egress.poster.post(ctx, connection, body), item.Attempt)
}

// buildPost returns where to POST a delivery, and the body. Every attempt restarts the lifetime
// of the callback.
func (q *deliveryQueue) buildPost(ctx context.Context, id string) (connection string, body []byte, err error) {
	d, err := readOne(ctx, q.g.store.db,
		errSuperseded,
		(*delivery).columns,
		`UPDATE delivery SET due_at = ? WHERE id = ? AND state = ? RETURNING `+deliveryColumns,
		micros(q.g.store.now().Add(q.g.opts.CallbackTTL)),
		id,
		deliveryPosting)
	if err != nil {
		return "", nil, err
	}
	agent, err := q.g.store.agent(ctx, d.agent)
	if err != nil {
		return "", nil, err
	}
	var p chorus.Post
	callback, sealed := q.g.store.seal.open(turnLabel(d.id), d.callback)
	token, alike := q.g.store.seal.open(turnLabel(d.id), d.token)
	if err := errors.Join(sealed, alike, json.Unmarshal(d.body, &p)); err != nil {
		return "", nil, err
	}
	server := MCPServer{
		URL:     q.g.toolsURL(d.agent, d.channel),
		Headers: map[string]string{"Authorization": "Bearer " + token},
	}
	p.Callback, p.MCP = q.g.opts.PublicURL+callbackPath+callback, server
	if agent.Settings.MCPList {
		server.Name = "chat"
		p.MCP = []MCPServer{server}
	}
	body, err = json.Marshal(p)
	return agent.connection, body, err
}

// settle stores the outcome of a delivery.
func (q *deliveryQueue) settle(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	if outcome == outbox.StateSent {
		tx.Exec(
			`UPDATE delivery SET state = ?, body = NULL WHERE id = ? AND state = ?`,
			deliveryOpen,
			string(item.Body),
			deliveryPosting,
		)
		return
	}
	why := string(outcome)
	if cause != nil {
		why = cause.Error()
	}
	tx.Exec(
		`UPDATE delivery SET state = ?, trouble = ?, body = NULL, callback = NULL, token = NULL, due_at = 0 WHERE id = ? AND state = ?`,
		deliveryFailed,
		why,
		string(item.Body),
		deliveryPosting,
	)
}

func (q *deliveryQueue) logOutcome(item outbox.Item, outcome outbox.State, cause error) {
	q.waiters.notify(string(item.Body))
	if outcome != outbox.StateSent && outcome != outbox.StateDropped {
		agent, _, _ := strings.Cut(item.Destination, "/")
		q.g.opts.Log.Warn().
			Str("agent", agent).
			Str("outcome", string(outcome)).
			Err(cause).
			Msg("delivery not accepted by its agent")
	}
}

// waiters holds the callers that wait for the outcome of a delivery, one for each.
type waiters struct{ waiting sync.Map } // notify.Signal by the ID of the delivery

func (a *waiters) register(id int64) (settled <-chan struct{}, forget func()) {
	signal, key := notify.New(), strconv.FormatInt(id, 10)
	a.waiting.Store(key, signal)
	return signal.C(), func() { a.waiting.CompareAndDelete(key, signal) }
}

func (a *waiters) notify(id string) {
	if signal, ok := a.waiting.Load(id); ok {
		signal.(notify.Signal).Notify()
	}
}
