package outbox

import (
	"context"

	"hubbub/peers/store"
)

// Hurry ends the backoff of a destination's waiting items, or of all where
// destination is empty: call it when what was missing is back, for example
// after a reconnect. The backoff begins anew, as others may need a moment longer
// to be back, and an attempt that is under way has none when it fails. Delays
// that [Retry] named stay.
func (o *Outbox) Hurry(ctx context.Context, destination string) error {
	o.hurryAttempts(destination) // before the others: one that ends meanwhile is among them, or knows
	now := o.opts.Now().UnixMicro()
	err := store.Exec(ctx, o.db, `UPDATE outbox SET not_before = ?1, attempt = 0
		WHERE queue = ?2 AND state = 'pending' AND paced = 0 AND not_before > ?1 AND (?3 = '' OR destination = ?3)`,
		now, o.opts.Name, destination)
	if err != nil {
		return err
	}
	o.Wake()
	return nil
}

// underWay notes that an attempt for a destination begins.
func (o *Outbox) underWay(destination string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hurried[destination] = false
}

// over notes that the attempt for a destination is stored, and reports whether
// it was hurried.
func (o *Outbox) over(destination string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	hurried := o.hurried[destination]
	delete(o.hurried, destination)
	return hurried
}

// hurryAttempts notes for attempts under way that what was missing is back.
func (o *Outbox) hurryAttempts(destination string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d := range o.hurried {
		if destination == "" || d == destination {
			o.hurried[d] = true
		}
	}
}
