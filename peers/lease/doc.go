// Package lease lets one of several programs be the active one: the Telegram
// bridge of a bot, or the collaboration broker, on a cluster of machines. The
// others stand by.
//
// Guarantees:
//
//   - At most one holder runs at a time, by NATS's clock: a holder that could not
//     renew its lease stops its work before the lease ends and another takes it.
//   - A holder that dies is followed within Options.TTL and a second. One that
//     ends its work gives the lease back at once.
//   - While NATS cannot be reached nobody holds the lease: work waits rather than
//     being done twice.
//
// The lease is one key of a JetStream key-value bucket.
package lease
