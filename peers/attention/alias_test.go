package attention_test

import (
	"strings"
	"testing"

	"hubbub/peers/attention"
)

// TestCheckAlias checks which names may be aliases.
func TestCheckAlias(t *testing.T) {
	for name, ok := range map[string]bool{
		"timber": true, "Timber": true, "Vær": true, "build_bot-2": true, "東京": true, "7": true,
		"": false, "@timber": false, "two words": false, "a.b": false, "a:b": false, "a#b": false, "a?": false, "a/b": false, "-": false, "__": false,
		"tim\u200bber": false, "tim\nber": false, "all": false, "Everyone": false, strings.Repeat("a", 256): true, strings.Repeat("a", 257): false,
	} {
		if err := attention.CheckAlias(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
