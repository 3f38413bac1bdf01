// Package activitylog is the append-only record of what a bus did: one SQLite
// table (section 12 of the Agent Communication Protocol, Extended v2), one
// [Writer], and any number of readers.
//
// Guarantees of the Writer:
//
//   - Order: rows appended by one goroutine are stored in that order; ids grow in
//     the order of storing and are never reused.
//   - Durability: a row is committed, with synchronous=FULL, 20 ms after it was
//     appended, later only while the disk is slower than the publishers. Publishers
//     are held to the writer's speed when the queued rows would take more than 50 ms
//     to write, so that a kill loses at most the last 250 ms. A disk whose commits
//     take 250 ms or longer cannot keep that promise, and holds nobody before the
//     queue is full. The end of Run's context loses nothing. What a kill takes stands in no log_gap row.
//   - Blocking: TryAppend never blocks. Append waits while the queue is full and
//     the writer gets on, at most Options.Hold for a commit that takes long. Once the
//     database has refused rows (locked, full disk) and 250 ms have passed without a
//     commit, nobody waits.
//   - Loss: then rows wait in the queue, up to its bounds, and rows that do not fit
//     are counted. A log_gap row, {"lost":N,"reason":"..."}, takes the place of
//     the lost rows as soon as writing works again.
//   - Faults never end Run: it tries again until the database accepts rows. If the
//     file was moved or deleted, a new log begins; a write-ahead log that readers
//     kept beside it is renamed to *-wal.TIME, and belongs beside the moved file.
//   - Readers do not block the writer. A foreign reader that keeps a transaction
//     open makes the write-ahead log grow, at most to Options.MaxWAL; it is then
//     moved into the database in the background, while rows are written.
//   - Proof: a commit's rows are hashed into a Merkle tree (RFC 6962), one leaf for what
//     it stored of one message, and at most 5 s later the tree is signed (a checkpoint of
//     c2sp.org/tlog-checkpoint). Each log is its own origin; a removed file leaves its
//     hashes. A key that is lost is replaced, and the log names both. It is not proven
//     that what the bus wrote is true, nor the rows since the last checkpoint, nor rows
//     that a program without the tree wrote, save those of the live file, which are
//     hashed when it is opened. Who has the key can sign another history, and a log
//     that was cut or put back as a whole looks like a shorter one: only a checkpoint
//     that was kept elsewhere tells.
//
// Guarantees of the [Reader]:
//
//   - It never writes, and each read transaction covers at most 20,000 rows,
//     those of one message, or SQLite's check of the file in Verify.
//   - Pages meet: no row is missed or seen twice, while the bus writes and
//     across its restarts. Rows of one log come in the order of their ids, rows
//     of several logs are merged by time.
//   - It accepts logs as they are: unknown events, payloads that are not JSON and
//     missing rows are shown, not refused.
//
// What belongs together follows from the rows alone. One [Assembler] puts rows
// together into the passes of a message and their deliveries, for [Reader.Message],
// for [Reader.Verify] (whether the log is complete), for the exporter of traces and
// for the demo. [Reader.Chain] finds what caused a message and what it caused.
// [Reader.Attention] and [AgentTracker] tell what agents decided. Package view says
// all of it in words. Only [Prune] removes rows.
package activitylog
