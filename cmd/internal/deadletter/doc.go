// Package deadletter lists the undelivered messages of the programs of a data folder, and lets a
// person decide on them.
//
// Guarantees:
//
//   - [Folder.List] reads the outboxes of all programs with files in the folder: the bridges, the
//     spawner, the broker, the gateway, and the agents of the spawner, of the gateway and of people.
//     It lists what it can read, and reports the outboxes that it cannot read.
//   - [Folder.Retry] and [Folder.Drop] settle an item of the Telegram bridge as the bridge itself
//     does. Of other programs they change only dead and unknown items, which need a person: the
//     program has already settled these.
//   - The programs may run meanwhile, and notice a change within seconds. Nothing else is changed,
//     and no database is created.
//
// An item of the Telegram bridge is named by its number. The name of other items begins with the program:
// agent-lead:12.
package deadletter
