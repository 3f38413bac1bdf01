package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol/text"
)

// A Waiting is one item of a bridge's queues as an operator sees it.
type Waiting struct {
	ID          int64        `json:"id"`
	Queue       string       `json:"queue"` // telegram, agents, status or chats
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

// A box is one queue of one bot.
type box struct {
	*outbox.Outbox
	name string
	bot  int64
}

// boxes returns the queues of each bot that used the database, in the order in which
// operators see them. They settle as those of a running bridge do.
func (q *Queues) boxes(ctx context.Context) (all []box, err error) {
	bots, err := store.All(ctx, q.db, store.Column[int64], `SELECT bot FROM bots ORDER BY bot`)
	for _, bot := range bots {
		b := New("", q.db, nil)
		b.become(bot)
		all = append(all, box{b.out.telegram, queueTelegram, bot}, box{b.surface.Queue(surface.QueueAgents), surface.QueueAgents, bot},
			box{b.out.status, queueStatus, bot}, box{b.surface.Queue(surface.QueueChats), surface.QueueChats, bot})
	}
	return all, err
}

// List returns the items in the given states, or in any: what goes to Telegram
// first, then what goes to the agents, each in the order of queueing.
func (q *Queues) List(ctx context.Context, states ...outbox.State) ([]Waiting, error) {
	boxes, err := q.boxes(ctx)
	if err != nil {
		return nil, err
	}
	var out []Waiting
	for _, box := range boxes {
		items, err := box.List(ctx, &outbox.Filter{States: states, Limit: -1})
		if err != nil {
			return nil, err
		}
		for i := range items {
			w := Describe(&items[i])
			w.Queue, w.Bot = box.name, box.bot
			if err := q.addText(ctx, &w, items[i].Body); err != nil {
				return nil, err
			}
			out = append(out, w)
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
		w.Text = text.Clip(content, 200)
	case surface.QueueAgents:
		var d draft
		raw, _, err := store.One(ctx, q.db, store.Column[string], `SELECT draft FROM events WHERE id = ?`, surface.EventOf(body))
		if err == nil && json.Unmarshal([]byte(raw), &d) == nil {
			w.Text = text.Clip(d.Content.Text, 200)
		}
		return err
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
	boxes, err := q.boxes(ctx)
	if err != nil {
		return err
	}
	for _, box := range boxes {
		if err := f(box.Outbox, ctx, item); !errors.Is(err, outbox.ErrNotFound) {
			return err
		}
	}
	return fmt.Errorf("item %d: %w", item, outbox.ErrNotFound)
}
