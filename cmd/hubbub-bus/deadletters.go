package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"hubbub/bus/console"
	"hubbub/peers/outbox"
	"hubbub/peers/tg"
)

// deadLetters are those of a Telegram bridge that has the same data folder, as
// with `hubbub up`. The bridge may run meanwhile: it is `hubbub outbox` in a page.
type deadLetters struct {
	folder string

	mu sync.Mutex // guards db
	db *sql.DB    // nil until it is first needed
}

var _ console.DeadLetters = (*deadLetters)(nil)

func (d *deadLetters) queues() (*tg.Queues, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.db == nil {
		path := filepath.Join(d.folder, tg.Database)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, console.ErrUnreachable
		}
		db, err := tg.Open(path)
		if err != nil {
			return nil, fmt.Errorf("the bridge's queues cannot be opened: %w", err)
		}
		d.db = db
	}
	return tg.NewQueues(d.db), nil
}

func (d *deadLetters) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.db != nil {
		_ = d.db.Close() // nothing is being written
		d.db = nil
	}
}

// List implements console.DeadLetters.
func (d *deadLetters) List(ctx context.Context, limit int) ([]console.DeadLetter, error) {
	q, err := d.queues()
	if err != nil {
		return nil, err
	}
	items, err := q.List(ctx, outbox.StateDead, outbox.StateUnknown)
	if err != nil {
		return nil, err
	}
	list := make([]console.DeadLetter, 0, min(len(items), limit))
	for i := range items[:min(len(items), limit)] {
		w := &items[i]
		list = append(list, console.DeadLetter{
			ID: w.ID, Queue: w.Queue, Destination: w.Destination, State: string(w.State), Attempts: w.Attempts,
			QueuedAt: w.QueuedAt, Agent: w.Agent, Text: w.Text, Error: w.Error,
		})
	}
	return list, nil
}

// Retry implements console.DeadLetters.
func (d *deadLetters) Retry(ctx context.Context, id int64) error {
	return d.change(ctx, id, (*tg.Queues).Retry)
}

// Drop implements console.DeadLetters.
func (d *deadLetters) Drop(ctx context.Context, id int64) error {
	return d.change(ctx, id, (*tg.Queues).Drop)
}

func (d *deadLetters) change(ctx context.Context, id int64, do func(*tg.Queues, context.Context, int64) error) error {
	q, err := d.queues()
	if err != nil {
		return err
	}
	return do(q, ctx, id)
}
