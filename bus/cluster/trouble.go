package cluster

import (
	"net/url"
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

// over says that what was wrong is no longer.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = ""
}

// now returns what is wrong, or nothing.
func (t *trouble) now(at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Sub(t.at) > recent {
		return ""
	}
	return t.last
}

// shown lists servers without the passwords that their addresses may have.
func shown(servers []string) string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s
		if u, err := url.Parse(s); err == nil {
			list[i] = u.Redacted()
		}
	}
	return strings.Join(list, ", ")
}
