package protocol_test

import (
	"strings"
	"testing"

	"hubbub/protocol"
)

func TestAPassIsForOneAddress(t *testing.T) {
	here, there := protocol.NewPass("secret", "http://a/x"), protocol.NewPass("secret", "http://a/y")
	if here == there || protocol.PassName(here) == "" || protocol.PassName(here) != protocol.PassName(there) {
		t.Errorf("one token has the passes %s and %s", here, there)
	}
	if protocol.PassName(here) == protocol.PassName(protocol.NewPass("other", "http://a/x")) || strings.Contains(here, "secret") {
		t.Errorf("the pass is %s", here)
	}
	for _, none := range []string{"", "secret", here[1:], here + "0"} {
		if got := protocol.PassName(none); got != "" {
			t.Errorf("%q has the name %q", none, got)
		}
	}
}
