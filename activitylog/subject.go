package activitylog

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"

	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A sealed file has the table subject: which send_start rows are about an event, by its id.
// Its texts alone would be found by reading all of them.

// aboutSchema adds to a commit which of its rows may be about events, two bytes each,
// counted from its first: when the file is sealed, these are read. A commit of an older
// program does not say it.
const aboutSchema = "ALTER TABLE batch ADD COLUMN about BLOB;"

// addSubjects makes the table.
func addSubjects(ctx context.Context, conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &view{conn: conn}
	v.query("CREATE TABLE subject (event TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (event, id)) WITHOUT ROWID", nil, noRow)
	add := func(s *sqlite.Stmt) bool {
		e := Entry{Event: SendStart.String(), MessageID: s.ColumnText(1), Topic: s.ColumnText(2), Payload: []byte(s.ColumnText(3))}
		for _, subject := range e.subjects() {
			v.query("INSERT OR IGNORE INTO subject (event, id) VALUES (?, ?)", []any{subject, s.ColumnInt64(0)}, noRow)
		}
		v.fail(ctx.Err())
		return true
	}
	about := "NULL"
	v.query("SELECT name FROM pragma_table_info('batch') WHERE name = 'about'", nil, func(s *sqlite.Stmt) bool {
		about = s.ColumnText(0)
		return true
	})
	const starts = "SELECT id, message_id, topic, payload FROM event WHERE kind = 1 AND "
	v.query("SELECT first, last, "+about+" FROM batch ORDER BY first", nil, func(s *sqlite.Stmt) bool {
		first := s.ColumnInt64(0)
		if s.ColumnType(2) == sqlite.TypeNull {
			v.query(starts+"id BETWEEN ? AND ?", []any{first, s.ColumnInt64(1)}, add)
			return true
		}
		rows := make([]byte, s.ColumnLen(2))
		s.ColumnBytes(2, rows)
		for ; len(rows) >= 2; rows = rows[2:] {
			v.query(starts+"id = ?", []any{first + int64(binary.BigEndian.Uint16(rows))}, add)
		}
		return true
	})
	return v.err
}

// mayHaveSubjects reports whether a send_start row may be about events: in a payload with a
// backslash the type may be spelled in another way.
func mayHaveSubjects(topic string, payload []byte) bool {
	return topic == string(protocol.TopicAttention) || bytes.Contains(payload, []byte("_message")) || bytes.IndexByte(payload, '\\') >= 0
}

// subjects returns the events that a send_start row is about: those that an attention record
// concerns, or the one that a chat message is.
func (e *Entry) subjects() []string {
	if !mayHaveSubjects(e.Topic, e.Payload) {
		return nil
	}
	if e.Topic == string(protocol.TopicAttention) {
		if a, ok := attentionRecord(e); ok {
			return slices.DeleteFunc(append(a.MergedEventIDs, a.EventID, a.Sent), func(id string) bool { return id == "" })
		}
		return nil
	}
	switch protocol.MessageType(headOf(e.Payload).Type) {
	case protocol.TypeTGMessage, protocol.TypeChatMessage:
		if c, ok := chatEvent(e); ok {
			return []string{c.EventID}
		}
	}
	return nil
}
