package program

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestToken_IsOneLineWithoutInvisibleCharacters(t *testing.T) {
	for content, want := range map[string]string{
		"token\r\n":                 "token",
		"\ufefftoken\n\n":           "token",
		" token\r":                  "token",
		"correct horse\n":           "correct horse",
		"token\ntoken\n":            "",
		"token\r\n\x1a":             "",
		"\ufeff\ufefftoken":         "",
		"to\tken":                   "",
		"token\u200b\n":             "",
		"to\x7fken":                 "",
		"\xff\xfet\x00\n\x00t\x00":  "",
		"\xff\xfet\x00\x00\x00":     "",
		"\x00\x00\xfe\xff\x00\x00t": "",
	} {
		for where, c := range map[string]call{
			"file":     {args: []string{"--token-file", write(t, content)}, env: map[string]string{"HOME": "/x"}},
			"variable": {env: map[string]string{"HOME": "/x", "HUBBUB_TOKEN": content}},
		} {
			if where == "variable" && (!utf8.ValidString(content) || strings.ContainsAny(content, "\x00\ufeff")) {
				continue // a variable is not a file
			}
			var got string
			s := probe{do: func(_ context.Context, env *Env) (err error) {
				got, err = env.Token()
				return err
			}}
			if out := c.run(t, s.program()); got != want || (out.code == 0) != (want != "") {
				t.Errorf("%s %q: token %q, want %q; exit code %d: %s", where, content, got, want, out.code, out.stderr)
			}
		}
	}
}

// TestWrongSecret_IsRetryableInAFile covers a secret that is not valid. A file may still be written; a
// variable does not change.
func TestWrongSecret_IsRetryableInAFile(t *testing.T) {
	file := write(t, "123456")
	for name, c := range map[string]struct {
		env  map[string]string
		code int
		says string
	}{
		"variable":               {map[string]string{"HOME": "/x", "KEY": "123456"}, 2, " KEY: too short"},
		"file":                   {map[string]string{"HOME": "/x", "KEY_FILE": file}, 1, " KEY_FILE: too short"},
		"variable over the file": {map[string]string{"HOME": "/x", "KEY": "123456", "KEY_FILE": file}, 2, " KEY: too short"},
		"empty variable":         {map[string]string{"HOME": "/x", "KEY": "", "KEY_FILE": file}, 1, " KEY_FILE: too short"},
	} {
		s := probe{do: func(_ context.Context, env *Env) error {
			if _, err := env.Secret("KEY"); err != nil {
				return err
			}
			return env.WrongSecret("KEY", errors.New("too short"))
		}}
		if out := (call{env: c.env}).run(t, s.program()); out.code != c.code || !strings.Contains(out.stderr, c.says) {
			t.Errorf("%s: %+v; want %d and %q", name, out, c.code, c.says)
		}
	}
}
