// Package console is the web console of a bus. It shows which peers are connected and exchange
// messages, current events, the causes and effects of a message, and the state of the bus.
//
// Guarantees:
//
//   - It never slows the bus. It reads the activity log like any other reader, in short read
//     transactions, and the counters without stopping the bus. It follows the log only while
//     pages are open, at a bounded pace. If the bus writes faster, it skips rows and shows that.
//   - Cost, measured by scripts/bench-console with three watchers on a machine without other
//     work: messages per second with to without, median of five pairs 1.08 (0.73 to 1.34);
//     processor time per message 0.97 (0.94 to 1.07). At rest, a watcher of a small bus costs
//     0.3 % of a core, and a watcher of 1,000 peers 1.2 %.
//   - Its memory is bounded. Anything that it forgets is still in the log.
//   - On a bus with credentials, a page needs one that may subscribe to everything. The client
//     sends it as a bearer token, or opens a link that was made with the token. A link opens one
//     visit, once, within two minutes. A visit has two secrets, each useless alone: a part of
//     the path of its pages, and a cookie for that path, so that other ports of the host receive
//     neither. A visit may act for at most half an hour, and is then read-only. A revoked
//     credential is refused at the next request. A restart of the bus ends all visits.
//   - It is read-only, unless the credential is an operator's, who may publish everywhere.
//     Actions are POST requests from the console's own pages.
//   - Pages load nothing from elsewhere and contain no inline script. Texts of chats, names and
//     payloads are shown as text, whatever they contain.
//
// Chats, agents and work are derived from the rows since the console began to follow the log, and
// from at most 100,000 rows before that.
//
// The package imports neither the bus nor its peers. [Bus], [Credentials], [DeadLetters] and
// [ActingAs] are the interfaces to them.
package console
