// Package store opens the SQLite database of a peer.
//
// Guarantees:
//
//   - What a committed transaction wrote survives SIGKILL and a power cut: the
//     database runs in WAL mode with synchronous=FULL.
//   - A database carries its schema version. An older one is migrated step by
//     step, each step in one transaction, after a copy was laid beside it; a
//     kill in between leaves a database that the next start migrates further.
//     A newer one is refused with a sentence, and so is one that lacks a table or a
//     column of its version, such as that of a development build.
//   - Transactions take the write lock when they begin, so that two of them
//     wait for each other (up to 10 s) and never fail halfway.
//
// A [Tx], of InTx or On, is all the SQL plumbing that a peer needs. It remembers its
// first error, which begins with the statement. The package has no state of its own;
// close the database when done.
package store
