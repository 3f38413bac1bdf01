package traffic

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSub_ReportsUnreachableBus checks the report: silence would look as if nothing
// happened on the bus.
func TestSub_ReportsUnreachableBus(t *testing.T) {
	var said strings.Builder
	a := &connectionReporter{w: &said}
	nobody := "ws://127.0.0.1:1"
	if err := a.checkReachable(t.Context(), []string{nobody}, ""); err != nil || !strings.Contains(said.String(), "no bus answers at "+nobody) || !strings.HasSuffix(said.String(), "; waiting for it\n") {
		t.Errorf("%v; it says %q", err, said.String())
	}
	said.Reset()
	a.dropped(errors.New("again"))
	if said.String() != "" {
		t.Errorf("it says so once more: %q", said.String())
	}
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer closed.Close()
	err := a.checkReachable(t.Context(), []string{nobody, strings.Replace(closed.URL, "http:", "ws:", 1)}, "")
	if err == nil || !strings.Contains(err.Error(), "requires a token") {
		t.Errorf("where a token is missing: %v", err)
	}
}
