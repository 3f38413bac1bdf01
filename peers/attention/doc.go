// Package attention implements C2A, the chat-to-agents protocol, as pure functions. For one chat
// event and one agent, it decides whether the event is directed at the agent, whether the agent
// must, may or must not answer, and how much of the event its model sees.
//
//	d := attention.Decide(event, self, facts, config)
//	// d.Directedness, d.Policy, d.Injection, d.Context, d.Priority, d.DeadlineMS, d.Reason
//
// Guarantees:
//
//   - Pure: every result depends only on the arguments. The package reads no clock, no
//     environment and no random source, does no I/O, keeps no state and starts no goroutine.
//     It imports none of our packages.
//   - Total: Decide returns a complete decision for every event, even one with empty or
//     unknown fields. It never panics. Exactly one row of the rule table (rules.go) applies,
//     and its name is the reason of the decision.
//   - The content of a text never changes a policy. The rules read only mentions, a leading label,
//     the configured words, emoji and question marks. Code spans, code blocks and quoted lines do
//     not count.
//   - A knock contains no user text: no body and no name. Its topic is one of a fixed set of
//     sentences, possibly with the title of a thread. The knock of a repeated obligation also
//     has its default action, as a header value.
//   - A body, name, title or id cannot forge a prompt block. A header value is one line without
//     control and bidirectional characters. The body follows a fence that the caller generates at
//     random for every turn, and that is lengthened if the body contains it.
//
// The package implements three drafts of C2A: 2026-06-02 (four policies, directedness), its
// projection 2026-06-24 (three policies, addressedToMe), and 2026-08-11, which adds obligations
// (obligation.go). Their tables are data in testdata/, in a format that other programs can run;
// see testdata/README.md.
package attention
