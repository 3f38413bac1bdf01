package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/protocol"
)

// callbackPath begins the path of the callbacks of external agents. The callback's
// secret follows it.
const callbackPath = "/callback/"

// takeTimeout bounds the storing of one event, the wait for a claim included.
const takeTimeout = 45 * time.Second

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

// A liveDelivery is the delivery that a callback or a token belongs to.
type liveDelivery struct {
	id      int64
	agent   AgentName
	turn    string
	chat    string
	channel string
	state   string
	due     int64
}

func (g *Gateway) takeCallback(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "POST events here")
	}
	d, err := g.store.deliveryWith(r.Context(), "callback_sha256", r.PathValue("secret"))
	if err != nil {
		return err
	}
	if !d.live(g.store.now()) {
		return errExpired
	}
	// One at a time for one callback: the order of receipt is the order of storage.
	leave, err := g.inOrder.enter(r.Context(), d.id)
	if err != nil {
		return errBusy
	}
	defer leave()
	leaveAll, ok := g.calls.enter(fmt.Sprint(callbackPath, d.id))
	if !ok {
		return errBusy
	}
	defer leaveAll()
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	event, err := ParseEvent(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), takeTimeout)
	defer cancel()
	why, err := g.takeEvent(ctx, d, event, shorten(r.Header.Get("Idempotency-Key")))
	if err == nil && why != "" {
		return refuse(http.StatusForbidden, why)
	}
	return err
}

var (
	errExpired = refuse(http.StatusGone, "this callback has expired")
	errAway    = refuse(http.StatusServiceUnavailable, "the agent is not on the bus; try again")
	errTooLong = refuse(http.StatusRequestEntityTooLarge, "the message is larger than a frame of the bus")
)

// deliveryWith finds the delivery that a secret opens. It fails with errNobody if
// there is none.
func (s *Store) deliveryWith(ctx context.Context, column, secret string) (*liveDelivery, error) {
	d := &liveDelivery{}
	err := s.db.QueryRowContext(ctx, `SELECT id, agent, turn, chat, channel, state, due_at FROM delivery WHERE `+column+` = ?`, hashSecret(secret)).
		Scan(&d.id, &d.agent, &d.turn, &d.chat, &d.channel, &d.state, &d.due)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNobody
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a delivery: %w", err)
	}
	return d, nil
}

func (d *liveDelivery) live(now time.Time) bool { return d.due > micros(now) }

// takeEvent hands one event of a delivery to its agent, which stores it. The key, if
// there is one, makes repeating it harmless. Why is not empty if policy forbids it.
func (g *Gateway) takeEvent(ctx context.Context, d *liveDelivery, e *Event, key string) (why string, err error) {
	agent := g.members.of(d.agent)
	if agent == nil {
		return "", errAway
	}
	if e.Type == EventMessage && d.state == deliveryStale {
		return agent.Refuse(ctx, d.turn)
	}
	if g.frameSize(len(d.chat), protocol.NewMessage(protocol.TypeAgentEvent, d.agent.ID(), e)) > g.opts.MaxFrame {
		return "", errTooLong
	}
	var n int
	if err := g.store.db.QueryRowContext(ctx, `UPDATE delivery SET outputs = outputs + 1 WHERE id = ? RETURNING outputs`, d.id).Scan(&n); err != nil {
		return "", fmt.Errorf("counting the output of a delivery: %w", err)
	}
	name := fmt.Sprintf("callback:%d:%s", d.id, key)
	if key == "" {
		name = fmt.Sprintf("callback:%d#%d", d.id, n) // "4" may be a key of theirs and a number of ours
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("writing an event: %w", err)
	}
	return agent.Take(ctx, d.turn, name, raw)
}

// shorten makes a key fit: what is longer is hashed.
func shorten(key string) string {
	if key = strings.TrimSpace(key); len(key) > 200 {
		return "sha256:" + hashSecret(key)
	}
	return key
}
