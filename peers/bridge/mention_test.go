package bridge_test

import (
	"fmt"
	"strings"
	"testing"

	"hubbub/peers/bridge"
)

func TestMentionedNames_AreLimited(t *testing.T) {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "@a @a%d ", i)
	}
	silent := func(at int) bool { return at < 7 }
	if got := bridge.MentionedNames(text.String(), silent); len(got) != 100 || got[0] != "a" || got[99] != "a99" {
		t.Errorf("it mentions %d: %v", len(got), got)
	}
}
