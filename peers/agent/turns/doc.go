// Package turns takes the events of a mailbox to turns of a harness: it decides on
// them, holds fragments back until their author has stopped writing, runs turns and
// settles what comes of them.
//
// Guarantees:
//
//   - Order: one goroutine decides, composes and starts turns, events in the order in
//     which they were stored. Turns of one conversation and thread run one after
//     another, those of different places at the same time, at most Options.Parallel, half of them in one chat. One that has to wait
//     for that is recorded as waiting, once.
//   - Crashes: a turn that produced an outbound action is never run again; one that
//     was cut short before runs again with a higher attempt.
//   - Deadlines: a turn ends at its deadline, all its tries together; what a harness
//     was never ready for ends as late, counted from when the harness went away.
//   - Stop: when its context ends, Run starts no turn, and returns after the turns
//     that run have ended; these end with the context of their own.
package turns
