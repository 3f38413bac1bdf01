package activitylog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/protocol/defaults"

	"zombiezen.com/go/sqlite"
)

// A Verdict is the result of Verify.
type Verdict struct {
	Rows     int64 `json:"rows"`
	Messages int64 `json:"messages"` // passes of messages through the bus
	Complete int64 `json:"complete"` // those with one send_start, one send_finish, and every process pair
	UnderWay int64 `json:"underWay"` // those at the end of the log that may still be finished
	// those that lack rows since a bus was killed while they were under way, or by a gap
	Cut       int64     `json:"cut"`
	Elsewhere int64     `json:"elsewhere"` // with Partial: those that have rows in a log that was not read
	Gaps      []Gap     `json:"gaps"`      // rows that the bus says it could not write
	Problems  []Problem `json:"problems"`  // the first ones; what neither a kill nor a gap explains
	More      int64     `json:"more"`      // problems that are not listed
	Audits    []*Audit  `json:"audits"`    // of each log, what its tree proves
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// A Gap is one log_gap row.
type Gap struct {
	At     time.Time `json:"ts"`
	Lost   int64     `json:"lost"`
	Reason string    `json:"reason"`
	Bus    string    `json:"bus,omitempty"`
}

// A Problem is something that should not be.
type Problem struct {
	Log       string `json:"log"`
	ID        int64  `json:"id,omitempty"` // of the row
	MessageID string `json:"messageId,omitempty"`
	What      string `json:"what"`
}

// OK reports whether nothing was found that should not be. Gaps and messages
// cut by a kill are on record, and no problem of the log.
func (v *Verdict) OK() bool { return len(v.Problems) == 0 }

// maxProblems is how many problems are listed.
const maxProblems = 100

// VerifyOptions are the optional settings of Verify. Nil is valid.
type VerifyOptions struct {
	// Longest is how long a message may be under way; default one minute. A
	// message that began within that time before the end may still be finished.
	Longest time.Duration
	// Partial says that these are not all logs of a cluster: a message whose
	// other rows may be in another log is no problem.
	Partial bool
	// Quick leaves out SQLite's own check of the file, which reads it whole.
	Quick bool
	// OnRow, if it is not nil, is called for each row that was read.
	OnRow func()
	// Key is the verifier key that must have signed the log, as it was kept elsewhere.
	Key string
	// Checkpoints of the logs that were kept elsewhere: what they cover must still be there.
	Checkpoints []string
}

// Verify reads the logs and says whether they are whole: SQLite's own check,
// the schema, and for each message that went through a bus one send_start, one
// send_finish, and as many process_start and process_finish rows as its result
// counts peers.
func (r *Reader) Verify(ctx context.Context, opts *VerifyOptions) (*Verdict, error) {
	o := defaults.Of(opts)
	defaults.Positive(&o.Longest, time.Minute)
	c := &checker{verdict: &Verdict{Gaps: []Gap{}, Problems: []Problem{}}, longest: o.Longest, partial: o.Partial,
		paths: r.Paths()}
	c.tails = make([]tail, len(c.paths))
	for _, text := range o.Checkpoints {
		if _, err := parseCheckpoint(text); err != nil {
			return nil, err
		}
	}
	for _, s := range r.sources {
		err := s.with(ctx, func(l *snapshot) {
			for _, in := range l.parts {
				v := l.open(in)
				c.checkFile(v, in.path, o.Quick || !in.active && c.checkSum(ctx, in.path))
				c.checkTables(ctx, v, in.path)
				l.check(v)
				l.release(in)
			}
		})
		if err := c.recordDamage(s.path, err); err != nil {
			return nil, err
		}
		if err := c.recordDamage(s.path, r.auditLog(ctx, s, c, &o)); err != nil {
			return nil, err
		}
	}
	c.reportForeign(o.Checkpoints)
	err := r.Each(ctx, Filter{}, func(e *Entry) error {
		if c.add(e); o.OnRow != nil {
			o.OnRow()
		}
		return nil
	})
	if err := c.recordDamage(strings.Join(c.paths, ", "), err); err != nil {
		return nil, err
	}
	c.end()
	return c.verdict, r.ignorePruned(ctx, c.verdict)
}

// recordDamage returns an error of reading, unless the file is damaged: that is a
// problem like others, listed after those found before it.
func (c *checker) recordDamage(log string, err error) error {
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCorrupt {
		return err
	}
	c.problem(Problem{Log: log, What: fmt.Sprintf("after %d rows: %v", c.verdict.Rows, err)})
	return nil
}

// ignorePruned drops the problems of messages whose rows have left since they were
// read: a prune that goes on meanwhile takes some before others.
func (r *Reader) ignorePruned(ctx context.Context, v *Verdict) error {
	for _, s := range r.sources {
		err := s.with(ctx, func(l *snapshot) {
			v.Problems = slices.DeleteFunc(v.Problems, func(p Problem) bool {
				if p.MessageID == "" || p.Log != s.path {
					return false
				}
				left := !l.has(p.ID) && l.err == nil
				if left {
					v.Cut++
				}
				return left
			})
		})
		if err != nil && sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCorrupt {
			return err
		}
	}
	return nil
}

// checkSum compares a sealed file with its checksum, and reports whether it has one: what
// is as it was sealed needs no other check.
func (c *checker) checkSum(ctx context.Context, path string) bool {
	want, err := os.ReadFile(path + checksumSuffix)
	if err != nil {
		return false // it is not sealed yet
	}
	got, err := checksum(ctx, path)
	if err != nil || got == string(want) {
		return err == nil
	}
	c.problem(Problem{Log: path, What: "it was changed after it was sealed: its checksum is not the one in " +
		filepath.Base(path) + checksumSuffix})
	return false
}

// has reports whether a row is there.
func (r *snapshot) has(id int64) bool {
	for _, p := range r.parts {
		if s := r.span(p); id < s.first || id > s.last {
			continue
		}
		v := r.open(p)
		_, there := v.int64("SELECT 1 FROM event WHERE id = ?", id)
		r.check(v)
		return there
	}
	return false
}

// requiredColumns are the columns that every log has.
var requiredColumns = []string{"id", "ts", "event", "message_id", "rpc_id", "actor", "topic", "status", "payload_json",
	"error"}

func (c *checker) checkFile(v *view, path string, quick bool) {
	if v.conn == nil {
		return // it was just removed
	}
	columns, err := columnsOf(v.conn)
	if err != nil {
		v.fail(err)
		return
	}
	for _, name := range requiredColumns {
		if !columns[name] {
			c.problem(Problem{Log: path, What: "the column " + name + " is missing"})
		}
	}
	if quick {
		return
	}
	v.query("PRAGMA integrity_check", nil, func(s *sqlite.Stmt) bool {
		if text := s.ColumnText(0); text != "ok" {
			c.problem(Problem{Log: path, What: "SQLite: " + text})
		}
		return true
	})
}
