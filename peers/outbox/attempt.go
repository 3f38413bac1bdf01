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

// serve makes one attempt to send an item that is marked as sending, and stores the decision. It
// continues with the items that follow in the destination, and then frees the destination.
func (r *runState) serve(item *Item) {
	served := served{destination: item.Destination}
	for item != nil {
		var err error
		if item, served.empty, err = r.attempt(item); errors.Is(err, errCrash) {
			select {
			case r.crashed <- err:
			default:
			}
			return
		}
	}
	r.done <- served // has room for every running attempt
}

// attempt makes one attempt. next is the item that was marked as sending with the decision, or
// nil. empty reports whether the item is sent and the destination has no other open one.
func (r *runState) attempt(item *Item) (next *Item, empty bool, err error) {
	r.attemptStarted(item.Destination)
	next, empty, err = r.attemptOnce(*item)
	ended := r.attemptEnded(item.Destination)
	if ended.retryNow && err == nil {
		err = r.RetryNow(context.WithoutCancel(r.sends), item.Destination)
		if err != nil {
			r.opts.Log.Warn().Err(err).Str("topic",
				item.Destination).Msg("could not end the backoff of an outbox; the next attempt waits for it")
		}
	}
	return next, empty && !ended.enqueued, err
}

func (r *runState) attemptOnce(item Item) (next *Item, empty bool, err error) {
	v := expired(item)
	if r.opts.Now().Before(item.ExpiresAt) {
		if err := r.crashAt("before send"); err != nil {
			return nil, false, err
		}
		ctx, cancel := context.WithTimeout(r.sends, r.opts.AttemptTimeout)
		err := r.send(ctx, item)
		interrupted := ctx.Err() != nil
		cancel()
		if err := r.crashAt("after send"); err != nil {
			return nil, false, err
		}
		v = r.opts.decide(item, err, interrupted && r.mayHaveSent(item), r.opts.Now(), r.opts.Jitter())
		if v.explicit { // the attempt named its own delay
			r.attemptDelayed(item.Destination)
		}
	}
	return r.settleUntilStored(item, v)
}

// settleUntilStored stores a decision. If the database or OnSettled fails, it tries again without
// a new attempt, until Run must return. The item then stays marked as sending and counts as
// interrupted.
func (r *runState) settleUntilStored(item Item, v decision) (next *Item, empty bool, err error) {
	for try := 1; ; try++ {
		next, empty, err = r.settleAndMark(item, v)
		if err == nil || errors.Is(err, errCrash) {
			return next, empty, err
		}
		r.opts.Log.Error().Err(err).Str("topic", item.Destination).Int64("item", item.ID).
			Msg("outcome of a send not stored; trying again")
		timer := time.NewTimer(r.opts.retryDelay(try, r.opts.Jitter()))
		select {
		case <-timer.C:
		case <-r.sends.Done():
			timer.Stop()
			return nil, false, err
		}
	}
}

// settleAndMark stores a decision. If the item is settled and the outbox has room for its
// destination, it also marks the next item there as sending, in the same transaction. empty
// reports whether the item is sent and there is no other.
func (r *runState) settleAndMark(item Item, v decision) (next *Item, empty bool, err error) {
	err = r.settle(context.WithoutCancel(r.sends), item, v, func(tx *store.Tx) {
		next, empty = nil, false
		if v.state != StatePending && !r.full.Load() && r.ctx.Err() == nil {
			next = r.markNext(tx, item.Destination)
		}
		if v.state == StateSent && next == nil {
			empty = !r.HasOpen(tx, item.Destination)
		}
	})
	if err == nil && next != nil {
		err = r.crashAt("after mark")
	}
	return next, empty, err
}

// settle stores a decision in one transaction, together with what the function then writes. If
// the item is settled, OnSettled runs in the same transaction. If an interrupted attempt is
// repeated anyway, a power cut may undo the record that an item was sent or will be attempted
// again. The receiver then detects the duplicate.
func (o *Outbox) settle(ctx context.Context, item Item, v decision, then func(tx *store.Tx)) error {
	inTx := store.InTx
	if o.opts.OnInterrupted == Resend && (v.state == StateSent || v.state == StatePending) {
		inTx = store.InTxUnsynced
	}
	err := inTx(ctx, o.db, func(tx *store.Tx) {
		if v.state != StatePending {
			o.settleTx(tx, &item, v)
		} else {
			tx.Exec(`UPDATE outbox SET state = 'pending', not_before = ?, paced = ?, error = ?
				WHERE id = ? AND state = 'sending'`, v.notBefore.UnixMicro(), v.fixed, reason(v.cause), item.ID)
		}
		then(tx)
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
			err = store.Exec(ctx, o.db,
				`UPDATE outbox SET state = 'pending', error = 'the attempt was cut off' WHERE id = ?`, item.ID)
			continue
		}
		cause := errors.New("the program ended during the attempt; it may have been sent")
		err = o.settle(ctx, item, decision{state: StateUnknown, cause: cause}, func(*store.Tx) {})
	}
	return err
}
