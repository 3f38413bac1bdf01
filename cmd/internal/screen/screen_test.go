package screen

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

func TestFitCountsColumnsNotColours(t *testing.T) {
	red := func(s string) string { return string(Red) + s + "\x1b[0m" }
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"plain", 5, "plain"}, {"plain", 3, "pla"}, {"", 0, ""}, {red("plain"), 5, red("plain")},
		{"a " + red("plain") + " z", 4, "a " + red("pl")}, {"日本", 3, "日"},
	} {
		if got := Fit(test.text, test.n); got != test.want {
			t.Errorf("Fit(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
}
