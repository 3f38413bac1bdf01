package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/store"
)

// errCrash is the error of crash points in tests.
var errCrash = errors.New("crashed by a test")

// attempt makes one attempt to send an item that is marked as sending, stores the decision, and
// frees the destination.
func (r *runState) attempt(item Item) {
	r.attemptStarted(item.Destination)
	err := r.attemptOnce(item)
	if hurried := r.attemptEnded(item.Destination); hurried && err == nil {
		err = r.RetryNow(context.WithoutCancel(r.attempts), item.Destination)
		if err != nil {
			r.opts.Log.Warn().Err(err).Str("topic",
				item.Destination).Msg("outbox not hurried; the next attempt waits for its backoff")
		}
	}
	if errors.Is(err, errCrash) {
		select {
		case r.crashed <- err:
		default:
		}
		return
	}
	r.done <- item.Destination // has room for every running attempt
}

func (r *runState) attemptOnce(item Item) error {
	v := expired(item)
	if r.opts.Now().Before(item.ExpiresAt) {
		if err := r.crashAt("before send"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.attempts, r.opts.AttemptTimeout)
		err := r.send(ctx, item)
		interrupted := ctx.Err() != nil
		cancel()
		if err := r.crashAt("after send"); err != nil {
			return err
		}
		v = r.opts.decide(item, err, interrupted && r.mayHaveSent(item), r.opts.Now(), r.opts.Jitter())
		if v.explicit { // the attempt named its own delay
			r.attemptStarted(item.Destination)
		}
	}
	return r.settleUntilStored(item, v)
}

// settleUntilStored stores a decision. If the database or OnSettled fails, it tries again without
// a new attempt, until Run must return. The item then stays marked as sending and counts as
// interrupted.
func (r *runState) settleUntilStored(item Item, v decision) error {
	for try := 1; ; try++ {
		err := r.settle(context.WithoutCancel(r.attempts), item, v)
		if err == nil || errors.Is(err, errCrash) {
			return err
		}
		r.opts.Log.Error().Err(err).Str("topic", item.Destination).Int64("item", item.ID).
			Msg("outcome of a send not stored; trying again")
		timer := time.NewTimer(r.opts.retryDelay(try, r.opts.Jitter()))
		select {
		case <-timer.C:
		case <-r.attempts.Done():
			timer.Stop()
			return err
		}
	}
}

// settle stores a decision in one transaction. If the item is settled, OnSettled runs in the same
// transaction. A power cut may undo that an item is sent, or is to be attempted again, where an
// interrupted attempt is repeated anyway; the receiver then detects the duplicate.
func (o *Outbox) settle(ctx context.Context, item Item, v decision) error {
	inTx := store.InTx
	if o.opts.OnInterrupted == Resend && (v.state == StateSent || v.state == StatePending) {
		inTx = store.InTxUnsynced
	}
	err := inTx(ctx, o.db, func(tx *store.Tx) {
		if v.state != StatePending {
			o.settleTx(tx, &item, v)
			return
		}
		tx.Exec(`UPDATE outbox SET state = 'pending', not_before = ?, paced = ?, error = ?
			WHERE id = ? AND state = 'sending'`, v.notBefore.UnixMicro(), v.fixed, reason(v.cause), item.ID)
	})
	if err == nil {
		err = o.crashAt("after settle")
	}
	if err == nil && v.state != StatePending {
		o.opts.AfterSettled(item, v.state, v.cause)
	}
	return err
}

func (o *Outbox) settleTx(tx *store.Tx, item *Item, v decision) {
	now := o.opts.Now()
	changed := tx.ExecCount(`UPDATE outbox SET state = ?1, error = ?2, settled_at = ?3,
		body = CASE WHEN ?1 = 'sent' THEN x'' ELSE body END
		WHERE id = ?4 AND state = ?5`, string(v.state), reason(v.cause), now.UnixMicro(), item.ID, string(item.State))
	if changed != 1 {
		tx.Fail(fmt.Errorf("item %d changed under the outbox: do two processes run it?", item.ID))
		return
	}
	item.State, item.SettledAt, item.Error = v.state, now, reason(v.cause)
	tx.Annotate("telling of the outcome "+string(v.state), func() { o.opts.OnSettled(tx, *item, v.state, v.cause) })
	if tx.Err() == nil {
		tx.Fail(o.crashAt("in settle"))
	}
}

// mayHaveSent reports whether an interrupted attempt may have had its effect.
func (o *Outbox) mayHaveSent(item Item) bool {
	return o.opts.MayHaveSent == nil || o.opts.MayHaveSent(item)
}

// recoverInterrupted settles or reopens the items whose attempts an earlier run left behind.
func (o *Outbox) recoverInterrupted(ctx context.Context) error {
	items, err := o.List(ctx, &Filter{States: []State{StateSending}, Limit: -1})
	for _, item := range items {
		if err != nil {
			break
		}
		if o.opts.OnInterrupted == Resend || !o.mayHaveSent(item) {
			err = store.Autocommit(ctx, o.db, func(tx *store.Tx) {
				tx.Exec(`UPDATE outbox SET state = 'pending', error = 'the attempt was cut off' WHERE id = ?`, item.ID)
			})
			continue
		}
		cause := errors.New("the program ended during the attempt; it may have been sent")
		err = o.settle(ctx, item, decision{state: StateUnknown, cause: cause})
	}
	return err
}
