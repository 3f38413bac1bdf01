// Package turns runs the events of a mailbox through a harness: it decides on events, holds
// fragments until their author stops writing, runs turns, and settles their outcomes.
//
// Guarantees:
//
//   - Order: one goroutine decides on events, composes turns and starts them, in the order
//     in which events were stored. Turns of one conversation and thread run one after
//     another; others run in parallel, up to Options.Parallel, and half of that in one
//     chat. A turn that has to wait for this is recorded as waiting, once.
//   - Crashes: a turn that has sent something is never run again. A turn that was
//     interrupted before runs again with a higher attempt.
//   - Deadlines: a turn ends at its deadline, including all its attempts. Events for a
//     harness that is not ready end after the same time, counted from when the harness
//     stopped being ready.
//   - Stop: when its context ends, Run starts no more turns, and returns after the running
//     ones have ended. Those end with their own context.
package turns
