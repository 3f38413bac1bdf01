// Package tools implements the tools of a turn: the chat.* tools on the agent's mailbox, and the
// tools of the collaboration broker.
//
// Guarantees:
//
//   - Enforcement: a call that the policy forbids is refused, whatever a model writes.
//     attention.PermitMessage has the table. Every refusal is recorded.
//   - Reach: the tools of a turn act on the events of its own chat, and read what the
//     readers of the answer may read (mailbox.View.Reach).
//   - Idempotence: an action and the mark that prevents a second one are one transaction.
//     A repeated call with the same key and text has its effect once.
//   - Cancellation: the tools of a turn that was cancelled or delivered again do nothing.
//   - Blocking: a tool waits for the database, and for the broker if it calls it.
package tools
