// Package audit verifies that activity logs are complete and unchanged, and proves to others that
// rows are in them.
//
// [Verify] compares the rows of each message with one another, each file with its checksum, and
// each log with its Merkle tree and the checkpoints that sign it. [Prove] makes proofs of
// c2sp.org/tlog-proof, which others check with the key that [VerifierKey] returns.
package audit
