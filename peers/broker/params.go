package broker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits on what a request may bring, in bytes or counted.
const (
	maxName  = 256
	maxTitle = 4 << 10
	maxText  = 256 << 10 // of a message, an answer, an invocation, as JSON
	maxList  = 1000
)

// decodeParams reads a method's params. Absent params are an empty object;
// unknown members are passed over.
func decodeParams[P any](raw json.RawMessage) (P, error) {
	var p P
	if len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		raw = json.RawMessage("{}")
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, invalid("params cannot be read: %v", err)
	}
	return p, nil
}

type idParams struct {
	ID string `json:"id"`
}

// newID returns the id that a record gets: the one asked for, or a fresh one.
func (t *turn) newID(asked *string, prefix string) (string, error) {
	if asked == nil {
		return t.mint(prefix), nil
	}
	if err := checkName("id", *asked); err != nil {
		return "", err
	}
	return *asked, nil
}

// checkName refuses names and ids that are too long or hold control characters.
// Whether they may be empty is for others to say.
func checkName(what, s string) error {
	if len(s) > maxName {
		return invalid("%s is %d bytes long; at most %d are allowed", what, len(s), maxName)
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return invalid("%s must not contain control characters", what)
		}
	}
	return nil
}

// checkNames is checkName for several, in pairs of what and value.
func checkNames(pairs ...string) error {
	for pair := range slices.Chunk(pairs, 2) {
		if err := checkName(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses texts that are empty or too long.
func checkText(what, s string, limit int) error {
	if strings.TrimSpace(s) == "" {
		return invalid("%s is required", what)
	}
	return checkLength(what, s, limit)
}

func checkLength(what, s string, limit int) error {
	raw, err := encode(s)
	if err != nil {
		return invalid("%s cannot be stored: %v", what, err)
	}
	if len(raw) > limit {
		return invalid("%s is %d bytes long; at most %d are allowed", what, len(raw), limit)
	}
	return nil
}

func checkOneOf(what, s string, allowed ...string) error {
	if !slices.Contains(allowed, s) {
		return invalid("%s %q is not one of %s", what, clip(s, 40), strings.Join(allowed, ", "))
	}
	return nil
}

// duration reads a number of milliseconds; zero means the default.
func duration(ms int64, what string, def, limit time.Duration) (time.Duration, error) {
	switch {
	case ms == 0:
		return def, nil
	case ms < 0 || ms > limit.Milliseconds():
		return 0, invalid("%s must be between 1 and %d milliseconds", what, limit.Milliseconds())
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// A moment is a time in params: RFC 3339, or milliseconds since 1970.
type moment struct{ time.Time }

func (m *moment) UnmarshalJSON(raw []byte) error {
	var ms int64
	if json.Unmarshal(raw, &ms) == nil {
		m.Time = time.UnixMilli(ms)
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("a time is an RFC 3339 string or milliseconds since 1970")
	}
	t, err := time.Parse(time.RFC3339, s)
	m.Time = t
	return err
}
