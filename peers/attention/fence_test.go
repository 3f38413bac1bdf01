package attention_test

import (
	"crypto/rand"
	"testing"

	"hubbub/peers/attention"
)

// TestFence_IsRecognized cuts the fence in many ways, and checks that no other text counts as
// one.
func TestFence_IsRecognized(t *testing.T) {
	fence := attention.Fence(rand.Text())
	if other := attention.Fence(rand.Text()); len(fence) != 16 || other == fence {
		t.Fatalf("drawn: %q and %q", fence, other)
	}
	changed := []byte(fence)
	if changed[0]++; changed[0] > 'Z' || changed[0] < 'A' {
		changed[0] = 'A'
	}
	for text, want := range map[string]string{
		fence:                           "",
		fence + ">":                     "",
		fence + ">>":                    "",
		"<<" + fence:                    "",
		" <" + fence + "xx \n":          "",
		"A\n" + fence:                   "A",
		"A\n" + fence + "\nB":           "A\nB",
		"<<" + fence + "\nA\n" + fence:  "A",
		"```\n" + fence + "\nA\n```":    "```\nA\n```",
		fence + " is a word":            fence + " is a word",
		"your code: " + fence:           "your code: " + fence,
		"So: <<" + fence + "\nA":        "So: \nA",
		"It is 4 " + fence + ">>":       "It is 4",
		string(changed):                 string(changed),
		"A\n" + string(changed) + "\nB": "A\n" + string(changed) + "\nB",
		fence[:15]:                      fence[:15],
		"<<":                            "",
		" >>\n":                         "",
		"```":                           "",
		"````\n":                        "",
		"``":                            "``",
		"<":                             "<",
		"``` ```":                       "``` ```",
		"a << b":                        "a << b",
	} {
		got := attention.VisibleText(text)
		if got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if again := attention.VisibleText(got); again != got {
			t.Errorf("%q became %q, and that %q", text, got, again)
		}
	}
}
