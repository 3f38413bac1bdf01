// Package agent runs one agent of the bus: it stores what chats tell it, decides with
// peers/attention what its model sees and owes, runs turns of a harness, and carries
// out what they do. The work is done in three rooms, which this package puts together
// and connects to the bus and to the collaboration broker:
//
//   - mailbox: the stored events and turns, the one table of what may follow what, and
//     everything that is sent on their account;
//   - turns: deciding, composing, running the harness, settling;
//   - tools: what a turn may do, enforced.
//
// Guarantees:
//
//   - Storage: a message is answered "processed" after it is in the mailbox (SQLite,
//     synchronous=FULL), whatever the harness does meanwhile. It is taken in once per
//     (event, sourceId, sequence).
//   - Order: events are decided in the order in which they were stored. Turns of one
//     conversation and thread run one after another, those of different places at the
//     same time, at most Options.Parallel, half of them in one chat.
//   - Ends: every event gets exactly one final disposition; claimed and deferred may
//     come before it. What another agent claimed ends at once, and is open again only if
//     that one gives it back. A deferred event comes back as another turn of the same event: at
//     its eta if that can be read, else after Options.DeferFor, doubled each time, at
//     most five times; a stop word, an edit or a request to leave ends it. A program
//     that works in its own time (harness.Capabilities) has a day to settle what it
//     deferred. Decisions, turns, refusals and dispositions are agent_events to
//     system:attention, sent at least once, so that the bus's activity log alone
//     explains everything.
//   - Enforcement: what policy forbids is refused in code, whatever a model writes
//     (attention.PermitMessage): one answer for each event, only where it was said,
//     none for events that forbid it, none without a needed claim, none after leaving,
//     never a word that means silence.
//   - Reach: the tools of a turn act in its own chat and read no other, save that a
//     person's direct chat reads where that person writes, and that the answer to a
//     question comes in the chat of the turn that asked it, and that chat.post speaks first in any
//     chat that the agent is assigned to.
//   - Claims: a broker that went away is waited for (collab.Grace) before the agent does
//     without one.
//   - Crashes: a turn that produced an outbound action is never run again; one that was
//     cut short before runs again with a higher attempt. Both hold across SIGKILL: an
//     action and the mark that forbids another are one transaction.
//   - Bounds: Options.MaxOpen events may be open in one chat; one more gets an error,
//     and its bridge keeps it and tries again. Closed events are kept for
//     Options.Retention.
//   - Drafts: what a model has written of an answer that is owed in a direct chat goes there
//     with the sign of typing, a dozen times at most, up to where it may not be for people
//     (attention.Draft). It is no answer and settles nothing.
//   - Loss: of what a model said and its chat, for certain, never shows, the next result of a
//     tool of the same turn tells, or, once that has ended, an event "undelivered". What is
//     said to such an event and lost is only recorded.
//   - Reminders: what chat.remind sets is kept with the mailbox. What is due is stored as an event
//     in the transaction that forgets it or sets its next time, so it comes once, whenever the
//     program is killed; times that pass while it does not run, or while the event before is
//     open, come as one.
//   - Stop: when its context ends, Run starts no turn, gives running ones a moment,
//     cancels them (they run again after the next start unless they acted), sends what
//     is queued as far as time allows, and returns after every goroutine that it
//     started has ended.
//
// Turns can be counted from the activity log alone: each event has one
// attention_decision (one more after an edit or a granted claim); each run of a harness
// has {"event":"turn","eventId","mergedEventIds","agent","turnId", "attempt","mode",
// "state":"started"} and then one of the states accepted, finished, failed, cancelled or
// interrupted (interrupted: it runs again). A turn that waits for others to end has the
// state waiting before, once. An event whose id is in no started turn is a
// turn avoided. Records are sent at least once: those of one messageId are one.
//
// Beside attention_decision, turn, disposition and refusal there are: claim (granted or
// not, to whom), delivery (a message that its chat did not get, or perhaps not),
// post (it spoke first: where, and why), reminder (set, due or cancelled), escalation (a person was called into an exchange of two agents; or, with a rung, who is asked to
// answer in its place), tool (a call of a tool:
// with what, size and hash of the result; of tools that are not ours as the program tells
// it, best effort) and progress (what a turn tells of itself; best effort).
package agent
