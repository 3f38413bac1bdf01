// Package deadletter finds what the programs of a data folder could not send, or have
// not sent yet, for the person who decides about it.
//
// Guarantees:
//
//   - [Folder.List] sees the outboxes of every program that keeps its files in the
//     folder: the bridge, the spawner, the broker, the gateway and each agent,
//     the spawner's, the gateway's or a person's. What cannot be read is said beside what can.
//   - [Folder.Retry] and [Folder.Drop] settle an item of the bridge as the bridge
//     does. Of other programs they change only what needs a person, dead or unknown:
//     its owner has settled it before, and knows what it needs to know.
//   - Programs may run meanwhile: a running one notices within seconds. No database
//     is created, migrated or changed otherwise.
//
// An item is named by its number, and where it is not the bridge's by the program
// before it: 12, agent-lead:12.
package deadletter
