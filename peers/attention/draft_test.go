package attention_test

import (
	crand "crypto/rand"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"hubbub/peers/attention"
)

// TestDraft_ShowsNothingThatMayBeHidden streams text that may turn out to be a thought, a
// call, a copy of the prompt or silence.
func TestDraft_ShowsNothingThatMayBeHidden(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"Hel":                              "",
		"Hello wor":                        "Hello",
		" Hello there. ":                   "Hello there.",
		"Hello <thi":                       "Hello",
		"a < b and":                        "a",
		"<think>x":                         "",
		"<think>x</think>\nHello there, y": "Hello there,",
		"Hello\n[TOOL_CALLS] x":            "Hello",
		"see [TOOL_CALLS] x":               "see",
		"Hello\nC2A EVENT\nx y":            "Hello",
		"as in C2A EVENT\nx y":             "as in",
		"so " + attention.Fence(crand.Text()) + ">> x":   "so",
		"Hello\n" + attention.Fence(crand.Text()) + " x": "Hello",
		"reason: it rains ":                              "",
		"the reason: it rains ":                          "the reason: it rains",
		"Sure: C2A EVENT\nx ":                            "Sure:",
		"A.\nreason: it rains ":                          "A.",
		"event_id: 1\n\nHello there":                     "",
		"Sure: {\"name\":\"f\" x ":                       "Sure:",
		"a set {a, b} has":                               "a set {a, b}",
		"NO_REPLY ":                                      "",
		"Here is my tho":                                 "",
		"Here is my thought process: x y":                "",
		"Here is my list: x y":                           "Here is my list: x",
		">>>all\nHello ":                                 "",
		"[unused16]x y":                                  "",
		"function call ":                                 "",
	} {
		if got := attention.Draft(text); got != want {
			t.Errorf("of %q %q is shown, want %q", text, got, want)
		}
	}
}

// TestDraft_IsABeginningOfTheAnswer cuts five hundred shapes of answers anywhere. With
// HUBBUB_ALL_SHAPES, as in make walk, it cuts thousands.
func TestDraft_IsABeginningOfTheAnswer(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 3))
	parts := append([]string{"The answer is 4. ", "Here: ", "好", "Say \"<think>\". ", "So it is.\n", "`a < b` ", "- a list\n", "```\ncode\n```\n"}, innerParts...)
	count := 500
	if os.Getenv("HUBBUB_ALL_SHAPES") != "" {
		count = 5000
	}
	for range count {
		var b strings.Builder
		for range r.IntN(5) + 1 {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := b.String()
		answer := strings.TrimSpace(attention.VisibleText(text))
		for at := range text {
			if d := attention.Draft(text[:at]); !strings.HasPrefix(answer, d) {
				t.Fatalf("of %q\n%q was shown; the answer is\n%q", text[:at], d, answer)
			}
		}
	}
}

// TestDraft_NoticesAThoughtWithoutBeginning checks that such a thought is noticed once it ends.
func TestDraft_NoticesAThoughtWithoutBeginning(t *testing.T) {
	if attention.DraftMatches("the user wants four</think>It is 4.") || !attention.DraftMatches("It is 4, as far as I can tell.") {
		t.Error("a thought passes, or an answer does not")
	}
}
