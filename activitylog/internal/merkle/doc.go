// Package merkle implements the Merkle tree of RFC 6962 over the entries of an activity log, and
// the checkpoints (c2sp.org/tlog-checkpoint) that sign it.
package merkle
