package demo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"time"

	"hubbub/protocol"

	_ "modernc.org/sqlite" // the driver
)

// A row is one row of the activity log.
type row struct {
	id        int64
	at        time.Time
	event     string
	messageID string
	actor     string
	topic     string
	status    string
	payload   string
	err       string
}

// A logReader reads the activity log while the bus writes it.
type logReader struct {
	path string
	db   *sql.DB
	last int64 // id of the newest row that was read
}

// open opens the log read-only; false while the bus has not made it yet.
func (r *logReader) open() (bool, error) {
	if r.db != nil {
		return true, nil
	}
	if _, err := os.Stat(r.path); err != nil {
		return false, nil //nolint:nilerr // it comes
	}
	uri := url.URL{Scheme: "file", Opaque: r.path, RawQuery: "mode=ro&_pragma=busy_timeout(5000)&_pragma=query_only(1)"}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return false, fmt.Errorf("opening the activity log: %w", err)
	}
	r.db = db
	return true, nil
}

func (r *logReader) close() {
	if r.db != nil {
		_ = r.db.Close() // it was only read
	}
}

// next returns the rows that were written since the last call.
func (r *logReader) next(ctx context.Context) ([]row, error) {
	if ok, err := r.open(); !ok {
		return nil, err
	}
	rows, err := r.db.QueryContext(ctx, `SELECT id, ts, event, message_id, coalesce(actor,''), coalesce(topic,''),
		coalesce(status,''), coalesce(payload_json,''), coalesce(error,'') FROM activity_log WHERE id > ? ORDER BY id`, r.last)
	if err != nil {
		return nil, fmt.Errorf("reading the activity log: %w", err)
	}
	defer rows.Close() //nolint:errcheck // it was only read
	var list []row
	for rows.Next() {
		var (
			x  row
			ts string
		)
		if err := rows.Scan(&x.id, &ts, &x.event, &x.messageID, &x.actor, &x.topic, &x.status, &x.payload, &x.err); err != nil {
			return nil, fmt.Errorf("reading the activity log: %w", err)
		}
		x.at, _ = time.Parse(time.RFC3339Nano, ts) // a time that cannot be read shows as no duration
		list, r.last = append(list, x), x.id
	}
	return list, rows.Err()
}

// A target is one delivery of a passage.
type target struct {
	peer   protocol.PeerID
	status string
	err    string
}

// A passage is one message on its way through the bus: all rows about it.
type passage struct {
	first, last int64 // ids of its rows
	rows        int
	message     protocol.Message
	topic       protocol.Topic
	targets     []target
	status      string // of send_finish
	took        time.Duration
	started     time.Time
}
