// Package activitylog is the append-only record of what a bus did: one SQLite
// table (section 12 of the Agent Communication Protocol, Extended v2), one
// [Writer], and any number of readers.
//
// Guarantees of the Writer:
//
//   - Order: rows appended by one goroutine are stored in that order; ids grow
//     with the order of storing and are never used again.
//   - Durability: a row is committed, with synchronous=FULL, 20 ms after it was
//     appended, later only while the disk is slow or more comes than it takes.
//     Publishers are held to the writer's speed when what waits would take more
//     than 50 ms to write, so that a kill takes at most the last 250 ms. A disk
//     whose commits take 250 ms or longer cannot promise it, and holds nobody
//     before the queue is full. The end of Run's context loses nothing.
//   - Blocking: TryAppend never blocks. Append waits while the queue is full and
//     the writer gets on; it waits for nobody once no transaction was committed
//     for 250 ms (locked, full disk, errors).
//   - Loss: then rows wait in the queue, up to its bounds, and what does not fit
//     is counted. A log_gap row, {"lost":N,"reason":"..."}, takes the place of
//     the lost rows as soon as writing works again.
//   - Faults never end Run: it tries again until the database takes rows. A new log
//     begins where the file was moved or deleted; a write-ahead log that readers
//     kept beside it is renamed to *-wal.TIME, and belongs beside the moved file.
//   - Readers do not block the writer. A foreign one that keeps a transaction
//     open makes the write-ahead log grow, at most to Options.MaxWAL; what has
//     grown is moved into the database in the background, while rows are written.
//
// Guarantees of the [Reader]:
//
//   - It never writes, and each read transaction covers at most 20,000 rows,
//     those of one message, or SQLite's check of the file in Verify.
//   - Pages meet: no row is missed or seen twice, while the bus writes and
//     across its restarts. Rows of one log come in the order of their ids, those
//     of several logs are merged by time.
//   - It takes logs as they are: unknown events, payloads that are no JSON and
//     missing rows are shown, not refused.
//
// What belongs together is worked out from the rows alone: [Reader.Message]
// (one message and its deliveries), [Reader.Chain] (what caused it and what it
// caused), [Reader.Attention] and [Reader.AgentStats] (what agents decided),
// [Reader.Verify] (whether the log is whole). Rows leave only by [Prune].
package activitylog
