// Package outbox is a durable queue of items to send, in the SQLite database of the peer that
// owns it. It sends at least once, first in first out per destination.
//
// Guarantees:
//
//   - Durability: when [Outbox.Enqueue] has returned, or the transaction given to
//     [Outbox.EnqueueTx] has committed, the item survives SIGKILL and a power cut. (The
//     database must be opened by peers/store.) An item leaves the queue only by an outcome:
//     sent, dead, unknown, or dropped.
//   - Exactly-once enqueueing: (destination, key) identifies an item. Enqueueing it again
//     changes nothing and returns fresh = false, until [Outbox.Prune] has forgotten the
//     settled item.
//   - Order: items of one destination are attempted in the order of enqueueing. An item that
//     waits for its next attempt blocks those behind it; a settled item does not.
//     Destinations are independent. At most Options.Parallel of them are served at once, the
//     longest overdue first.
//   - Attempts: an item is durably marked "sending" before SendFunc is called, so an attempt that
//     a crash interrupted is known after the restart. The transaction that enqueues the only open
//     item of a destination marks it, if Run is running and a mark may be undone. The one that
//     settles an item marks the next of its destination. Neither does while other destinations
//     wait for room. Options.OnInterrupted decides what follows a crash. Resend calls SendFunc
//     again, for receivers that detect duplicates. SettleUnknown settles the item as unknown, for
//     sends that must not be repeated, unless Options.MayHaveSent reports that it had no effect
//     yet. With Resend, every accepted item is sent at least once. With SettleUnknown, every item
//     is attempted at most once after SendFunc could have had an effect. With Resend, a power cut
//     within a second may undo the mark and the record that the item was sent; the item is then
//     sent again.
//   - Retries: a failed attempt is repeated after a delay that doubles from
//     Options.MinBackoff to Options.MaxBackoff (1 s to 60 s) with jitter, or after the delay
//     that [Retry] or [Later] names. The time of the next attempt is stored, so a restart
//     does not shorten the delay. [Outbox.RetryNow] ends a backoff, but not a delay that
//     Retry named. If the clock is set back, a backoff does not last longer; a delay that
//     Retry named does.
//   - Ends: [Permanent] makes an item a dead letter, and so does Options.MaxAge (24 h) if no
//     attempt is left before then. Dead letters are for a person to look at. [Drop] settles items
//     that nobody needs. [Unknown] settles an item whose effect is unknown; only an operator
//     repeats it, with [Outbox.Retry].
//   - Settlement: Options.OnSettled runs in the transaction that settles the item. Its writes
//     and the outcome become durable together or not at all. If it fails, the settlement is
//     tried again, without another call of SendFunc. Options.AfterSettled runs after the
//     commit and may be lost in a crash.
//   - Bounds: at most Options.MaxPending items are open in total, and at most
//     Options.MaxPerDestination for one destination. Further items are refused with
//     [ErrFull]. Bodies are at most Options.MaxBody bytes.
//   - Blocking: Enqueue waits only for the database. Wake never blocks.
//   - Stop: when its context ends, [Outbox.Run] starts no attempt, gives running attempts
//     Options.StopTimeout, cancels the rest, and returns after every goroutine that it
//     started has ended.
//
// The package does not promise exactly-once effects (no queue can) or an order across
// destinations. Two processes must not Run the same queue. Another process may call
// [Outbox.List], [Outbox.Retry] and [Outbox.Drop] on the same database; a running outbox
// notices within Options.Poll. It does not poll while it has nothing that they could change.
package outbox
