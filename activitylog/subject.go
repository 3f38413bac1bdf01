package activitylog

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A sealed file has the table about: which send_start rows are about a subject, an event or
// a record of the broker, by its id. Their texts alone would be found by reading all rows.

// addSubjects makes the table.
func addSubjects(ctx context.Context, conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &view{conn: conn}
	v.query("CREATE TABLE about (subject TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (subject, id)) WITHOUT ROWID",
		nil, noRow)
	v.eachSubject(ctx, func(subject string, id int64) {
		v.query("INSERT OR IGNORE INTO about (subject, id) VALUES (?, ?)", []any{subject, id}, noRow)
	})
	return v.err
}

// eachSubject calls do with what the table about has, from what the commits say. A subject may repeat.
func (v *view) eachSubject(ctx context.Context, do func(subject string, id int64)) {
	add := func(s *sqlite.Stmt) bool {
		e := Entry{Event: SendStart.String(), MessageID: s.ColumnText(1), Topic: s.ColumnText(2),
			Payload: []byte(s.ColumnText(3))}
		for _, subject := range e.subjects() {
			do(subject, s.ColumnInt64(0))
		}
		v.fail(ctx.Err())
		return true
	}
	const starts = "SELECT id, message_id, topic, payload FROM event WHERE kind = 1 AND "
	v.query("SELECT first, last, subjects FROM batch ORDER BY first", nil, func(s *sqlite.Stmt) bool {
		w := window{s.ColumnInt64(0), s.ColumnInt64(1)}
		for _, id := range markedRows(s, w.low) {
			v.query(starts+"id = ?", []any{id}, add)
		}
		return true
	})
}

// markedRows reads column 2: the rows of a commit that may have subjects.
func markedRows(s *sqlite.Stmt, first int64) (ids []int64) {
	rows := make([]byte, s.ColumnLen(2))
	s.ColumnBytes(2, rows)
	for ; len(rows) >= 2; rows = rows[2:] {
		ids = append(ids, first+int64(binary.BigEndian.Uint16(rows)))
	}
	return ids
}

// subjectRows returns those of a window of the live file that may have subjects, as a JSON array.
func (v *view) subjectRows(w window) string {
	ids := []int64{}
	v.query("SELECT first, last, subjects FROM batch WHERE first <= ? ORDER BY first DESC", []any{w.high},
		func(s *sqlite.Stmt) bool {
			commit := window{s.ColumnInt64(0), s.ColumnInt64(1)}
			for _, id := range markedRows(s, commit.low) {
				if w.low <= id && id <= w.high {
					ids = append(ids, id)
				}
			}
			return commit.low > w.low
		})
	list, _ := json.Marshal(ids) // numbers always can be
	return string(list)
}

// mayHaveSubjects reports whether a send_start row may be about events: in a payload with a
// backslash the type may be spelled in another way.
func mayHaveSubjects(topic string, payload []byte) bool {
	return topic == string(protocol.TopicAttention) || topic == string(protocol.TopicCollabEvents) ||
		bytes.Contains(payload, []byte("_message")) || bytes.IndexByte(payload, '\\') >= 0
}

// subjects returns what a send_start row is about: the events that an attention record
// concerns, the records that an event of the broker names, or the event that a chat message is.
func (e *Entry) subjects() []string {
	if !mayHaveSubjects(e.Topic, e.Payload) {
		return nil
	}
	switch e.Topic {
	case string(protocol.TopicAttention):
		a, ok := attentionRecord(e)
		if !ok {
			return nil
		}
		ids := []string{a.EventID, a.Sent()}
		if turn, ok := a.Content.(*protocol.TurnRecord); ok {
			ids = append(ids, turn.MergedEventIDs...)
		}
		return slices.DeleteFunc(ids, isEmpty)
	case string(protocol.TopicCollabEvents):
		var fact protocol.CollabEvent
		e.Decode(&fact) // what cannot be read is about nothing
		return subjectsOf(&fact)
	}
	switch protocol.MessageType(envelopeOf(e.Payload).Type) {
	case protocol.TypeTGMessage, protocol.TypeChatMessage:
		if c, ok := chatEvent(e); ok {
			return []string{c.EventID}
		}
	}
	return nil
}

func isEmpty(id string) bool { return id == "" }

// subjectsOf returns the records that an event of the broker names: itself, its target, and
// those of its payload.
func subjectsOf(fact *protocol.CollabEvent) []string {
	type named struct {
		ID string `json:"id"`
	}
	var p struct {
		named
		RecordID, WorkItemID, QuestionID, InvocationID, FlightID, MessageID, DeliveryID string
		Message, WorkItem, Question, Invocation, Flight                                 named
	}
	_ = json.Unmarshal(fact.Payload, &p) // what cannot be read names nothing
	_, target, _ := strings.Cut(fact.Target, ":")
	return slices.DeleteFunc([]string{
		fact.ID, target, p.ID, p.RecordID, p.WorkItemID, p.QuestionID, p.InvocationID, p.FlightID, p.MessageID,
		p.DeliveryID,
		p.Message.ID, p.WorkItem.ID, p.Question.ID, p.Invocation.ID, p.Flight.ID,
	}, isEmpty)
}
