package cluster

import (
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// tellEvery is how often the same trouble is logged.
const tellEvery = time.Minute

// recent is how long a trouble lasts after its last sign. NATS is used several times
// within that time.
const recent = 5 * time.Second

// maxTroubles bounds how many different errors are remembered.
const maxTroubles = 16

// A trouble remembers what is wrong, for the status, and logs it. An error that occurs
// many times a second is logged when it is new and then once a minute. The zero value
// has nothing to report.
type trouble struct {
	mu   sync.Mutex // guards the fields below
	last string
	at   time.Time // of last
	held string    // an error that lasts until over is called
	told map[string]time.Time
}

// note remembers an error, and logs it if it is new or due again.
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

// hold makes an error that occurs only once last until over is called.
func (t *trouble) hold(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = err.Error()
}

// over forgets what was wrong.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.held = "", ""
}

// now returns what is wrong, or "".
func (t *trouble) now(at time.Time) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at.Sub(t.at) > recent {
		return t.held
	}
	return t.last
}

// shown lists the addresses of servers without their user part: it holds a password, or
// its name alone may be a token.
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
