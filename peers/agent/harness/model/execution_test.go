package model

import (
	"strings"
	"testing"
)

// TestAddUsage checks that the API's own counts are used, even if it reports only one of the two.
// Without a count, four bytes are a token.
func TestAddUsage(t *testing.T) {
	r := &execution{}
	for _, usage := range []reply{{InputTokens: 100, OutputTokens: 7}, {InputTokens: 10}, {OutputTokens: 1}, {InputTokens: 1, OutputTokens: 1}} {
		usage.Text = strings.Repeat("x", 4000)
		r.addUsage(&request{}, &usage)
	}
	if r.usage.InputTokens != 111 || r.usage.OutputTokens != 9 {
		t.Errorf("usage %+v, want 111 and 9", r.usage)
	}
	before := r.usage
	r.addUsage(&request{System: strings.Repeat("x", 4000)}, &reply{Text: strings.Repeat("x", 400)})
	if in, out := r.usage.InputTokens-before.InputTokens, r.usage.OutputTokens-before.OutputTokens; in < 1000 || in > 1200 || out != 100 {
		t.Errorf("a request of 4000 bytes with an answer of 400 counts as %d and %d", in, out)
	}
}
