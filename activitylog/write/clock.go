package write

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"
)

// A ClockState compares the clock of the machine with the time that retention uses. The bus
// stores it beside the log.
type ClockState struct {
	// Ahead is how far the clock is ahead of the time that retention uses. It is 0 unless the
	// clock has jumped, and negative if it has jumped back.
	Ahead time.Duration `json:"ahead"`
	// Wall is the time of the clock when the state was stored.
	Wall time.Time `json:"wall"`
	// Steady is how long the bus has run since the last jump.
	Steady time.Duration `json:"steady"`
	// Unproven is the sum of the smaller steps that were accepted, less what the bus has proved
	// since by running.
	Unproven time.Duration `json:"unproven,omitempty"`
	// Jump is the last jump; nil if there was none.
	Jump *ClockJump `json:"jump,omitempty"`
}

// A ClockJump is one jump of the clock.
type ClockJump struct {
	From     time.Time  `json:"from"`               // the expected time
	To       time.Time  `json:"to"`                 // the time that the clock showed
	Ended    *time.Time `json:"ended,omitempty"`    // when the clock was right again
	Believed *time.Time `json:"believed,omitempty"` // when the bus had run long enough to trust the clock
}

// provenAfter is how long the bus must run after a jump before the clock is trusted.
const provenAfter = 24 * time.Hour

// provenPerRun is the ratio of the time that the bus may have been off to the time that it ran.
// Retention therefore works on a machine that is used for an hour a day.
const provenPerRun = 24

// A retentionClock decides which time retention uses, so that a wrong clock does not remove the
// log. It accepts steps of a day in total, or of a tenth of the retention age if that is more,
// because the machine may have been off. Each hour of running proves a day of these steps. After
// a larger step, the clock is trusted once the bus has run for a day.
type retentionClock struct {
	path      string // of the log
	tolerance time.Duration
	state     ClockState
	last      time.Duration // running time at the last check
	stored    time.Duration // running time when state was last stored

	wall    func() time.Time     // time.Now; tests replace it
	running func() time.Duration // monotonic time since the start; tests replace it
}

// storeEvery is how often the state of the clock is stored while nothing changes.
const storeEvery = 10 * time.Minute

func newRetentionClock(path string, keep activitylog.Retention) *retentionClock {
	began := time.Now()
	return &retentionClock{
		path:      path,
		tolerance: max(24*time.Hour, keep.Age/10),
		wall:      time.Now,
		running:   func() time.Duration { return time.Since(began) },
	}
}

// check compares the clock with the expected time. It returns a jump that begins or ends now.
func (c *retentionClock) check() (news *ClockJump, err error) {
	now, running := c.wall().Round(0), c.running()
	first := c.state.Wall.IsZero()
	if first {
		if err := c.load(now); err != nil {
			return nil, err
		}
		c.last = running
	}
	news = c.advance(now, running-c.last)
	c.last = running
	if news == nil && !first && running-c.stored < storeEvery {
		return nil, nil
	}
	c.stored = running
	return news, c.store()
}

// advance accounts for the time since the last check and for the current time of the clock.
func (c *retentionClock) advance(wall time.Time, elapsed time.Duration) *ClockJump {
	s := &c.state
	expected := s.Wall.Add(elapsed)
	step := wall.Sub(expected)
	s.Wall = wall
	s.Steady += elapsed
	s.Unproven = max(0, s.Unproven-provenPerRun*min(elapsed, c.tolerance))
	ahead := s.Ahead + step
	switch {
	case -c.tolerance <= ahead && ahead <= c.tolerance-s.Unproven:
		before := s.Ahead
		s.Ahead, s.Unproven = 0, max(0, s.Unproven+ahead)
		switch {
		case before == 0: // no jump was under way
			return nil
		case ahead.Abs() <= before.Abs()/2: // it was undone
			s.Jump.Ended = &wall
		default: // the bus has run long enough
			s.Jump.Believed = &wall
		}
		return s.Jump
	case s.Ahead == 0 || step.Abs() > c.tolerance:
		s.Steady, s.Ahead = 0, ahead
		s.Jump = &ClockJump{From: wall.Add(-ahead), To: wall}
		return s.Jump
	case s.Steady >= provenAfter:
		s.Ahead = 0
		s.Jump.Believed = &wall
		return s.Jump
	default:
		s.Ahead = ahead
	}
	return nil
}

// now returns the time that retention uses, which is never later than the clock.
func (c *retentionClock) now() time.Time {
	return c.state.Wall.Add(-max(0, c.state.Ahead))
}

// clockPath returns the path of the clock's state for the log at path.
func clockPath(path string) string { return strings.TrimSuffix(path, ".db") + ".clock" }

// load reads the state of the clock. If there is none, it takes the time of the log's last row.
func (c *retentionClock) load(now time.Time) (err error) {
	if c.state, err = ReadClock(c.path); err != nil || c.state.Wall.IsZero() {
		last, lastErr := lastRowTime(c.path)
		if lastErr != nil {
			c.state = ClockState{}
			return lastErr
		}
		c.state = ClockState{Wall: last}
	}
	if c.state.Wall.IsZero() {
		c.state.Wall = now
	}
	return nil
}

func (c *retentionClock) store() error {
	text, err := json.Marshal(c.state)
	if err != nil {
		return err
	}
	if err := datafolder.WriteFile(clockPath(c.path), append(text, '\n')); err != nil {
		return fmt.Errorf("storing the state of the clock: %w", err)
	}
	return nil
}

// ReadClock returns the state of the clock that a bus has stored beside the log at path. It is
// zero if there is none.
func ReadClock(path string) (s ClockState, err error) {
	text, err := os.ReadFile(clockPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return ClockState{}, fmt.Errorf("reading the state of the clock of the activity log: %w", err)
	}
	if s.Jump == nil {
		s.Ahead = 0
	}
	return s, nil
}

// lastRowTime returns the time of the last row, or zero.
func lastRowTime(path string) (last time.Time, err error) {
	numbers, err := segment.Numbers(path)
	if err != nil {
		return last, err
	}
	files := []string{path}
	if n := len(numbers); n > 0 {
		files = append(files, segment.Path(path, numbers[n-1]))
	}
	for _, name := range files {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		v, err := segment.Open(name)
		if errors.Is(err, activitylog.ErrNoLog) {
			continue
		}
		if err != nil {
			return last, err
		}
		at, ok := v.Int64("SELECT at FROM event ORDER BY id DESC LIMIT 1")
		if err := errors.Join(v.Err, v.Conn.Close()); err != nil || ok {
			return time.UnixMicro(at), err
		}
	}
	return last, nil
}
