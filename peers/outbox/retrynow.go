package outbox

import (
	"context"
	"sync"

	"hubbub/peers/store"
)

// RetryNow ends the backoff of a destination's waiting items, or of all items if destination is
// empty. Call it when the obstacle is gone, for example after a reconnect. If the next attempt
// fails, the backoff starts from the beginning. If a running attempt fails, the next one follows
// immediately. Delays that [Retry] named stay.
func (o *Outbox) RetryNow(ctx context.Context, destination string) error {
	o.markRetryNow(destination) // first: either this call or the update below reaches an attempt that ends now
	now := o.opts.Now().UnixMicro()
	return store.Autocommit(ctx, o.db, func(tx *store.Tx) {
		tx.Exec(`UPDATE outbox SET not_before = ?1, attempt = 0
			WHERE queue = ?2 AND state = 'pending' AND paced = 0 AND not_before > ?1 AND (?3 = '' OR destination = ?3)`,
			now, o.opts.Name, destination)
		tx.OnCommit(o.Wake)
	})
}

// The attempts of an outbox that have started, or will start when a transaction commits.
type attempts struct {
	mu      sync.Mutex // guards the fields below
	running map[string]*attemptState
	marked  markedItem
}

// An attemptState is what happened to a destination since its running attempt started.
type attemptState struct {
	retryNow bool // RetryNow was called
	enqueued bool // an item was enqueued
}

// wakeFor makes a running outbox look for due items, unless the destination has a running attempt,
// at whose end it looks anyway.
func (o *Outbox) wakeFor(destination string) {
	o.started.mu.Lock()
	running := o.started.running[destination]
	if running != nil {
		running.enqueued = true
	}
	o.started.mu.Unlock()
	if running == nil {
		o.Wake()
	}
}

// attemptStarted records that an attempt for a destination starts.
func (o *Outbox) attemptStarted(destination string) {
	o.started.mu.Lock()
	defer o.started.mu.Unlock()
	o.started.running[destination] = &attemptState{}
}

// attemptEnded records that the decision on an attempt is stored, and returns what happened
// during the attempt.
func (o *Outbox) attemptEnded(destination string) attemptState {
	o.started.mu.Lock()
	defer o.started.mu.Unlock()
	state := *o.started.running[destination]
	delete(o.started.running, destination)
	return state
}

// attemptDelayed forgets earlier calls of RetryNow, because the attempt named its own delay.
func (o *Outbox) attemptDelayed(destination string) {
	o.started.mu.Lock()
	defer o.started.mu.Unlock()
	o.started.running[destination].retryNow = false
}

// markRetryNow marks the running attempts for attemptEnded.
func (o *Outbox) markRetryNow(destination string) {
	o.started.mu.Lock()
	defer o.started.mu.Unlock()
	for d, state := range o.started.running {
		if destination == "" || d == destination {
			state.retryNow = true
		}
	}
}

// A markedItem has the items, by destination, that were marked as sending when the transaction tx
// enqueued them. They are not handed over before its commit.
type markedItem struct {
	tx    *store.Tx
	items map[string]*Item
}

func (o *Outbox) mark(tx *store.Tx, item *Item) {
	o.started.mu.Lock()
	defer o.started.mu.Unlock()
	if o.started.marked.tx != tx {
		o.started.marked = markedItem{tx, map[string]*Item{}}
	}
	o.started.marked.items[item.Destination] = item
}

// unmark forgets the item of a destination that a transaction has marked, and returns it, or nil
// if there is none.
func (o *Outbox) unmark(tx *store.Tx, destination string) *Item {
	o.started.mu.Lock()
	defer o.started.mu.Unlock()
	if o.started.marked.tx != tx {
		return nil
	}
	item := o.started.marked.items[destination]
	delete(o.started.marked.items, destination)
	return item
}
