package activitylog

import "time"

// transactionTime is how long one transaction may go on inserting: on a slow
// machine a commit still comes before the writer counts as stalled.
const transactionTime = 50 * time.Millisecond

// A sink stores rows. The writing goroutine alone uses it, so that another
// engine can take the place of this one.
type sink interface {
	// write stores the first n of rows in one durable transaction, or none of
	// them and an error. It stores all that it can within transactionTime, at
	// least one. The first gets the id first; the others follow without a hole.
	write(rows []Row) (first int64, n int, err error)
	// walBytes is the size of the write-ahead log after the last write.
	walBytes() int64
	close() error
}
