package audit

import (
	"bytes"
	"context"

	"hubbub/activitylog/internal/segment"

	"zombiezen.com/go/sqlite"
)

// index checks the index of a commit whose rows match their hashes.
func (a *treeVerifier) index(v *segment.View, path string, c *segment.Commit) {
	want := v.IndexOf(c.Window)
	if v.Err != nil {
		return
	}
	if c.Index.Since != want.Since || c.Index.Until != want.Until {
		a.problem(path, c.Low, "the times that its commit records, up to row %d, do not match its rows: queries by "+
			"time may miss them", c.High)
	}
	if !bytes.Equal(c.Index.Hashes, want.Hashes) {
		a.problem(path, c.Low, "the message ids that its commit records, up to row %d, do not match its rows: "+
			"queries by message may miss them", c.High)
	}
	if !bytes.Equal(c.Index.Subjects, want.Subjects) {
		a.problem(path, c.Low, "the subjects that its commit records, up to row %d, do not match its rows: "+
			"hubbub why may miss them", c.High)
	}
}

// checkTables compares the lookup tables of a sealed file with the indexes of its commits.
func (c *checker) checkTables(ctx context.Context, v *segment.View, path string) {
	problem := func(table, queries string) {
		c.problem(Problem{Log: path, What: "the table " + table + " does not match its commits: queries by " +
			queries + " may miss rows"})
	}
	if v.Spanned {
		different, _ := v.Int64("SELECT count(*) FROM (SELECT first, last, since, until FROM span EXCEPT " +
			"SELECT min(first), max(last), min(since), max(until) FROM batch)")
		if n, _ := v.Int64("SELECT count(*) FROM span"); different > 0 || n > 1 || n == 0 && v.Rows() > 0 {
			problem("span", "time")
		}
	}
	if v.Lookup && !sameLookup(ctx, v) {
		problem("lookup", "message")
	}
	if v.About && !sameSubjects(ctx, v) {
		problem("about", "subject")
	}
}

func sameLookup(ctx context.Context, v *segment.View) bool {
	want, same := v.LookupBuckets(ctx), true
	v.Query("SELECT bucket, entries FROM lookup", nil, func(s *sqlite.Stmt) bool {
		i := s.ColumnInt64(0)
		if same = i >= 0 && i < int64(len(want)) && bytes.Equal(want[i], segment.Blob(s, 1)); same {
			want[i] = nil
		}
		return same
	})
	for _, entries := range want {
		same = same && len(entries) == 0
	}
	return same || v.Err != nil
}

func sameSubjects(ctx context.Context, v *segment.View) bool {
	type about struct {
		subject string
		id      int64
	}
	want := map[about]bool{}
	v.EachSubject(ctx, func(subject string, id int64) { want[about{subject, id}] = true })
	same := true
	v.Query("SELECT subject, id FROM about", nil, func(s *sqlite.Stmt) bool {
		a := about{s.ColumnText(0), s.ColumnInt64(1)}
		same = want[a]
		delete(want, a)
		return same
	})
	return same && len(want) == 0 || v.Err != nil
}
