package harness

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// KeyFrom returns a function that reads a secret from the environment variable
// name, or from the file that name_FILE names, anew at each call. It returns
// "" where neither is set; the secret never stands in its errors.
func KeyFrom(name string) func() (string, error) {
	return func() (string, error) {
		if key := strings.TrimSpace(os.Getenv(name)); key != "" {
			return key, nil
		}
		path := os.Getenv(name + "_FILE")
		if path == "" {
			return "", nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("reading the key that %s_FILE names: %w", name, err)
		}
		key := strings.TrimSpace(string(raw))
		if key == "" || strings.ContainsAny(key, "\r\n") {
			return "", fmt.Errorf("the file that %s_FILE names must hold the key on one line and nothing else", name)
		}
		return key, nil
	}
}

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
