// Package agent runs one agent on the bus. It stores the events of chats, decides with
// peers/attention what the model sees and must answer, runs the turns of a harness, and executes
// their actions. This package connects three others to the bus and to the collaboration broker:
//
//   - mailbox: the stored events, turns and messages, and their state transitions;
//   - turns: deciding, composing, running the harness, settling;
//   - tools: the tools of a turn, with the enforcement of the policy.
//
// Guarantees:
//
//   - Storage: a message is acknowledged as processed after it is in the mailbox (SQLite,
//     synchronous=FULL), whatever state the harness is in. It is stored once per (event,
//     sourceId, sequence).
//   - Order: events are decided in the order in which they were stored. Turns of one
//     conversation and thread run one after another; others run in parallel, up to
//     Options.Parallel, and half of that in one chat.
//   - Dispositions: every event gets exactly one final disposition. claimed and deferred may
//     precede it. An event that another agent claimed ends at once, and is open again only
//     if that agent releases it. A deferred event returns as another turn of the same event:
//     at its eta if that can be parsed, else after Options.DeferFor, doubled each time, at
//     most five times. A stop word, an edit or a request to leave ends it. An asynchronous
//     program (harness.Capabilities) has a day to settle what it deferred. Decisions, turns,
//     refusals and dispositions are agent_events to system:attention, sent at least once, so
//     that the activity log of the bus explains everything. An event of a Chorus channel that
//     ends without an answer is also reported to the channel, whose service would wait for one.
//   - Enforcement: whatever a model writes, code refuses what the policy forbids
//     (attention.PermitMessage). There is one answer per event, in the chat of the event,
//     none to events that forbid it, none without a required claim, none after leaving, and
//     never a text that means silence.
//   - Reach: the tools of a turn act in its own chat and read no other, with three
//     exceptions: a person's direct chat reads the other chats where that person writes, the
//     answer to a question returns to the chat of the turn that asked it, and chat.post
//     reaches any chat that the agent is assigned to.
//   - Claims: the agent waits for a broker that went away (collab.Grace) before it works
//     without one.
//   - Crashes: a turn that has sent something is never run again. A turn that was interrupted
//     before runs again with a higher attempt. Both hold across SIGKILL, because an action
//     and the mark that prevents a second one are one transaction.
//   - Bounds: Options.MaxOpen events may be open in one chat. Further ones get an error, and
//     the bridge sends them again later. Closed events are kept for Options.Retention.
//   - Drafts: a direct chat gets the text of an answer in progress together with the typing
//     sign, a dozen times at most, up to the first part that may not be for people
//     (attention.Draft). A draft is not an answer and settles nothing.
//   - Delivery failures: an agent is notified once of each message that certainly was not
//     delivered, in the next tool result of the same turn, or as an "undelivered" event
//     afterwards. Failures of its replies to such events are only recorded.
//   - Reminders: a due reminder becomes an event in the transaction that deletes it or sets
//     its next time. It therefore occurs once, even if the program is killed. If several
//     times pass while the program does not run or the previous event is open, they cause
//     one event.
//   - Stop: when its context ends, Run starts no more turns, gives running ones a moment,
//     and cancels them. They run again after the next start unless they have acted. Run
//     sends what is queued as far as time allows, and returns after every goroutine that it
//     started has ended.
//
// The activity log alone suffices to count turns. Each event has one attention_decision, and one
// more after an edit or a granted claim. Each run of a harness has
// {"event":"turn","eventId","mergedEventIds","agent","turnId","attempt","mode",
// "state":"started"}, followed by one of the states accepted, finished, failed, cancelled or
// interrupted. An interrupted turn runs again. A turn that waits for others first has the state
// waiting, once. An event whose id is in no started turn is a turn avoided. Records are sent at
// least once: those with the same messageId are one.
//
// The other records are: claim (whether it was granted, and its owner), delivery (a message that
// its chat did not get, or may not have got), post (the agent posted without an event: where and
// why), reminder (set, due or cancelled), escalation (a person was called into an exchange of two
// agents; with the member rung, somebody was asked to answer instead of the agent), tool (a tool
// call with its arguments, and the size and hash of its result; best effort for tools of the
// program) and progress (reported by a turn; best effort).
package agent
