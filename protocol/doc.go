// Package protocol is the wire contract of the bus: method names, message types, roles and what
// each role may send, topics and patterns, error codes, and the content of each message.
//
// It implements sections 2, 5 to 9 and 13 of the Agent Communication Protocol (Extended v2), and
// Hubbub's extensions (see Extension in the role table). It does no I/O, keeps no state and
// starts no goroutine.
//
// Guarantees:
//
//   - Decisions are pure: [MaySend], [ParsePattern], [Pattern.Matches] and [ScanSend] depend
//     only on their arguments.
//   - Matching takes time linear in the topic, for every pattern that [ParsePattern] accepts.
//   - A payload that [ScanSend] accepts has exactly one reading: no key is repeated, and no
//     key differs from a protocol key only by case.
package protocol
