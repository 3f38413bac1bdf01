package console

import (
	"net/url"
	"testing"
)

// TestWhyThereIsNoRow: an empty page says whether nothing matches, nothing was
// written yet, or something is wrong.
func TestWhyThereIsNoRow(t *testing.T) {
	for want, v := range map[string]activityView{
		"Nothing is recorded yet. Rows stand here as soon as something happens.": {},
		"No row matches.":               {Query: url.Values{"topic": {"tg:*"}}},
		"That was the oldest row.":      {Query: url.Values{"topic": {"tg:*"}}, Paged: true},
		"No rows: the topic is broken.": {Query: url.Values{"topic": {"tg:*"}}, Problem: "the topic is broken"},
	} {
		if got := v.Empty(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
