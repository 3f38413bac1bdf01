package cluster

import (
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// tellEvery is how often the same trouble is logged.
const tellEvery = time.Minute

// recent is how long after its last sign a trouble is still there: NATS is tried, and
// spoken to, several times within.
const recent = 5 * time.Second

// maxTroubles bounds how many different ones are remembered.
const maxTroubles = 16

// A trouble keeps what is wrong, for whoever looks, and logs it: each kind when it
// is new, and again every minute, though it comes many times a second. The zero
// value is ready.
type trouble struct {
	mu   sync.Mutex // guards the fields below
	last string
	at   time.Time // of last
	held string    // what stays wrong until over
	told map[string]time.Time
}

// note takes one error.
func (t *trouble) note(log *zerolog.Logger, level zerolog.Level, err error, at time.Time) {
	text := err.Error()
	if t.isDue(text, at) {
		log.WithLevel(level).Str("error", text).Msg("cluster")
	}
}

func (t *trouble) isDue(text string, at time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.at = text, at
	if told, ok := t.told[text]; ok && at.Sub(told) < tellEvery {
		return false
	}
	if t.told == nil || len(t.told) >= maxTroubles {
		t.told = map[string]time.Time{}
	}
	t.told[text] = at
	return true
}

// hold says that an error, which comes only once, stays until over.
func (t *trouble) hold(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = err.Error()
}

// over says that what was wrong is no longer.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.held = "", ""
}

// now returns what is wrong, or nothing.
func (t *trouble) now(at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Sub(t.at) > recent {
		return t.held
	}
	return t.last
}

// shown lists servers without the users of their addresses: that is a password, or
// where there is none the name alone may be a token.
func shown(servers []string) string {
	list := make([]string, len(servers))
	for i, s := range servers {
		scheme, rest, ok := strings.Cut(s, "://")
		if !ok {
			scheme, rest = "nats", s
		}
		list[i] = scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
	}
	return strings.Join(list, ", ")
}
