// Package tools is what a turn may do: the chat.* tools on the agent's mailbox, and
// the tools of the collaboration broker.
//
// Guarantees:
//
//   - Enforcement: what policy forbids is refused here, whatever a model writes, by
//     the table of attention.PermitMessage; every refusal is recorded.
//   - Reach: the tools of a turn act on the events of its own chat, and read what
//     those who see the answer may read (mailbox.View.Reach).
//   - Once: an action and the mark that forbids another are one transaction. A call
//     that is repeated with the same key and words has its effect once.
//   - A turn that was cancelled, or is delivered again, acts no more.
//   - Blocking: a tool waits for the database, and for the broker if it asks it.
package tools
