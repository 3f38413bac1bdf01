package chorus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
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

// serveCallback accepts one event of an external agent, or several as lines. It answers 200 once
// they are on disk.
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
	key := shortKey(r.Header.Get("Idempotency-Key"))
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if slices.Contains(lineTypes, kind) || hasLines(body) {
		return g.serveLines(w, r, d, body, key)
	}
	if err := g.takeAgentEvent(r.Context(), d, body, key); err != nil {
		return err
	}
	return writeOK(w)
}

// takeAgentEvent parses and stores one event. The caller may disconnect meanwhile.
func (g *Gateway) takeAgentEvent(ctx context.Context, d *delivery, body []byte, key string) error {
	event, err := ParseEvent(body)
	if err != nil {
		return newHTTPError(http.StatusBadRequest, err.Error())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callbackTimeout)
	defer cancel()
	err = g.handleAgentEvent(ctx, d, event, key)
	if refused, ok := errors.AsType[forbiddenError](err); ok {
		return newHTTPError(http.StatusForbidden, refused.Forbidden())
	}
	return err
}

// lineTypes are the media types of a body with one JSON object in each line.
var lineTypes = []string{"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}

// hasLines reports whether a body has several lines, the first of which is an event, so that it
// is not JSON. Some clients do not name the media type.
func hasLines(body []byte) bool {
	first, rest, _ := bytes.Cut(bytes.TrimSpace(body), []byte("\n"))
	return len(rest) > 0 && json.Valid(first)
}

// maxLines limits the events in one body.
const maxLines = 500

// A lineResult is the outcome of one line: its number in the body, and the status that it would
// have had alone.
type lineResult struct {
	Line   int    `json:"line"`
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
}

// serveLines accepts the events of a body with one object in each line, in order. The answer names
// the outcome of each line: 200 if all were stored, 207 if some were, else the status of the first.
// After a line that may be repeated, no further one is stored, since they must stay in order.
func (g *Gateway) serveLines(w http.ResponseWriter, r *http.Request, d *delivery, body []byte, key string) error {
	events := 0
	for line := range bytes.Lines(body) {
		if len(bytes.TrimSpace(line)) > 0 {
			events++
		}
	}
	switch {
	case events == 0:
		return newHTTPError(http.StatusBadRequest, "the body has no event")
	case events > maxLines: // before any is stored
		return newHTTPError(http.StatusRequestEntityTooLarge, fmt.Sprintf("one POST has at most %d events", maxLines))
	}
	again := "send both again"
	if key != "" { // each event is known by the key and the number of its line
		again = "send the whole body again"
	}
	results, taken, stuck := []lineResult{}, 0, 0
	number := 0
	for line := range bytes.Lines(body) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if stuck > 0 {
			results = append(results, lineResult{number, http.StatusServiceUnavailable,
				fmt.Sprintf("not stored, since line %d was not: %s", stuck, again)})
			continue
		}
		lineKey := ""
		if key != "" {
			lineKey = fmt.Sprint(key, "#", number)
		}
		result := lineResult{Line: number, Status: http.StatusOK}
		if err := g.takeAgentEvent(r.Context(), d, line, lineKey); err != nil {
			refusal := g.asHTTPError(err, "callback")
			if result.Status, result.Error = refusal.status, refusal.text; refusal.status >= http.StatusInternalServerError {
				stuck = number
			}
		} else {
			taken++
		}
		results = append(results, result)
	}
	status := http.StatusMultiStatus
	switch taken {
	case events:
		status = http.StatusOK
	case 0:
		status = results[0].Status
	}
	writeStatus(w, status)
	_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
	return nil
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
	n, err := readOne(ctx, g.store.db,
		errUnknownSecret,
		store.Scalar[int],
		`UPDATE delivery SET outputs = outputs + 1 WHERE id = ? RETURNING outputs`,
		d.id)
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
