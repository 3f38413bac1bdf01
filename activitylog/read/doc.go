// Package read queries activity logs by page, message, time or SQL, and follows them as they
// grow.
//
// Guarantees of the [Reader]:
//
//   - It never writes. A read transaction covers at most 20,000 rows, the rows of one
//     message, or SQLite's check of the file in an audit.
//   - Pages are continuous: no row is missed or returned twice while the bus writes and restarts.
//     Rows of one log come in the order of their ids; rows of several logs are merged by time.
//   - Times need not be in order. Each commit and each sealed file records the range of its rows'
//     times, and a query by time reads all of them that may match.
//   - Unknown events, payloads that are not JSON, and logs with missing rows are readable.
package read
