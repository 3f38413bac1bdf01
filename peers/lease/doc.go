// Package lease makes one of several programs the active one, such as the Telegram bridge
// of a bot or the collaboration broker on a cluster of machines. The others stand by.
//
// Guarantees:
//
//   - At most one holder works at a time, by NATS's clock: a holder that cannot renew
//     its lease stops its work before the lease ends and another holder takes it.
//   - When a holder dies, another takes the lease within Options.TTL and a second. A
//     holder whose work ends gives the lease back at once.
//   - While NATS cannot be reached, nobody holds the lease: work waits rather than
//     being done twice.
//
// The lease is one key of a JetStream key-value bucket.
package lease
