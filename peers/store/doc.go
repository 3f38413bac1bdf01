// Package store opens the SQLite database of a peer and runs statements on it.
//
// Guarantees:
//
//   - Whatever a committed transaction wrote survives SIGKILL and a power cut: the
//     database runs in WAL mode with synchronous=FULL.
//   - A database carries its schema version. Open refuses a database of another version,
//     and one that lacks a table or column of its version. It leaves both untouched.
//   - The transactions of one program run one after the other on one connection. Those
//     that wait for each other share a commit, and so a sync of the disk: each returns
//     after the commit, and an error of one rolls back its own writes only.
//   - What InTxUnsynced wrote survives SIGKILL at once, and a power cut a second later or
//     with the next transaction that is synced.
//   - Transactions take the write lock when they begin. Those of two programs wait for
//     each other (up to 10 s), and neither fails halfway.
//   - No error is lost: [InTx], [Autocommit], [Read], and the functions that build on
//     them, return the first error of the statements that they ran. It begins with the
//     statement.
//
// Each connection prepares a statement once. Close the database when done.
package store
