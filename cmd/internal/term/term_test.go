package term

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrintable(t *testing.T) {
	if got := Printable("a\nb\tc\x1b[31m\u202ed\u009b é 日本"); got != "a b c\uFFFD[31m\uFFFDd\uFFFD é 日本" {
		t.Errorf("%q", got)
	}
}

func TestLines(t *testing.T) {
	for n, want := range map[int]string{0: "a\ufffd[31m title that is long\n\n  - b c", 24: "a\ufffd[31m title that is\nlong\n\n  - b c"} {
		if got := Lines("a\x1b[31m title that is long\r\n\n  - b c\n", n); got != want {
			t.Errorf("at %d: %q", n, got)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want []string
	}{
		{"", 5, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"abcdefgh ij", 3, []string{"abc", "def", "gh", "ij"}},
		{"ab c\u00a0d", 4, []string{"ab", "c\u00a0d"}},
		{"日本語 x", 4, []string{"日本", "語 x"}},
		{"👍👍👍", 1, []string{"👍", "👍", "👍"}},
	} {
		if diff := cmp.Diff(c.want, Wrap(c.text, c.n)); diff != "" {
			t.Errorf("%q at %d: %s", c.text, c.n, diff)
		}
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		what, text, want string
		n                int
	}{
		{"no terminal", "one two three", "one two three", 0},
		{"it fits", "one\ntwo three", "one\ntwo three", 9},
		{"paragraphs", "a first line\nof two that fit here\n\none that is much too long,\nand one more\nend", "a first line\nof two that fit here\n\none that is much too\nlong, and one more\nend", 20},
		{"a command stays", "see\n    hubbub log sql 'SELECT 1'", "see\n    hubbub log sql 'SELECT 1'", 20},
		{"what a line is", "    --flag\n        which is one of all the\n        words", "    --flag\n        which is one of all\n        the words", 28},
		{"an example stays", `        "result":{"serverId":"..."}}`, `        "result":{"serverId":"..."}}`, 20},
		{"two columns", "  chat  Talk to an agent, or type", "  chat  Talk to an agent, or\n        type", 28},
		{"a first column that takes all", "  --activity-queue-bytes int  bytes that wait", "  --activity-queue-bytes int\n    bytes that wait", 30},
		{"a link can be copied", "It is at http://127.0.0.1:7892/console/enter/X now", "It is at\nhttp://127.0.0.1:7892/console/enter/X\nnow", 20},
	} {
		if got := Fold(c.text, c.n); got != c.want {
			t.Errorf("%s: %q, and not %q", c.what, got, c.want)
		}
	}
}

func TestHang(t *testing.T) {
	for n, want := range map[int]string{0: "ok  disk: 64 GB are free for it", 24: "ok  disk: 64 GB are free\n    for it"} {
		if got := Hang("ok  ", "disk: 64 GB are free for it", n); got != want {
			t.Errorf("at %d: %q", n, got)
		}
	}
}

func TestPadAndPaint(t *testing.T) {
	if got := Pad("日", 4); got != "日  " {
		t.Errorf("%q", got)
	}
	if got := Pad("👨\u200d💻", 4); got != "👨\u200d💻  " {
		t.Errorf("%q", got)
	}
	if got := Painter(true).Paint(Red, "x"); !strings.HasPrefix(got, "\x1b[31mx") {
		t.Errorf("%q", got)
	}
	if got := Painter(false).Paint(Red, "x"); got != "x" {
		t.Errorf("%q", got)
	}
}

func TestFit_IgnoresColours(t *testing.T) {
	red := func(s string) string { return string(Red) + s + "\x1b[0m" }
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"plain", 5, "plain"}, {"plain", 3, "pla"}, {"", 0, ""}, {red("plain"), 5, red("plain")},
		{"a " + red("plain") + " z", 4, "a " + red("pl")}, {"日本", 3, "日"},
		{"👩\u200d💻!", 2, "👩\u200d💻"}, {"👩\u200d💻!", 3, "👩\u200d💻!"}, {"👩\u200d💻", 1, ""},
	} {
		if got := Fit(test.text, test.n); got != test.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
}

// The width of a line and of a word is counted once.
func TestWrap_CountsWidthsOnce(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want []string
	}{
		{"a\u200d b c", 4, []string{"a\u200d b c"}},
		{"ab\u200dcd\u200d ef", 2, []string{"ab\u200d", "cd\u200d", "ef"}},
		{"ab\u200dcdefg", 2, []string{"ab\u200d", "cd", "ef", "g"}},
		{"日本 語x", 1, []string{"日", "本", "語", "x"}},
	} {
		if diff := cmp.Diff(c.want, Wrap(c.text, c.n)); diff != "" {
			t.Errorf("%q at %d: %s", c.text, c.n, diff)
		}
	}
	for n, want := range map[int]int{80: 125, 100: 100} {
		if got := len(Wrap(strings.Repeat("a", 10_000), n)); got != want {
			t.Errorf("%d lines of %d columns", got, n)
		}
	}
}
