// Package attention is C2A, the chat-to-agents protocol, as pure functions: of
// one chat event and one agent it says whether the event is aimed at that
// agent, whether the agent owes, may give or must withhold an answer, and how
// much of the event its model may see.
//
//	d := attention.Decide(event, self, facts, config)
//	// d.Directedness, d.Policy, d.Injection, d.Context, d.Priority, d.DeadlineMS, d.Reason
//
// Guarantees:
//
//   - Pure: every result depends on the arguments alone. The package reads no
//     clock, no environment and no random source, does no I/O, keeps no state
//     and starts no goroutine. It imports none of our packages.
//   - Total: Decide gives a complete decision for every event, also for one
//     with empty or unknown fields; it never panics. Exactly one row of the
//     rule table (rules.go) applies, and its name is the decision's reason.
//   - Text never changes a policy by what it says: only mentions, the
//     configured stop, leave and acknowledgement words, and a leading label
//     are read from it. Words inside code spans, code blocks and quoted lines
//     count for nothing.
//   - A knock holds no user text: no body, no name. Its topic is one of a fixed set of
//     sentences, and perhaps a thread's title; one of an obligation that comes back has
//     what its author does without an answer, as a header value.
//   - A prompt block cannot be forged from a body, a name, a title or an id:
//     header values are one line each, without control and bidirectional
//     characters, and the body stands behind a fence that the caller draws at
//     random for every turn and that is made longer if the body contains it.
//
// It implements the drafts of C2A: 2026-06-02 (four policies, directedness),
// its projection 2026-06-24 (three policies, addressedToMe), and 2026-08-11, which has
// obligations besides (obligation.go). Their tables are data in testdata/, in a format that other programs can run; see
// testdata/README.md.
package attention
