package outbox

import (
	"context"

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

// wakeFor makes a running outbox look for due items, unless the destination has a running attempt,
// at whose end it looks anyway.
func (o *Outbox) wakeFor(destination string) {
	o.mu.Lock()
	_, running := o.retryNow[destination]
	o.mu.Unlock()
	if !running {
		o.Wake()
	}
}

// attemptStarted records that an attempt for a destination starts.
func (o *Outbox) attemptStarted(destination string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retryNow[destination] = false
}

// attemptEnded records that the decision on an attempt is stored. It reports whether RetryNow was
// called during the attempt.
func (o *Outbox) attemptEnded(destination string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	hurried := o.retryNow[destination]
	delete(o.retryNow, destination)
	return hurried
}

// markRetryNow marks the running attempts for attemptEnded.
func (o *Outbox) markRetryNow(destination string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d := range o.retryNow {
		if destination == "" || d == destination {
			o.retryNow[d] = true
		}
	}
}
