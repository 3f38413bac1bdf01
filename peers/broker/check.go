package broker

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Limits on what a request may bring, in bytes or counted.
const (
	maxName  = 256
	maxTitle = 4 << 10
	maxText  = 256 << 10 // of a message, an answer, an invocation, as JSON
	maxList  = 1000
)

func invalid(format string, args ...any) *collab.Error {
	return collab.Refuse(collab.CodeInvalid, format, args...)
}

// notFound refuses a request for a record that does not exist.
func notFound(kind, id string) *collab.Error {
	return collab.Refuse(collab.CodeNotFound, "there is no %s %q", kind, id)
}

// newID returns the id that a record gets: the one asked for, or a fresh one.
func (t *tx) newID(asked *string, prefix string) (string, error) {
	if asked == nil {
		return t.mint(prefix), nil
	}
	return *asked, checkName("id", *asked)
}

// filledID is newID for records whose id must not be blank.
func (t *tx) filledID(asked *string, prefix string) (string, error) {
	id, err := t.newID(asked, prefix)
	if err == nil && strings.TrimSpace(id) == "" {
		err = invalid("id must not be empty")
	}
	return id, err
}

// checkName refuses names and ids that are too long or hold control characters.
// Whether they may be empty is for others to say.
func checkName(what, s string) error {
	if len(s) > maxName {
		return invalid("%s is %d bytes long; at most %d are allowed", what, len(s), maxName)
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
		return invalid("%s must not contain control characters", what)
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

// checkEach is checkText for a list of at most so many names; tooMany is what is said
// of more.
func checkEach(what string, names []string, most int, tooMany string) error {
	if len(names) > most {
		return invalid(tooMany, most)
	}
	for _, name := range names {
		if err := checkText(what, name, maxName); err != nil {
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
	raw, err := collab.Encode(s)
	if err != nil {
		return invalid("%s cannot be stored: %v", what, err)
	}
	if len(raw) > limit {
		return invalid("%s is %d bytes long; at most %d are allowed", what, len(raw), limit)
	}
	return nil
}

func checkOneOf[S ~string](what string, s S, allowed ...S) error {
	if slices.Contains(allowed, s) {
		return nil
	}
	return invalid("%s %q is not one of %s", what, text.Clip(string(s), 40), listed(allowed))
}

// listed writes the values that there are, for an error.
func listed[S ~string](values []S) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(v))
	}
	return b.String()
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

// routingFailed reports whether err says that a message was stored although
// nobody could be woken for it.
func routingFailed(err error) bool {
	var e *collab.Error
	return errors.As(err, &e) &&
		(e.Code == collab.CodeUnknownTarget || e.Code == collab.CodeAmbiguous || e.Code == collab.CodeUnavailable)
}
