package bus

import (
	"reflect"
	"testing"
	"time"

	"hubbub/protocol"
)

// TestBatchCounters_AreAddedOnce adds two batchCounters, each twice.
func TestBatchCounters_AreAddedOnce(t *testing.T) {
	srv := New(nil, nil)
	for range 2 {
		var c batchCounters
		c.frames, c.accepted, c.finished = 5, 2, 2
		c.countOutcome(protocol.OutcomeOK)
		c.countOutcome(protocol.OutcomeTimeout)
		c.observeLatency(firstBucket)
		c.observeLatency(firstBucket + 1)
		c.observeLatency(24 * time.Hour)
		c.addTo(&srv.metrics)
		c.addTo(&srv.metrics)
		if c != (batchCounters{}) {
			t.Errorf("once it is moved, the counters hold %+v", c)
		}
	}
	s := srv.Counters()
	if s.Frames != 10 || s.Accepted != 4 || s.Finished != 4 {
		t.Errorf("%d frames, %d accepted, %d finished; want 10, 4, 4", s.Frames, s.Accepted, s.Finished)
	}
	counted := map[string]uint64{}
	for o, n := range s.Deliveries {
		if n > 0 {
			counted[o] = n
		}
	}
	if want := map[string]uint64{"ok": 2, "timeout": 2}; !reflect.DeepEqual(counted, want) {
		t.Errorf("deliveries %v; want %v", counted, want)
	}
	for i, b := range s.Latency {
		want := uint64(0)
		if i < 2 || i == len(s.Latency)-1 {
			want = 2
		}
		if b.Count != want {
			t.Errorf("bucket %d (up to %s) counts %d; want %d", i, b.Upper, b.Count, want)
		}
	}
	if want := 2 * (2*firstBucket + 1 + 24*time.Hour); s.LatencySum != want {
		t.Errorf("the sum is %s; want %s", s.LatencySum, want)
	}
}
