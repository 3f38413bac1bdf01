package segment

import (
	"context"
	"encoding/binary"
	"encoding/json"

	"hubbub/activitylog"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// addSubjects creates the table "about" of a sealed file: the send_start rows that are about a
// subject, which is the id of an event or of a broker's record. Without the table, finding them
// would need a scan of all rows.
func addSubjects(ctx context.Context, conn *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &View{Conn: conn}
	v.Query("CREATE TABLE about (subject TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (subject, id)) WITHOUT ROWID",
		nil, NoRow)
	v.EachSubject(ctx, func(subject string, id int64) {
		v.Query("INSERT OR IGNORE INTO about (subject, id) VALUES (?, ?)", []any{subject, id}, NoRow)
	})
	return v.Err
}

// EachSubject calls do for each entry of the table about, computed from the commits. An entry may
// repeat.
func (v *View) EachSubject(ctx context.Context, do func(subject string, id int64)) {
	add := func(s *sqlite.Stmt) bool {
		e := activitylog.Entry{Event: activitylog.SendStart.String(), MessageID: s.ColumnText(1),
			Topic:   s.ColumnText(2),
			Payload: []byte(s.ColumnText(3))}
		for _, subject := range e.Subjects() {
			do(subject, s.ColumnInt64(0))
		}
		v.Fail(ctx.Err())
		return true
	}
	const starts = "SELECT id, message_id, topic, payload FROM event WHERE kind = 1 AND "
	v.Query("SELECT first, last, subjects FROM batch ORDER BY first", nil, func(s *sqlite.Stmt) bool {
		w := Window{s.ColumnInt64(0), s.ColumnInt64(1)}
		for _, id := range markedRows(s, w.Low) {
			v.Query(starts+"id = ?", []any{id}, add)
		}
		return true
	})
}

// markedRows returns the rows of a commit that may have subjects, from column 2.
func markedRows(s *sqlite.Stmt, first int64) (ids []int64) {
	for rows := Blob(s, 2); len(rows) >= 2; rows = rows[2:] {
		ids = append(ids, first+int64(binary.BigEndian.Uint16(rows)))
	}
	return ids
}

// SubjectRows returns the rows in a window of the active segment that may have subjects, as a
// JSON array of ids.
func (v *View) SubjectRows(w Window) string {
	ids := []int64{}
	v.Query("SELECT first, last, subjects FROM batch WHERE first <= ? ORDER BY first DESC", []any{w.High},
		func(s *sqlite.Stmt) bool {
			commit := Window{s.ColumnInt64(0), s.ColumnInt64(1)}
			for _, id := range markedRows(s, commit.Low) {
				if w.Low <= id && id <= w.High {
					ids = append(ids, id)
				}
			}
			return commit.Low > w.Low
		})
	list, _ := json.Marshal(ids) // numbers can always be encoded
	return string(list)
}
