package cluster

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/rs/zerolog"
)

// faultLogInterval is how often the same error is logged.
const faultLogInterval = time.Minute

// faultTTL is how long an error counts as current after it last occurred. NATS is used several
// times in that time.
const faultTTL = 5 * time.Second

// maxFaults bounds the number of different errors that a fault remembers.
const maxFaults = 16

// A fault holds the current error, for the status, and logs errors. It logs an error when it is
// new, and then once a minute, however often it occurs. The zero value has no error.
type fault struct {
	mu     sync.Mutex // guards the fields below
	last   string
	at     time.Time                         // of last
	held   string                            // an error that lasts until clear
	logged *simplelru.LRU[string, time.Time] // when each error was last logged
}

// report sets the current error, and logs it unless it was logged recently.
func (f *fault) report(log *zerolog.Logger, level zerolog.Level, err error, at time.Time) {
	text := err.Error()
	if f.isDue(text, at) {
		log.WithLevel(level).Str("error", text).Msg("cluster")
	}
}

func (f *fault) isDue(text string, at time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.at = text, at
	if f.logged == nil {
		f.logged, _ = simplelru.NewLRU[string, time.Time](maxFaults, nil) //nolint:errcheck // the size is positive
	}
	if last, ok := f.logged.Peek(text); ok && at.Sub(last) < faultLogInterval {
		return false
	}
	f.logged.Add(text, at)
	return true
}

// hold makes an error that occurs only once last until clear.
func (f *fault) hold(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = err.Error()
}

// clear removes the current error.
func (f *fault) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.held = "", ""
}

// current returns the current error, or "".
func (f *fault) current(at time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Sub(f.at) > faultTTL {
		return f.held
	}
	return f.last
}

// redactURLs lists the addresses of servers without their user part, which may contain a secret.
func redactURLs(servers []string) string {
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
