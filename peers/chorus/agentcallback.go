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

// callbackPath is the path prefix of the callbacks of external agents; the secret of a callback
// follows.
const callbackPath = "/callback/"

// callbackTimeout limits storing one event, including the wait for a claim.
const callbackTimeout = 45 * time.Second

var (
	errExpired      = newHTTPError(http.StatusGone, "this callback has expired")
	errAgentOffline = newHTTPError(http.StatusServiceUnavailable, "the agent is not on the bus; try again")
)

// serveCallback accepts one event of an external agent. It answers 200 once the event is on disk.
// Events reach the chat in the order of receipt.
func (g *Gateway) serveCallback(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return newHTTPError(http.StatusMethodNotAllowed, "POST events here")
	}
	d, err := g.store.deliveryBySecret(r.Context(), "callback_sha256", r.PathValue("secret"))
	if err != nil {
		return err
	}
	if !d.isLive(g.store.now()) {
		return errExpired
	}
	// One call at a time per callback, to store events in the order of receipt.
	leave, err := g.limiters.calls.acquire(r.Context(), fmt.Sprint(callbackPath, d.id), true)
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
		return newHTTPError(http.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), callbackTimeout)
	defer cancel()
	err = g.handleAgentEvent(ctx, d, event, shortKey(r.Header.Get("Idempotency-Key")))
	if refused, ok := errors.AsType[forbidden](err); ok {
		return newHTTPError(http.StatusForbidden, refused.Forbidden())
	}
	if err != nil {
		return err
	}
	return writeOK(w)
}

// deliveryBySecret finds a delivery by the hash of a secret in column. It fails with
// errUnknownSecret if there is none.
func (s *Store) deliveryBySecret(ctx context.Context, column, secret string) (*delivery, error) {
	return store.Read(ctx, s.db, func(tx *store.Tx) *delivery {
		d := one(
			tx,
			errUnknownSecret,
			(*delivery).columns,
			`SELECT `+deliveryColumns+` FROM delivery WHERE `+column+` = ?`,
			hashSecret(secret),
		)
		return &d
	})
}

func (d *delivery) isLive(now time.Time) bool { return d.due > micros(now) }

// handleAgentEvent passes one event of a delivery to its agent, which stores it. With a key, the
// event may be repeated safely.
func (g *Gateway) handleAgentEvent(ctx context.Context, d *delivery, e *chorus.Event, key string) error {
	agent := g.agents.lookup(d.agent)
	if agent == nil {
		return errAgentOffline
	}
	if e.Type == chorus.EventMessage && d.state == deliveryStale {
		return agent.RefuseStale(ctx, d.turn)
	}
	if g.frameSize(len(d.chat), protocol.NewMessage(protocol.TypeAgentEvent, d.agent.ID(), e)) > g.opts.MaxFrame {
		return errFrameTooLarge
	}
	n, err := store.Read(ctx, g.store.db, func(tx *store.Tx) int {
		return one(
			tx,
			errUnknownSecret,
			store.Scalar[int],
			`UPDATE delivery SET outputs = outputs + 1 WHERE id = ? RETURNING outputs`,
			d.id,
		)
	})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("callback:%d:%s", d.id, key)
	if key == "" {
		name = fmt.Sprintf("callback:%d#%d", d.id, n) // "#" keeps our number apart from a sender's key
	}
	return agent.Handle(ctx, d.turn, d.revision, name, e)
}

// shortKey returns the key, or its hash if it is too long.
func shortKey(key string) string {
	if key = strings.TrimSpace(key); len(key) > 200 {
		return "sha256:" + hashSecret(key)
	}
	return key
}
