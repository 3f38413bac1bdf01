package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"hubbub/protocol/text"
)

// Token returns the token for the bus: from the file of a --token-file flag, else from
// HUBBUB_TOKEN, else from a token-file set elsewhere, else the one that `hubbub up`
// leaves for this program in the data folder. It is empty if there is none, for a bus
// without credentials. Token reads the file at each call, so that the next connect uses
// a replaced token.
func (e *Env) Token() (string, error) {
	c := e.settings
	if token, ok := e.process.lookupEnv("HUBBUB_TOKEN"); ok && token != "" && !c.tokenFlag {
		return e.takeSecret("HUBBUB_TOKEN", token)
	}
	if c.tokenFile != "" {
		return e.SecretFile(c.tokenFile)
	}
	name := e.Name
	if name == "hubbub" {
		name = "cli" // the command line of people
	}
	token, err := e.SecretFile(TokenPath(e.Data, name))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return token, err
}

// TokenPath returns the file in the data folder of `hubbub up` that holds a
// program's token: that of hubbub-tg is tokens/tg.
func TokenPath(data, name string) string {
	return filepath.Join(data, "tokens", strings.TrimPrefix(name, "hubbub-"))
}

// Secret returns the secret in an environment variable, or in the file that the
// variable with _FILE at its end names. It is empty, without an error, if neither is
// set.
func (e *Env) Secret(variable string) (string, error) {
	if s, ok := e.process.lookupEnv(variable); ok && s != "" {
		return e.takeSecret(variable, s)
	}
	path, _ := e.process.lookupEnv(variable + "_FILE")
	if path == "" {
		return "", nil
	}
	s, err := e.SecretFile(path)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", variable, err)
	}
	return s, nil
}

// WrongSecret returns the error for a value of Secret that is not valid. It is [Retryable] if
// the secret is in a file, which may still be written.
func (e *Env) WrongSecret(variable string, err error) error {
	if s, ok := e.process.lookupEnv(variable); ok && s != "" {
		return Usage("%s: %w", variable, err)
	}
	return Retryable(fmt.Errorf("%s_FILE: %w", variable, err))
}

// maxSecret is the size in bytes above which a file cannot be a secret.
const maxSecret = 64 << 10

// SecretFile returns the secret in a file, without the blanks around it. Each error is
// [Retryable], since the file may still be written.
func (e *Env) SecretFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	s, err := e.ReadSecret(path, f)
	if err != nil {
		return "", Retryable(err)
	}
	return s, nil
}

// ReadSecret reads a secret from r, and returns it without the blanks around it. In errors, name
// says where the secret comes from.
func (e *Env) ReadSecret(name string, r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("reading a secret: %w", err)
	}
	s, isText := text.Decode(data)
	switch {
	case len(data) > maxSecret:
		return "", fmt.Errorf("%s is too large to be a secret: it may have at most 64 KiB", name)
	case !isText:
		return "", fmt.Errorf("%s is not text: save it as UTF-8", name)
	case strings.TrimSpace(s) == "":
		return "", fmt.Errorf("%s is empty; it must hold a secret", name)
	}
	return e.takeSecret(name, s)
}

// takeSecret returns a secret without the blanks around it. The name says where it was found.
func (e *Env) takeSecret(name, s string) (string, error) {
	s = strings.TrimSpace(s)
	if e.secrets.add(s); !text.IsCleanName(s) {
		return "", fmt.Errorf("%s has a line break or an invisible character within the secret; "+
			"it must hold only the secret, on one line", name)
	}
	return s, nil
}

// Hide keeps a secret that the program got elsewhere out of every log line.
func (e *Env) Hide(secret string) { e.secrets.add(secret) }

// redactedText stands where a secret was.
const redactedText = "[secret]"

// minSecret is the shortest length of a secret that is cut out: cutting out shorter
// ones would garble lines without hiding anything.
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
