package program

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
)

// redactedText stands where a secret was.
const redactedText = "[secret]"

// minSecret is the shortest length of a secret that is cut out: to cut out shorter ones
// would garble lines without hiding anything.
const minSecret = 6

// secrets cuts known secrets out of text.
type secrets struct {
	mu       sync.RWMutex
	known    []string
	replacer *strings.Replacer
}

// add makes a secret known.
func (s *secrets) add(secret string) {
	if len(secret) < minSecret {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.known, secret) {
		return
	}
	s.known = append(s.known, secret)
	// Longer secrets first, so that a secret which contains another is cut out whole.
	slices.SortStableFunc(s.known, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, k := range s.known {
		pairs = append(pairs, k, redactedText)
		if quoted, err := json.Marshal(k); err == nil {
			if inner := string(quoted[1 : len(quoted)-1]); inner != k {
				pairs = append(pairs, inner, redactedText)
			}
		}
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// cut returns text without the known secrets.
func (s *secrets) cut(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.replacer == nil {
		return text
	}
	return s.replacer.Replace(text)
}

// A redactingWriter cuts the known secrets out of every line on its way, and
// writes one line at a time.
type redactingWriter struct {
	secrets *secrets
	mu      sync.Mutex
	to      io.Writer
}

func (w *redactingWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := io.WriteString(w.to, w.secrets.cut(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
