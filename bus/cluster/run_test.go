package cluster

import "testing"

// TestTwoRunsOfABusNumberTheirMessagesApart has a bus that was started anew: an
// outcome on its way to the run before must find nothing that waits for it.
func TestTwoRunsOfABusNumberTheirMessagesApart(t *testing.T) {
	before, now := New(nil, "east", nil), New(nil, "east", nil)
	apart := max(before.nextID, now.nextID) - min(before.nextID, now.nextID)
	if apart < 1<<20 { // by chance once in 2^42 runs
		t.Errorf("the runs number from %d and from %d", before.nextID, now.nextID)
	}
}
