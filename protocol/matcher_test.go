package protocol

import (
	"strings"
	"testing"

	"github.com/gobwas/glob"
	"pgregory.net/rapid"
)

// checkAgreement compares the matcher, the walk alone and glob.
func checkAgreement(t interface{ Fatalf(string, ...any) }, pattern, topic string) {
	text := normal(pattern)
	want := glob.MustCompile(text).Match(topic)
	if got := newWalk(text).Match(topic); got != want {
		t.Fatalf("the walk matches %q with %q: %t; glob: %t", topic, pattern, got, want)
	}
	if got := Pattern(pattern).Matcher().Match(topic); got != want {
		t.Fatalf("the matcher matches %q with %q: %t; glob: %t", topic, pattern, got, want)
	}
}

func TestMatcher_AgreesWithGlob(t *testing.T) {
	patterns := rapid.StringOfN(rapid.RuneFrom([]rune("ab:*?é!,-^.")), 1, 12, -1)
	topics := rapid.StringOfN(rapid.RuneFrom([]rune("ab:é!,-^.")), 1, 16, -1)
	rapid.Check(t, func(t *rapid.T) {
		pattern := patterns.Draw(t, "pattern")
		if _, err := ParsePattern(pattern); err != nil {
			t.Skip(err)
		}
		checkAgreement(t, pattern, topics.Draw(t, "topic"))
	})
}

func FuzzMatcher(f *testing.F) {
	for _, pattern := range []string{"tg:1", "tg:?", "tg:*", "*:1", "t*1", "*g*", "*é*", "**", "a*b*c", "*?a?", "!a,-^.*"} {
		f.Add(pattern, "tg:1")
	}
	f.Fuzz(func(t *testing.T, pattern, topic string) {
		if _, err := ParsePattern(pattern); err != nil || CheckTopic(topic) != nil {
			return
		}
		checkAgreement(t, pattern, topic)
	})
}

func TestMatcher_UsesGlobOnlyWhereItIsLinear(t *testing.T) {
	for pattern, want := range map[string]bool{
		"tg:1": true, "tg:???": true, "tg:*": true, "*:1": true, "t*1": true, "*": true, "***": true, "*a*": true, "*a**": true,
		"tg:?*": false, "*?": false, "a*b*": false, "*a*b": false, "*a*b*": false, "*a?*": false,
		strings.Repeat("*a", MaxStars): false,
	} {
		if got := Pattern(pattern).Matcher().glob != nil; got != want {
			t.Errorf("%q uses glob: %t; want %t", pattern, got, want)
		}
	}
}
