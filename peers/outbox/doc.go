// Package outbox is a durable queue of things to send, on the SQLite database
// of the peer that owns it: at least once, first in first out per destination.
//
// Guarantees:
//
//   - Durability: when [Outbox.Enqueue] has returned, or the transaction given
//     to [Outbox.Put] has committed, the item survives SIGKILL and a power
//     cut (with a database opened by peers/store). It leaves the queue only by
//     an outcome: sent, dead, unknown, or dropped.
//   - Exactly-once enqueue: an item is named by (destination, key). A second
//     enqueue of the same name changes nothing and reports fresh = false, until
//     [Outbox.Prune] has forgotten the settled item.
//   - Order: the items of one destination are attempted in the order in which
//     they were enqueued. An item that waits for its next attempt holds up those
//     behind it; one that is settled does not. Destinations are independent: they
//     are served in parallel, at most Options.Parallel at once, the one that is
//     due longest first.
//   - Attempts: an item is marked "sending", durably, before SendFunc is called,
//     so that an attempt that a crash cut short is known after the restart. What
//     becomes of it is Options.OnInterrupted: Resend calls SendFunc again (for
//     sends whose repetition the receiver can tell), SettleUnknown settles it as
//     unknown (for sends that must not be repeated), unless Options.Began knows that
//     it had no effect yet. With Resend every accepted
//     item is sent at least once, with SettleUnknown every item is attempted at
//     most once after SendFunc could have had an effect.
//   - Retries: an attempt that fails is repeated after a delay that doubles from
//     Options.MinBackoff to Options.MaxBackoff (1 s to 60 s) with jitter, or after
//     the delay that [Retry] or [Later] names. The time before which nothing is attempted is
//     stored, so a restart does not shorten it; [Outbox.Hurry] shortens those of
//     the backoff, not those that Retry named. Where the clock is set back, a
//     backoff lasts no longer for it; a delay that Retry named does.
//   - Ends: [Permanent] makes an item a dead letter at once, and so does its age:
//     when no attempt is left before Options.MaxAge (24 h) has passed. Dead letters
//     are for a person to look at; [Drop] settles what nobody needs. [Unknown]
//     settles an item whose effect nobody knows; it is not repeated unless an
//     operator asks for it with [Outbox.Retry].
//   - Settlement: Options.OnSettled runs inside the transaction that settles the
//     item. Its writes and the outcome become durable together or not at all, so
//     it runs exactly once per settlement as far as its transaction can tell. When
//     it fails, the settlement is tried again; SendFunc is not called again for
//     that. Options.AfterSettled runs after the commit and may be lost in a crash.
//   - Bounds: at most Options.MaxPending items are open in all, and at most
//     Options.MaxPerDestination for one destination; one more is refused with
//     [ErrFull] and nothing is stored. Bodies are at most Options.MaxBody bytes.
//   - Blocking: Enqueue waits for the database alone. Wake never blocks.
//   - Stop: when its context ends, [Outbox.Run] starts no attempt, gives running
//     ones Options.StopTimeout to end, cancels the rest, and returns after every
//     goroutine that it started has ended.
//
// Not promised: exactly-once effects (no queue can), order across destinations,
// and anything about two processes that Run the same queue at once: run one.
// [Outbox.List], [Outbox.Retry] and [Outbox.Drop] may be called by another
// process on the same database; a running outbox notices within Options.Poll.
package outbox
