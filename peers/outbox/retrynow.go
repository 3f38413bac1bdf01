package outbox

import (
	"context"

	"hubbub/peers/store"
)

// RetryNow ends the backoff of a destination's waiting items, or of all items if
// destination is empty. Call it when what was missing is back, for example after a
// reconnect. If the next attempt fails as well, the backoff begins anew; if an attempt
// that is under way fails, the next one follows at once. Delays that [Retry] named stay.
func (o *Outbox) RetryNow(ctx context.Context, destination string) error {
	o.markRetryNow(destination) // first: an attempt that ends now is seen by one of the two
	now := o.opts.Now().UnixMicro()
	return store.Autocommit(ctx, o.db, func(tx *store.Tx) {
		tx.Exec(`UPDATE outbox SET not_before = ?1, attempt = 0
			WHERE queue = ?2 AND state = 'pending' AND paced = 0 AND not_before > ?1 AND (?3 = '' OR destination = ?3)`,
			now, o.opts.Name, destination)
		tx.OnCommit(o.Wake)
	})
}

// attemptStarted notes that an attempt at a destination begins.
func (o *Outbox) attemptStarted(destination string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retryNow[destination] = false
}

// attemptEnded notes that the verdict on an attempt is stored, and reports whether Hurry was
// called meanwhile.
func (o *Outbox) attemptEnded(destination string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	hurried := o.retryNow[destination]
	delete(o.retryNow, destination)
	return hurried
}

// markRetryNow marks the attempts under way as hurried.
func (o *Outbox) markRetryNow(destination string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d := range o.retryNow {
		if destination == "" || d == destination {
			o.retryNow[d] = true
		}
	}
}
