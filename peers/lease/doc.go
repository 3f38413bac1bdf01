// Package lease makes one of several programs the active one, such as the Telegram bridge of a
// bot or the collaboration broker on a cluster of machines. The others stand by.
//
// Guarantees:
//
//   - At most one holder works at a time, by the clock of NATS. A holder that cannot renew
//     its lease stops its work before the lease expires and another holder takes it.
//   - When a holder dies, another takes the lease within Options.TTL plus one second. A
//     holder releases the lease when its work ends.
//   - While NATS is unreachable, nobody holds the lease: work waits rather than being done
//     twice.
//
// The lease is one key of a JetStream key-value bucket, which is on disk: NATS still knows the
// holder after a restart.
package lease
