package protocol_test

import (
	"strings"
	"testing"

	"hubbub/protocol"
)

func TestDerivedToken_IsForOneAddress(t *testing.T) {
	here, there := protocol.NewDerivedToken("secret", "http://a/x"), protocol.NewDerivedToken("secret", "http://a/y")
	if here == there || protocol.DerivedTokenName(here) == "" || protocol.DerivedTokenName(here) != protocol.DerivedTokenName(there) {
		t.Errorf("one token has the passes %s and %s", here, there)
	}
	if protocol.DerivedTokenName(here) == protocol.DerivedTokenName(protocol.NewDerivedToken("other", "http://a/x")) || strings.Contains(here, "secret") {
		t.Errorf("the pass is %s", here)
	}
	for _, none := range []string{"", "secret", here[1:], here + "0"} {
		if got := protocol.DerivedTokenName(none); got != "" {
			t.Errorf("%q has the name %q", none, got)
		}
	}
}
