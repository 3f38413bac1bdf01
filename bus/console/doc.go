// Package console is the web console of a bus: who is connected and talks to
// whom, what happens now, why a message did what it did, and how the bus is.
//
// Guarantees:
//
//   - It never slows the bus: it reads the activity log as any other reader does,
//     in short read transactions, and the counters of the bus without stopping
//     it. It follows the log at a bounded pace, and only while somebody looks; if
//     the bus writes faster, it skips rows and says so. What watching costs, by scripts/bench-console with three watchers on a machine
//     without other work: messages per second with to without, median of five
//     pairs 1.08 (0.73 to 1.34), processor time a message 0.97 (0.94 to 1.07). At
//     rest a watcher of a small bus costs 0.3 % of a core, one of 1,000 peers 1.2 %.
//   - Everything that it remembers is bounded; what it forgets is still in the log.
//   - If there are credentials, a page needs one that may subscribe to everything:
//     as a bearer token, or by the visit that a link opens, once, within two
//     minutes, to whoever asked for the link with the token. A visit has two secrets, of which
//     neither is worth anything alone: a part of the path of its pages, and a cookie for that
//     path, so that another port of the host receives neither. A visit that may act does so
//     for half an hour, and then only looks. A revoked credential is refused at the next
//     request. A restart of the bus ends every visit.
//   - It only shows, unless the credential may act, as an operator who may publish
//     everywhere; actions are POST requests of the console's own pages.
//   - Pages load nothing from elsewhere and hold no script; texts of chats, names
//     and payloads are text, whatever they contain.
//
// Chats, agents and work are derived from the rows since the console began to
// follow the log, and at most the last 100,000 rows before that.
//
// It imports neither the bus nor its peers: [Bus], [Gate], [DeadLetters] and who asks the
// broker for a visitor are all that it needs of them.
package console
