// Package write appends rows to an activity log and removes old files. A log has one [Writer] and
// any number of readers.
//
// Guarantees of the Writer:
//
//   - Order: rows appended by one goroutine are stored in that order. Ids grow in the order
//     of storing and are never reused.
//   - Durability: a row is committed 20 ms after it was appended, and synced at once. It
//     waits longer only while the disk is slower than the publishers. The Writer holds
//     publishers when the queued rows would take more than 50 ms to write, so that a kill
//     loses at most the last 250 ms. If a commit takes 250 ms or more, the disk cannot
//     keep that promise, and publishers are held only when the queue is full. When Run's
//     context ends, nothing is lost. Rows lost by a kill are not recorded in a log_gap row.
//   - Blocking: Append waits while the queue is full and the writer makes progress, and
//     TryAppend does so for a given time. Both wait at most Options.Hold for each sync of
//     the disk; sealing a file and checkpoints need several syncs. Neither waits once the
//     database has refused rows (locked, full disk) and 250 ms have passed without a commit.
//   - Loss: from then on, rows wait in the queue, and rows that do not fit are counted. When
//     writing works again, a log_gap row, {"lost":N,"reason":"..."}, replaces the lost rows.
//   - Faults never end Run: it retries until the database accepts rows. If the file was
//     moved or deleted, a new log begins. A write-ahead log that readers kept is renamed to
//     *-wal.TIME; it belongs to the moved file.
//   - Readers do not block the writer. A reader that keeps a transaction open makes the
//     write-ahead log grow, at most to Options.MaxWAL. The writer moves it into the database
//     in the background, while rows are written.
//   - Retention removes only sealed files, and never because the clock jumped. A log_pruned
//     row records each removal.
//   - Proof: the rows of a commit are hashed into a Merkle tree (RFC 6962), with one leaf
//     for what the commit stored of one message. At most 5 s later the tree is signed (a
//     checkpoint of c2sp.org/tlog-checkpoint). Each log is its own origin. The hashes of a
//     removed file are kept. A lost key is replaced, and the log names both keys.
//   - Limits of the proof: it does not cover rows after the last checkpoint, nor does it show
//     that the bus recorded the truth. Anyone who has the key can sign another history. A log
//     whose end was cut looks like a shorter log; only a checkpoint kept elsewhere reveals that.
//
// Only retention and [Prune] remove rows.
package write
