// Package store opens the SQLite database of a peer and runs statements on it.
//
// Guarantees:
//
//   - Whatever a committed transaction wrote survives SIGKILL and a power cut: the
//     database runs in WAL mode with synchronous=FULL.
//   - A database carries its schema version. Open refuses a database of another version,
//     and one that lacks a table or column of its version. It leaves both untouched.
//   - Transactions take the write lock when they begin. Two of them wait for each other
//     (up to 10 s), and neither fails halfway.
//   - No error is lost: [InTx], [Autocommit] and [Read] return the first error of the
//     statements that they ran. It begins with the statement.
//
// The package has no state of its own. Close the database when done.
package store
