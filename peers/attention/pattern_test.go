package attention

import "testing"

// TestPatterns_Compile compiles every pattern of the tables, since one that is not valid panics
// only when a text needs it.
func TestPatterns_Compile(t *testing.T) {
	for _, k := range kinds {
		k.opens()
		if k.closes != nil {
			k.closes()
		}
	}
	for _, closeTag := range closeTags {
		closeTag()
	}
}
