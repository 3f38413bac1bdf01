package harness

import (
	"regexp"
	"strings"
)

// keyLike finds what providers quote of a key in their error messages.
var keyLike = regexp.MustCompile(`\b(sk|key|tok|pk)[-_][A-Za-z0-9_*.\-]{6,}`)

// Redact removes the given secrets, and whatever looks like a key, from a text
// that goes into an error or a log.
func Redact(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	return keyLike.ReplaceAllString(text, "[redacted]")
}
