package activitylog

// A sink stores rows. The writing goroutine alone uses it, so that another
// engine can take the place of this one.
type sink interface {
	// write stores all rows in one durable transaction, or none, and returns
	// the id of the first; the others follow it without a hole.
	write(rows []Row) (first int64, err error)
	// walBytes is the size of the write-ahead log after the last write.
	walBytes() int64
	close() error
}
