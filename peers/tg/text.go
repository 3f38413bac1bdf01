package tg

import (
	"errors"
	"strings"
	"unicode/utf8"

	"hubbub/peers/outbox"
)

// clip shortens a text to n bytes without cutting a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n]) + "…"
}

// isAny reports whether an error is one of several.
func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// A finalError is one that no repetition can mend.
type finalError struct{ error }

func (e *finalError) Unwrap() error { return e.error }

// permanent makes an item a dead letter.
func permanent(err error) error { return outbox.Permanent(&finalError{err}) }

// needless makes the error of a reply that must not be sent and that nobody
// misses: it is no dead letter.
func needless(err error) error { return outbox.Drop(&finalError{err}) }

func isPermanent(err error) bool {
	var final *finalError
	return errors.As(err, &final)
}
