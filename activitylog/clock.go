package activitylog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"hubbub/protocol/datafolder"
)

// A ClockState is how the clock of the machine compares to the time that the log goes
// by. The bus stores it beside the log.
type ClockState struct {
	// Ahead is how far the clock is ahead of the time that the log goes by. It is 0
	// unless the clock has jumped, and negative if it has jumped back.
	Ahead time.Duration `json:"ahead"`
	// Wall is what the clock showed when the state was stored.
	Wall time.Time `json:"wall"`
	// Steady is how long the bus has run since the last jump.
	Steady time.Duration `json:"steady"`
	// Unproven is the sum of the smaller steps that were believed, less what the bus
	// has proved by running since.
	Unproven time.Duration `json:"unproven,omitempty"`
	// Jump is the last jump; nil if there was none.
	Jump *ClockJump `json:"jump,omitempty"`
}

// A ClockJump is one jump of the clock.
type ClockJump struct {
	From     time.Time  `json:"from"`               // what the clock should have shown
	To       time.Time  `json:"to"`                 // what it showed
	Ended    *time.Time `json:"ended,omitempty"`    // when it was right again
	Believed *time.Time `json:"believed,omitempty"` // when it had run on for a day
}

// provenAfter is how long the bus has to run after a jump before the clock is believed.
const provenAfter = 24 * time.Hour

// provenPerRun is how much longer than it has run the bus may have been off: a machine that is used
// for an hour a day keeps its retention.
const provenPerRun = 24

// A retentionClock decides which time retention goes by, so that a wrong clock does not
// remove the log. It believes steps of a day in all, or of a tenth of the time for which
// rows are kept if that is more: the machine may have slept or been off. Each hour of
// running proves a day of them. The clock is believed beyond that once the bus has run for
// a day after the last larger step.
type retentionClock struct {
	path      string // of the log
	tolerance time.Duration
	state     ClockState
	last      time.Duration // of running, at the last look
	stored    time.Duration // of running, when state was stored last

	wall    func() time.Time     // time.Now; tests replace it
	running func() time.Duration // by a clock that cannot be set; tests replace it
}

// storeEvery is how often the state of the clock is stored while nothing changes.
const storeEvery = 10 * time.Minute

func newRetentionClock(path string, keep Retention) *retentionClock {
	began := time.Now()
	return &retentionClock{
		path:      path,
		tolerance: max(24*time.Hour, keep.Age/10),
		wall:      time.Now,
		running:   func() time.Duration { return time.Since(began) },
	}
}

// check compares the clock to what it should show. It returns the jump that begins or
// ends now, if any.
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

// advance accounts for the time that has passed since the last look, and for what the
// clock shows now.
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
		s.Ahead, s.Unproven = 0, max(0, s.Unproven+ahead)
		if s.Jump != nil && s.Jump.Ended == nil && s.Jump.Believed == nil {
			s.Jump.Ended = &wall
			return s.Jump
		}
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

// now returns the time that retention goes by: never later than the clock.
func (c *retentionClock) now() time.Time {
	return c.state.Wall.Add(-max(0, c.state.Ahead))
}

// clockPath returns the file with the state of the clock beside the log at path.
func clockPath(path string) string { return strings.TrimSuffix(path, ".db") + ".clock" }

// load reads the state of the clock. If there is none, the last row of the log tells
// what the time was.
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

// ReadClock returns the state of the clock that the bus has stored beside the log at
// path. It is zero if no bus has.
func ReadClock(path string) (s ClockState, err error) {
	text, err := os.ReadFile(clockPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return ClockState{}, fmt.Errorf("reading the state of the clock beside the activity log: %w", err)
	}
	if s.Jump == nil {
		s.Ahead = 0
	}
	return s, nil
}

// lastRowTime returns the time of the row that was written last; zero if there is none.
func lastRowTime(path string) (last time.Time, err error) {
	numbers, err := segmentNumbers(path)
	if err != nil {
		return last, err
	}
	files := []string{path}
	if n := len(numbers); n > 0 {
		files = append(files, segmentPath(path, numbers[n-1]))
	}
	for _, name := range files {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		v, err := openView(name)
		if errors.Is(err, ErrNoLog) {
			continue
		}
		if err != nil {
			return last, err
		}
		at, ok := v.int64("SELECT at FROM event ORDER BY id DESC LIMIT 1")
		if err := errors.Join(v.err, v.conn.Close()); err != nil || ok {
			return time.UnixMicro(at), err
		}
	}
	return last, nil
}
