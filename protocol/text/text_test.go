package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 1, ""}, {"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"ab", 1, "…"}, {"ab", 0, "…"}, {"a", 0, "a"}, {"abcdef", 4, "abc…"}, {"日本語", 2, "日…"},
	} {
		if got := Clip(tt.in, tt.n); got != tt.want {
			t.Errorf("Clip(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func TestPrefix_SplitsNoCharacter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "text"), rapid.IntRange(1, 20).Draw(t, "length")
		if c := Clip(s, n); !utf8.ValidString(c) || utf8.RuneCountInString(c) > n {
			t.Fatalf("Clip(%q, %d) = %q", s, n, c)
		}
		if p := Prefix(s, n); !utf8.ValidString(p) || len(p) > n || s[:len(p)] != p || len(s) > len(p) && len(p)+utf8.UTFMax <= n {
			t.Fatalf("Prefix(%q, %d) = %q", s, n, p)
		}
	})
}

func TestCut(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc...", "aäb": "aä...", "abä": "ab..."} {
		if got := Cut(in, 3); got != want {
			t.Errorf("Cut(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSpelled(t *testing.T) {
	for in, want := range map[string]string{
		"ls -l \\ é 日 👍": "ls -l \\ é 日 👍", "a\u202eb\u2066": `a\u202eb\u2066`, "a\u200bb\u2060c\ufeff": `a\u200bb\u2060c\ufeff`,
		"a\U000e0041": `a\U000e0041`, "a\nb\tc\r": `a\u000ab\u0009c\u000d`, "a\u00a0b\u3000\u2800": `a\u00a0b\u3000\u2800`, "\x1b[2K": `\u001b[2K`,
	} {
		if got := EscapeInvisible(in); got != want {
			t.Errorf("Spelled(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	if got := OneLine("  a\n\tb  c "); got != "a b c" {
		t.Errorf("Line = %q", got)
	}
}

func TestCount(t *testing.T) {
	if got := Counted(0, "peer") + ", " + Counted(1, "peer") + ", " + Counted(2, "round trip"); got != "0 peers, 1 peer, 2 round trips" {
		t.Errorf("Count: %s", got)
	}
}

// TestCleanName_HasNothingInvisible covers characters that would make two names look
// alike. A text keeps what makes up its emoji and scripts.
func TestCleanName_HasNothingInvisible(t *testing.T) {
	for what, r := range map[string]rune{
		"control": '\a', "C1": '\u0085', "line separator": '\u2028', "override": '\u202e', "isolate": '\u2066', "Arabic mark": '\u061c',
		"zero-width space": '\u200b', "non-joiner": '\u200c', "joiner": '\u200d', "word joiner": '\u2060', "byte order mark": '\ufeff', "soft hyphen": '\u00ad',
		"invisible plus": '\u2064', "tag": '\U000e0041', "grapheme joiner": '\u034f', "Hangul filler": '\u3164', "halfwidth filler": '\uffa0',
		"Khmer vowel": '\u17b4', "Mongolian selector": '\u180b', "variation selector": '\ufe0f', "another selector": '\U000e0100', "annotation": '\ufff9', "replacement": '\ufffd',
		"no-break space": '\u00a0', "em space": '\u2003', "narrow no-break space": '\u202f', "ideographic space": '\u3000', "Ogham space": '\u1680',
		"mathematical space": '\u205f', "empty Braille": '\u2800', "Egyptian blank": '\U00013441', "null notehead": '\U0001d159',
	} {
		if name := "agent:bo" + string(r) + "ss"; IsCleanName(name) || IsCleanName([]byte(name)) {
			t.Errorf("%s: %q may be a name", what, name)
		}
	}
	for _, name := range []string{"", "agent:boss", "tg:-100.7", "agent:Jörg", "agent:日本", "room:👍", "a b", "agent:нина", "agent:नीना"} {
		if !IsCleanName(name) {
			t.Errorf("%q may not be a name", name)
		}
	}
	for _, line := range []string{"Bild\u202f3.png", "Combien\u00a0?", "会議\u3000一.txt"} {
		if !IsCleanLine(line) || IsCleanName(line) {
			t.Errorf("%q: a clean line, and no clean name", line)
		}
	}
	if got := CleanName("Ада\u200b 👩\u200d👧\u00a0Б\u2800\xff"); got != "Ада 👩👧 Б " || !IsCleanName(got) {
		t.Errorf("CleanName: %q", got)
	}
	for _, r := range "👩\u200d👩\u200d👧 ❤\ufe0f می\u200cخواهم\u00ad" {
		if IsControl(r) {
			t.Errorf("%U is hidden from a text", r)
		}
	}
}

func TestFence(t *testing.T) {
	for s, want := range map[string]int{
		"": 3, "a": 3, "``": 3, "```": 4, "a``b```": 4, "`````a````": 6, strings.Repeat("`a", 50): 3, strings.Repeat("`", 1000): 1001,
	} {
		if got := Fence(s); got != strings.Repeat("`", want) {
			t.Errorf("the fence of %.20q is %.20q", s, got)
		}
	}
}
