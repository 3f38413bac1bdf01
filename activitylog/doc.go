// Package activitylog is the append-only record of what a bus did: the SQLite view activity_log
// (section 12 of the Agent Communication Protocol, Extended v2), one [Writer], and any number of
// readers.
//
// Guarantees of the Writer:
//
//   - Order: rows appended by one goroutine are stored in that order. Ids grow in the order
//     of storing and are never reused.
//   - Durability: a row is committed 20 ms after it was appended, and synced at once. It
//     waits longer only while the disk is slower than the publishers. The Writer holds
//     publishers when the queued rows would take more than 50 ms to write, so that a kill
//     loses at most the last 250 ms. A disk that needs 250 ms or more for a commit cannot
//     keep that promise; nobody is held for it before the queue is full. When Run's context
//     ends, nothing is lost. No log_gap row tells what a kill took.
//   - Blocking: TryAppend never blocks. Append waits while the queue is full and the writer
//     makes progress: at most Options.Hold for each sync of the disk, of which sealing a file
//     or a checkpoint needs several. Once the database has refused rows (locked, full disk)
//     and 250 ms have passed without a commit, nobody waits.
//   - Loss: from then on, rows wait in the queue, and rows that do not fit are counted. As
//     soon as writing works again, a log_gap row, {"lost":N,"reason":"..."}, takes the place
//     of the lost rows.
//   - Faults never end Run: it retries until the database accepts rows. If the file was
//     moved or deleted, a new log begins. A write-ahead log that readers kept is renamed to
//     *-wal.TIME; it belongs to the moved file.
//   - Readers do not block the writer. A foreign reader that keeps a transaction open makes
//     the write-ahead log grow, at most to Options.MaxWAL. It is then moved into the database
//     in the background, while rows are written.
//   - Retention removes sealed files alone, and never because the clock jumped. What leaves
//     the log is recorded in a log_pruned row.
//   - Proof: the rows of a commit are hashed into a Merkle tree (RFC 6962), with one leaf
//     for what the commit stored of one message. At most 5 s later the tree is signed (a
//     checkpoint of c2sp.org/tlog-checkpoint). Each log is its own origin, and a removed file
//     leaves its hashes. A lost key is replaced, and the log names both keys. The proof does
//     not cover the rows since the last checkpoint, nor does it show that what the bus wrote
//     is true. Anyone who has the key can sign another history. A log that was cut or
//     replaced as a whole looks like a shorter log: only a checkpoint that was kept
//     elsewhere reveals that.
//
// Guarantees of the [Reader]:
//
//   - It never writes. A read transaction covers at most 20,000 rows, the rows of one
//     message, or SQLite's check of the file in Verify.
//   - Pages meet: no row is missed or returned twice while the bus writes and restarts. Rows
//     of one log come in the order of their ids; rows of several logs are merged by time.
//   - Times need not be in order. Each commit and each sealed file says the range of its rows'
//     times, and a query by time reads all that may match.
//   - It shows unknown events, payloads that are not JSON, and logs with missing rows.
//
// Rows alone tell what belongs together. An [Assembler] groups rows into the publications of a
// message and their deliveries. [Reader.Message], [Reader.Verify], the exporter of traces and the
// demo use it. Package chain finds what caused a message and what it caused.
// [Reader.Attention] reports what agents decided, and package agentstats counts it. Package view
// describes rows in words. Only retention and [Prune] remove rows.
package activitylog
