package activitylog

import (
	"bytes"
	"context"
	"slices"

	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A sealed file has, beside its indexes, the table subject: which send_start rows are about
// an event, by its id. Its texts alone would be found by reading all of them.

// addSubjects makes the table.
func addSubjects(ctx context.Context, conn *sqlite.Conn) (err error) {
	if err := sqlitex.ExecuteScript(conn, "CREATE TABLE subject (event TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (event, id)) WITHOUT ROWID", nil); err != nil {
		return err
	}
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	insert, err := conn.Prepare("INSERT OR IGNORE INTO subject (event, id) VALUES (?, ?)")
	if err != nil {
		return err
	}
	return sqlitex.Execute(conn, "SELECT id, message_id, topic, payload FROM event WHERE kind = 1", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		e := Entry{Event: SendStart.String(), MessageID: s.ColumnText(1), Topic: s.ColumnText(2), Payload: []byte(s.ColumnText(3))}
		for _, subject := range e.subjects() {
			insert.BindText(1, subject)
			insert.BindInt64(2, s.ColumnInt64(0))
			if _, err := insert.Step(); err != nil {
				return err
			}
			if err := insert.Reset(); err != nil {
				return err
			}
		}
		return ctx.Err()
	}})
}

// subjects returns the events that a send_start row is about: those that an attention record
// concerns, or the one that a chat message is.
func (e *Entry) subjects() []string {
	if e.Topic == string(protocol.TopicAttention) {
		if a, ok := attentionRecord(e); ok {
			return slices.DeleteFunc(append(a.MergedEventIDs, a.EventID, a.Sent), func(id string) bool { return id == "" })
		}
		return nil
	}
	if !bytes.Contains(e.Payload, []byte("_message")) && !bytes.ContainsRune(e.Payload, '\\') { // nor is it spelled in another way
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
