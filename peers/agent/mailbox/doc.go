// Package mailbox stores the state of one agent: the events it received, the turns that showed
// them, the messages it sent, its claims, and where it takes part. All of it is in one SQLite
// database, together with the outbox.
//
// This package has the events, turns and messages. The packages below it have what is built on
// them: intake stores the events of chats, lifecycle ends events, obligations, decisions and
// reminders have tables of their own, and budget decides whether turns may start. The mailbox
// notifies them by Options.Hooks.
//
// Guarantees:
//
//   - State: an event has one State, and state.go has the table of its transitions. Only
//     Tx.Move changes it, and records the disposition in the same transaction. A final
//     disposition is written once. Turns have a table of transitions as well.
//   - Storage: intake.Store stores an event once per (event, sourceId, sequence). An event
//     that is acknowledged after it has committed survives SIGKILL.
//   - Atomicity: a message to a chat, the mark that prevents a second one, and the records
//     of what happened are queued in one transaction. The outbox alone knows whether a
//     message was sent.
//   - Bounds: at most Options.MaxOpen events of a chat are open. Prune deletes closed ones
//     after Options.Retention.
//   - Blocking: methods wait for the database only. Only Outbox.Run sends.
package mailbox
