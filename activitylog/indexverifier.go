package activitylog

import (
	"bytes"
	"context"

	"zombiezen.com/go/sqlite"
)

// A commitIndex is what a commit records of its rows, so that readers find them without reading
// every row: their times, the hashes of their message ids, and which of them may have subjects.
// It is not signed. Verify compares it with the rows, which are.
type commitIndex struct {
	since, until int64
	hashes       []byte
	subjects     []byte
}

// indexOf returns the index of the rows that a commit has.
func (v *view) indexOf(w window) commitIndex {
	var rows []Row
	var of []int32
	v.query("SELECT e.at, e.kind, coalesce(e.message_id, m.message_id, ''), e.topic, CASE WHEN e.kind = 1 THEN e.payload END "+
		"FROM event AS e LEFT JOIN event AS m ON m.id = e.msg WHERE e.id BETWEEN ? AND ? ORDER BY e.id",
		[]any{w.low, w.high}, func(s *sqlite.Stmt) bool {
			of = append(of, int32(len(rows)))
			rows = append(rows, Row{At: s.ColumnInt64(0), Event: Event(s.ColumnInt(1)), MessageID: s.ColumnText(2),
				Topic: s.ColumnText(3), Payload: readBlob(s, 4)})
			return true
		})
	if len(rows) == 0 {
		return commitIndex{}
	}
	var s summary
	s.summarize(rows, of)
	return commitIndex{s.since, s.until, s.blob(), s.subjects}
}

// index checks the index of a commit whose rows are those that were hashed.
func (a *treeVerifier) index(v *view, path string, c *commitRecord) {
	want := v.indexOf(c.window)
	if v.err != nil {
		return
	}
	if c.index.since != want.since || c.index.until != want.until {
		a.problem(path, c.low, "the times that its commit records, up to row %d, are not those of its rows: queries by "+
			"time may miss them", c.high)
	}
	if !bytes.Equal(c.index.hashes, want.hashes) {
		a.problem(path, c.low, "the message ids that its commit records, up to row %d, are not those of its rows: "+
			"queries by message may miss them", c.high)
	}
	if !bytes.Equal(c.index.subjects, want.subjects) {
		a.problem(path, c.low, "the subjects that its commit records, up to row %d, are not those of its rows: "+
			"hubbub why may miss them", c.high)
	}
}

// checkTables compares the tables that find the rows of a sealed file with what its commits record.
func (c *checker) checkTables(ctx context.Context, v *view, path string) {
	problem := func(table, queries string) {
		c.problem(Problem{Log: path, What: "the table " + table + " is not what its commits record: queries by " +
			queries + " may miss rows"})
	}
	if v.spanned {
		different, _ := v.int64("SELECT count(*) FROM (SELECT first, last, since, until FROM span EXCEPT " +
			"SELECT min(first), max(last), min(since), max(until) FROM batch)")
		if n, _ := v.int64("SELECT count(*) FROM span"); different > 0 || n > 1 || n == 0 && v.rows() > 0 {
			problem("span", "time")
		}
	}
	if v.lookup && !v.sameLookup(ctx) {
		problem("lookup", "message")
	}
	if v.about && !v.sameSubjects(ctx) {
		problem("about", "subject")
	}
}

func (v *view) sameLookup(ctx context.Context) bool {
	want, same := v.lookupBuckets(ctx), true
	v.query("SELECT bucket, entries FROM lookup", nil, func(s *sqlite.Stmt) bool {
		i := s.ColumnInt64(0)
		if same = i >= 0 && i < int64(len(want)) && bytes.Equal(want[i], readBlob(s, 1)); same {
			want[i] = nil
		}
		return same
	})
	for _, entries := range want {
		same = same && len(entries) == 0
	}
	return same || v.err != nil
}

func (v *view) sameSubjects(ctx context.Context) bool {
	type about struct {
		subject string
		id      int64
	}
	want := map[about]bool{}
	v.eachSubject(ctx, func(subject string, id int64) { want[about{subject, id}] = true })
	same := true
	v.query("SELECT subject, id FROM about", nil, func(s *sqlite.Stmt) bool {
		a := about{s.ColumnText(0), s.ColumnInt64(1)}
		same = want[a]
		delete(want, a)
		return same
	})
	return same && len(want) == 0 || v.err != nil
}
