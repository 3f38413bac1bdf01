package chorus

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"

	"hubbub/protocol"
)

// callbackPath is where external agents POST their output; the callback's
// secret follows it.
const callbackPath = "/callback/"

// serveCallback takes one event of an external agent. 200 means that it is on
// disk and will reach the chat in the order of receipt.
func (g *Gateway) serveCallback(w http.ResponseWriter, r *http.Request) {
	if err := g.takeCallback(w, r); err != nil {
		g.logCall(err, "callback")
		writeRefusal(w, err)
		return
	}
	writeOK(w)
}

// A liveTurn is the turn that a callback belongs to.
type liveTurn struct {
	id    int64
	agent AgentName
	event *eventRow // the one that its message was named for
}

func (g *Gateway) takeCallback(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "POST events here")
	}
	t, err := g.turnOf(r.Context(), r.PathValue("secret"))
	if err != nil {
		return err
	}
	// One at a time for one callback: the order of receipt is the order of storage.
	leave, err := g.inOrder.enter(r.Context(), t.id)
	if err != nil {
		return errBusy
	}
	defer leave()
	leaveAll, ok := g.calls.enter(fmt.Sprint(callbackPath, t.id))
	if !ok {
		return errBusy
	}
	defer leaveAll()
	body, err := readBody(w, r)
	if errors.Is(err, errTooLarge) {
		return refuse(http.StatusRequestEntityTooLarge, err.Error())
	}
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	event, err := ParseEvent(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	if event.Type == EventMessage {
		if err := g.holdClaim(ctx, t.event); err != nil {
			return err
		}
	}
	var why string
	err = g.store.inTx(ctx, func(tx *sql.Tx) (err error) {
		why, err = g.takeOutput(ctx, tx, t, event, shorten(r.Header.Get("Idempotency-Key")))
		return err
	})
	if err != nil {
		return err
	}
	g.toBus.Wake()
	if why != "" {
		return refuse(http.StatusForbidden, why)
	}
	return nil
}

var errExpired = refuse(http.StatusGone, "this callback has expired")

// turnOf finds the turn that a callback's secret opens: 404 for what never was
// one, 410 for one whose time is over.
func (g *Gateway) turnOf(ctx context.Context, secret string) (*liveTurn, error) {
	t := &liveTurn{}
	var state string
	var due int64
	err := g.store.db.QueryRowContext(ctx, `SELECT id, agent, state, due_at FROM turn WHERE callback_sha256 = ?`, hashSecret(secret)).
		Scan(&t.id, &t.agent, &state, &due)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNobody
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a callback: %w", err)
	}
	if state == turnClosed || due <= micros(g.store.now()) {
		return nil, errExpired
	}
	t.event, err = lastOf(ctx, g.store.db, t.id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errExpired
	}
	return t, err
}

// lastOf returns the event that a turn's message is named for.
func lastOf(ctx context.Context, q querier, turn int64) (*eventRow, error) {
	return scanEvent(q.QueryRowContext(ctx, `SELECT `+eventColumns+` FROM event WHERE turn = ?
		ORDER BY (SELECT min(o.seq) FROM event o WHERE o.agent = event.agent AND o.event_id = event.event_id) DESC, seq DESC LIMIT 1`, turn))
}

// takeOutput stores one event of a turn for the bus. The key, if the agent gave
// one, makes repeating it harmless. Why is not empty when policy forbade it.
func (g *Gateway) takeOutput(ctx context.Context, tx *sql.Tx, t *liveTurn, e *Event, key string) (why string, err error) {
	var n int
	if err := tx.QueryRowContext(ctx, `UPDATE turn SET messages = messages + 1 WHERE id = ? RETURNING messages`, t.id).Scan(&n); err != nil {
		return "", fmt.Errorf("counting the output of a turn: %w", err)
	}
	name := fmt.Sprintf("callback:%d:%s", t.id, key)
	if key == "" {
		name = fmt.Sprintf("callback:%d#%d", t.id, n) // "4" may be a key of theirs and a number of ours
	}
	if e.Type != EventMessage {
		return "", g.takeActivityOf(ctx, tx, t, e, name)
	}
	// What the event has become meanwhile counts, not what it was when the body began to arrive.
	event, err := eventBySeq(ctx, tx, t.event.seq)
	if err != nil {
		return "", fmt.Errorf("reading the event of a turn: %w", err)
	}
	said, err := g.speak(ctx, tx, utterance{event: event, text: e.text(), key: name, tool: "callback", part: true})
	return said.Advice, err
}

// takeActivityOf passes on what an external agent does besides talking.
func (g *Gateway) takeActivityOf(ctx context.Context, tx *sql.Tx, t *liveTurn, e *Event, key string) error {
	a := AgentActivity{
		Event: string(e.Type), InReplyTo: t.event.id, Agent: t.agent.ID(), Status: e.Status, Name: e.Name,
		Args: e.Args, ID: e.ID, Content: e.Content, Message: e.Message, Code: e.Code,
	}
	switch e.Type {
	case EventLifecycle:
		a.Event = string(EventStatus)
	case EventError:
		text := a.Message[:min(len(a.Message), 500)]
		if _, err := tx.ExecContext(ctx, `UPDATE turn SET trouble = ? WHERE id = ?`, text, t.id); err != nil {
			return fmt.Errorf("storing an error: %w", err)
		}
	}
	m := t.event.origin.message(protocol.TypeAgentEvent, t.agent.ID(), a)
	if g.frameSize(len(t.event.chat), m) > g.opts.MaxFrame {
		return errTooLong
	}
	return g.enqueueBus(ctx, tx, t.event.chat.Topic(), key, m)
}
