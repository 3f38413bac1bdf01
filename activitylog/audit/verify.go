package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"
	"hubbub/protocol/defaults"

	"zombiezen.com/go/sqlite"
)

// A Verdict is the result of Verify.
type Verdict struct {
	Rows     int64 `json:"rows"`
	Messages int64 `json:"messages"` // publications
	Complete int64 `json:"complete"` // publications with one send_start, one send_finish, and every process pair
	UnderWay int64 `json:"underWay"` // publications at the end of the log that may still finish
	// Cut counts publications that lack rows because a bus was killed or recorded a gap.
	Cut       int64     `json:"cut"`
	Elsewhere int64     `json:"elsewhere"` // with Partial: publications with rows in a log that was not read
	Gaps      []Gap     `json:"gaps"`      // rows that the bus could not write
	Problems  []Problem `json:"problems"`  // the first ones that neither a kill nor a gap explains
	More      int64     `json:"more"`      // problems that are not listed
	Audits    []*Audit  `json:"audits"`    // one for each log
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

// A Problem is one fault of a log.
type Problem struct {
	Log       string `json:"log"`
	ID        int64  `json:"id,omitempty"` // of the row
	MessageID string `json:"messageId,omitempty"`
	What      string `json:"what"`
}

// OK reports whether no problem was found. Gaps and messages cut by a kill are not problems.
func (v *Verdict) OK() bool { return len(v.Problems) == 0 }

// maxProblems bounds the listed problems.
const maxProblems = 100

// VerifyOptions are the optional settings of Verify. Nil is valid.
type VerifyOptions struct {
	// Longest is how long a message may be under way; default one minute. A message that began
	// within this time before the end of the log may still finish.
	Longest time.Duration
	// Partial means that some logs of the cluster are missing. Rows that may be in a missing log
	// are then not a problem.
	Partial bool
	// Quick skips SQLite's integrity check, which reads the whole file.
	Quick bool
	// OnRow, if not nil, is called for each row.
	OnRow func()
	// Key is a verifier key, kept elsewhere, that must have signed the log.
	Key string
	// Checkpoints are checkpoints of the logs, kept elsewhere. The entries that they cover must
	// still exist.
	Checkpoints []string
}

// Verify checks that the logs are complete and unchanged. It runs SQLite's integrity check, and
// checks the schema, the checksums and the trees. Each message must have one send_start row, one
// send_finish row, and one pair of process rows for each peer that its result counts. A peer that
// moved to another bus has one more pair, which ended offline, at each bus that it left.
func Verify(ctx context.Context, r *read.Reader, opts *VerifyOptions) (*Verdict, error) {
	o := defaults.Of(opts)
	defaults.Positive(&o.Longest, time.Minute)
	c := &checker{verdict: &Verdict{Gaps: []Gap{}, Problems: []Problem{}}, longest: o.Longest, partial: o.Partial,
		paths: r.Paths()}
	c.tails = make([]tail, len(c.paths))
	for _, text := range o.Checkpoints {
		if _, err := merkle.ParseCheckpoint(text); err != nil {
			return nil, err
		}
	}
	for _, s := range r.Logs() {
		err := s.With(ctx, func(l *segment.Snapshot) {
			for _, in := range l.Parts {
				v := l.Open(in)
				c.checkFile(v, in.Path, o.Quick || !in.Active && c.checkSum(ctx, in.Path))
				c.checkTables(ctx, v, in.Path)
				l.Check(v)
				l.Release(in)
			}
		})
		if err := c.recordDamage(s.Path, err); err != nil {
			return nil, err
		}
		if err := c.recordDamage(s.Path, auditLog(ctx, s, c, &o)); err != nil {
			return nil, err
		}
	}
	c.reportForeign(o.Checkpoints)
	err := r.Each(ctx, read.Filter{}, func(e *activitylog.Entry) error {
		if c.add(e); o.OnRow != nil {
			o.OnRow()
		}
		return nil
	})
	if err := c.recordDamage(strings.Join(c.paths, ", "), err); err != nil {
		return nil, err
	}
	c.finish()
	return c.verdict, ignorePruned(ctx, r, c.verdict)
}

// recordDamage records an error about a damaged file as a problem, and returns other errors.
func (c *checker) recordDamage(log string, err error) error {
	if sqlite.ErrCode(err).ToPrimary() != sqlite.ResultCorrupt {
		return err
	}
	c.problem(Problem{Log: log, What: fmt.Sprintf("after %d rows: %v", c.verdict.Rows, err)})
	return nil
}

// ignorePruned drops problems of messages whose rows were pruned while the log was read.
func ignorePruned(ctx context.Context, r *read.Reader, v *Verdict) error {
	for _, s := range r.Logs() {
		err := s.With(ctx, func(l *segment.Snapshot) {
			v.Problems = slices.DeleteFunc(v.Problems, func(p Problem) bool {
				if p.MessageID == "" || p.Log != s.Path {
					return false
				}
				left := !hasRow(l, p.ID) && l.Err == nil
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

// checkSum reports whether a sealed file matches its checksum; then no other check is necessary.
// It records a problem if they differ. A file that is not sealed yet has no checksum.
func (c *checker) checkSum(ctx context.Context, path string) bool {
	want, err := os.ReadFile(path + segment.ChecksumSuffix)
	if err != nil {
		return false // it is not sealed yet
	}
	got, err := segment.Checksum(ctx, path)
	if err != nil || got == string(want) {
		return err == nil
	}
	c.problem(Problem{Log: path, What: "it was changed after it was sealed: its checksum differs from the one in " +
		filepath.Base(path) + segment.ChecksumSuffix})
	return false
}

// hasRow reports whether the log has the row.
func hasRow(r *segment.Snapshot, id int64) bool {
	for _, p := range r.Parts {
		if s := r.Span(p); id < s.First || id > s.Last {
			continue
		}
		v := r.Open(p)
		_, there := v.Int64("SELECT 1 FROM event WHERE id = ?", id)
		r.Check(v)
		return there
	}
	return false
}

// requiredColumns are the columns of every log.
var requiredColumns = []string{"id", "ts", "event", "message_id", "rpc_id", "actor", "topic", "status", "payload_json",
	"error"}

func (c *checker) checkFile(v *segment.View, path string, quick bool) {
	if v.Conn == nil {
		return // the file was just removed
	}
	columns := map[string]bool{}
	v.Query("SELECT name FROM pragma_table_info('activity_log')", nil, func(s *sqlite.Stmt) bool {
		columns[s.ColumnText(0)] = true
		return true
	})
	if v.Err != nil {
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
	v.Query("PRAGMA integrity_check", nil, func(s *sqlite.Stmt) bool {
		if text := s.ColumnText(0); text != "ok" {
			c.problem(Problem{Log: path, What: "SQLite: " + text})
		}
		return true
	})
}
