package harnesstest

import (
	"testing"
	"time"
)

// Until asks a condition every few milliseconds until it holds, or until the
// test's own deadline is near. It is for what another program does; the
// test's own goroutines tell over channels.
func Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, bounded := t.Deadline()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if bounded && time.Until(deadline) < 5*time.Second {
			t.Fatalf("waited in vain: %s", what)
		}
		<-tick.C
	}
}
