package chorus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/chorus"
)

// callbackPath begins the path of the callbacks of external agents. The callback's
// secret follows it.
const callbackPath = "/callback/"

// takeTimeout bounds the storing of one event, the wait for a claim included.
const takeTimeout = 45 * time.Second

var (
	errExpired = refuse(http.StatusGone, "this callback has expired")
	errAway    = refuse(http.StatusServiceUnavailable, "the agent is not on the bus; try again")
)

// serveCallback takes one event of an external agent. 200 means that it is on
// disk and will reach the chat in the order of receipt.
func (g *Gateway) serveCallback(w http.ResponseWriter, r *http.Request) error {
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
	leave, err := g.calls.enter(r.Context(), fmt.Sprint(callbackPath, d.id), true)
	if err != nil {
		return err
	}
	defer leave()
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
	err = g.takeEvent(ctx, d, event, shorten(r.Header.Get("Idempotency-Key")))
	if refused, ok := errors.AsType[forbidden](err); ok {
		return refuse(http.StatusForbidden, refused.Forbidden())
	}
	if err != nil {
		return err
	}
	return writeOK(w)
}

// deliveryWith finds the delivery that a secret opens. It fails with errNobody if
// there is none.
func (s *Store) deliveryWith(ctx context.Context, column, secret string) (*delivery, error) {
	tx := store.On(ctx, s.db)
	d := one(tx, errNobody, (*delivery).columns, `SELECT `+deliveryColumns+` FROM delivery WHERE `+column+` = ?`, hashSecret(secret))
	return &d, tx.Err()
}

func (d *delivery) live(now time.Time) bool { return d.due > micros(now) }

// takeEvent hands one event of a delivery to its agent, which stores it. The key, if
// there is one, makes repeating it harmless.
func (g *Gateway) takeEvent(ctx context.Context, d *delivery, e *chorus.Event, key string) error {
	agent := g.members.of(d.agent)
	if agent == nil {
		return errAway
	}
	if e.Type == chorus.EventMessage && d.state == deliveryStale {
		return agent.RefuseStale(ctx, d.turn)
	}
	if g.frameSize(len(d.chat), protocol.NewMessage(protocol.TypeAgentEvent, d.agent.ID(), e)) > g.opts.MaxFrame {
		return errTooLong
	}
	tx := store.On(ctx, g.store.db)
	n := one(tx, errNobody, store.Itself[int], `UPDATE delivery SET outputs = outputs + 1 WHERE id = ? RETURNING outputs`, d.id)
	if tx.Err() != nil {
		return tx.Err()
	}
	name := fmt.Sprintf("callback:%d:%s", d.id, key)
	if key == "" {
		name = fmt.Sprintf("callback:%d#%d", d.id, n) // "4" may be a key of theirs and a number of ours
	}
	return agent.Handle(ctx, d.turn, d.revision, name, e)
}

// shorten makes a key fit: what is longer is hashed.
func shorten(key string) string {
	if key = strings.TrimSpace(key); len(key) > 200 {
		return "sha256:" + hashSecret(key)
	}
	return key
}
