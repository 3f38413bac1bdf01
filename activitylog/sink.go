package activitylog

import "time"

// transactionTime is how long one transaction may go on inserting: on a slow
// machine a commit still comes before the writer counts as stalled.
const transactionTime = 50 * time.Millisecond

// maxTransactionTime bounds how long one goes on where the disk is slow.
const maxTransactionTime = 2 * time.Second

// insertTime is how long a transaction may go on inserting: as long as the last commit
// took, so that a slow disk writes large transactions.
func insertTime(commit time.Duration) time.Duration {
	return min(max(transactionTime, commit), maxTransactionTime)
}

// A sink stores rows. The writing goroutine alone uses it, so that another
// engine can take the place of this one.
type sink interface {
	// write stores the first n of rows in one durable transaction, or none of
	// them and an error. It stores all that it can within insertTime, at
	// least one. The first gets the id first; the others follow without a hole.
	write(rows []Row) (first int64, n int, err error)
	// walBytes is the size of the write-ahead log after the last write.
	walBytes() int64
	// ending announces close: writes may leave work to it.
	ending()
	close() error
}
