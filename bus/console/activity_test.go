package console

import (
	"net/url"
	"testing"
)

// TestActivityView_ExplainsEmptyList checks that an empty page says whether nothing matches,
// nothing was written yet, or something is wrong.
func TestActivityView_ExplainsEmptyList(t *testing.T) {
	for want, v := range map[string]activityView{
		"Nothing is recorded yet. Rows appear here as soon as something happens.": {},
		"No rows match.":                {Query: url.Values{"topic": {"tg:*"}}},
		"There are no older rows.":      {Query: url.Values{"topic": {"tg:*"}}, Paged: true},
		"No rows: the topic is broken.": {Query: url.Values{"topic": {"tg:*"}}, Problem: "the topic is broken"},
	} {
		if got := v.Empty(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
