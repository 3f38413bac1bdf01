package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"hubbub/peers/outbox"
)

// A Waiting is one item of a bridge's queues as an operator sees it.
type Waiting struct {
	ID          int64        `json:"id"`
	Queue       string       `json:"queue"` // telegram, agents or status
	Bot         int64        `json:"bot"`
	Destination string       `json:"destination"`
	State       outbox.State `json:"state"`
	Attempts    int          `json:"attempts"`
	QueuedAt    time.Time    `json:"queuedAt"`
	NextAt      time.Time    `json:"nextAt,omitzero"` // of the next attempt
	EndedAt     time.Time    `json:"endedAt,omitzero"`
	Agent       string       `json:"agent,omitempty"` // whose reply it is
	Text        string       `json:"text,omitempty"`  // its beginning
	Error       string       `json:"error,omitempty"` // of the last attempt
}

// Queues gives an operator the queues of the bridges that use a database, also
// while one runs.
type Queues struct{ db *sql.DB }

// NewQueues makes one on a database of Open.
func NewQueues(db *sql.DB) *Queues { return &Queues{db} }

// bridges returns the bridge of each bot that used the database, not running:
// its outboxes settle as the running ones do.
func (q *Queues) bridges(ctx context.Context) ([]*Bridge, error) {
	bots, err := list(ctx, q.db, `SELECT bot FROM bots ORDER BY bot`)
	if err != nil {
		return nil, fmt.Errorf("looking for bots: %w", err)
	}
	var out []*Bridge
	for _, bot := range bots {
		number, err := strconv.ParseInt(bot, 10, 64)
		if err != nil {
			return nil, err
		}
		b := New("", q.db, nil)
		b.become(number)
		out = append(out, b)
	}
	return out, nil
}

// boxes are a bridge's queues in the order in which operators see them.
func (b *Bridge) boxes() []struct {
	name string
	*outbox.Outbox
} {
	return []struct {
		name string
		*outbox.Outbox
	}{{queueTelegram, b.telegram}, {queueForward, b.forward}, {queueStatus, b.status}}
}

// List returns the items in the given states, or in any: what goes to Telegram
// first, then what goes to the agents, each in the order of queueing.
func (q *Queues) List(ctx context.Context, states ...outbox.State) ([]Waiting, error) {
	bridges, err := q.bridges(ctx)
	if err != nil {
		return nil, err
	}
	var out []Waiting
	for _, b := range bridges {
		for _, box := range b.boxes() {
			items, err := box.List(ctx, &outbox.Filter{States: states, Limit: -1})
			if err != nil {
				return nil, err
			}
			for i := range items {
				w := Describe(&items[i])
				w.Queue, w.Bot = box.name, b.bot
				if err := q.addText(ctx, &w, items[i].Body); err != nil {
					return nil, err
				}
				out = append(out, w)
			}
		}
	}
	return out, nil
}

// Describe is an item as an operator sees it, but for its queue and what it says.
func Describe(item *outbox.Item) Waiting {
	w := Waiting{
		ID: item.ID, Destination: item.Destination, State: item.State, Attempts: item.Attempt,
		QueuedAt: item.EnqueuedAt, EndedAt: item.SettledAt, Error: item.Error,
	}
	if item.State == outbox.StatePending {
		w.NextAt = item.NotBefore
	}
	return w
}

// addText looks up what an item says.
func (q *Queues) addText(ctx context.Context, w *Waiting, body []byte) error {
	var err error
	switch w.Queue {
	case queueTelegram:
		var s sendItem
		var content string
		if json.Unmarshal(body, &s) != nil {
			return nil
		}
		err = q.db.QueryRowContext(ctx, `SELECT s.body, r.agent FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`,
			s.Reply, s.Part).Scan(&content, &w.Agent)
		var t struct{ Text string }
		if err == nil && json.Unmarshal([]byte(content), &t) == nil {
			content = t.Text
		}
		w.Text = clip(content, 200)
	case queueForward:
		var f forwardItem
		var d draft
		var raw string
		if json.Unmarshal(body, &f) != nil || f.Event == 0 {
			return nil
		}
		err = q.db.QueryRowContext(ctx, `SELECT draft FROM events WHERE id = ?`, f.Event).Scan(&raw)
		if err == nil && json.Unmarshal([]byte(raw), &d) == nil {
			w.Text = clip(d.Content.Text, 200)
		}
	case queueStatus:
		var s statusItem
		if json.Unmarshal(body, &s) == nil {
			w.Text = fmt.Sprintf("%s is %s", s.Content.MessageID, s.Content.Status)
		}
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

// Retry makes an item due now, whatever became of it, unless it was sent. An
// item whose outcome is unknown may arrive twice then.
func (q *Queues) Retry(ctx context.Context, id int64) error {
	return q.change(ctx, id, (*outbox.Outbox).Retry)
}

// Drop gives an item up.
func (q *Queues) Drop(ctx context.Context, id int64) error {
	return q.change(ctx, id, (*outbox.Outbox).Drop)
}

func (q *Queues) change(ctx context.Context, item int64, f func(*outbox.Outbox, context.Context, int64) error) error {
	bridges, err := q.bridges(ctx)
	if err != nil {
		return err
	}
	for _, b := range bridges {
		for _, box := range b.boxes() {
			if err := f(box.Outbox, ctx, item); !errors.Is(err, outbox.ErrNotFound) {
				return err
			}
		}
	}
	return fmt.Errorf("item %d: %w", item, outbox.ErrNotFound)
}
