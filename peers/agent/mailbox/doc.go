// Package mailbox is what one agent remembers: the events that chats told it, the turns
// that showed them, the messages that it sent, its claims, and where it takes part. All
// of it is in one SQLite database, together with the outbox.
//
// Guarantees:
//
//   - One state: an event has one State, and what may follow what is the table of
//     state.go. Tx.Move alone changes it, and records the disposition in the same
//     transaction. A final disposition is written once. Turns have such a table, too.
//   - Storage: StoreEvent stores an event once per (event, sourceId, sequence). What is
//     acknowledged after it has returned survives SIGKILL and later versions.
//   - Together: a message to a chat, the mark that forbids another, and every record of
//     what happened are queued in the transaction of what they belong to. What became
//     of a message is the outbox's to say.
//   - Bounds: at most Options.MaxOpen events of a chat are open; closed ones are
//     forgotten by Prune after Options.Retention.
//   - Blocking: everything waits for the database alone. Only Outbox.Run sends.
package mailbox
