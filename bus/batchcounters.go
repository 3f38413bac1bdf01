package bus

import (
	"math/bits"
	"sync/atomic"
	"time"

	"hubbub/protocol"
)

// A batchCounters holds the counts of one goroutine until it waits. The metrics are shared by
// all readers: every addition takes the cache line away from the other processors,
// which would cost too much for each single message.
type batchCounters struct {
	frames   uint64
	accepted uint64
	finished uint64
	outcomes [len(outcomes)]uint64
	latency  [len(histogram{}.buckets)]uint64
	touched  uint32 // a bit for each bucket of latency that is not 0
	sum      time.Duration
}

func (t *batchCounters) countOutcome(o protocol.Outcome) {
	for i := range outcomes {
		if outcomes[i] == o {
			t.outcomes[i]++
			return
		}
	}
}

func (t *batchCounters) observeLatency(d time.Duration) {
	i := bucketOf(d)
	t.latency[i]++
	t.touched |= 1 << i
	t.sum += d
}

// addTo adds the counts to the metrics and sets them to 0.
func (t *batchCounters) addTo(m *metrics) {
	move(&t.frames, &m.frames)
	move(&t.accepted, &m.accepted)
	move(&t.finished, &m.finished)
	for i := range t.outcomes {
		move(&t.outcomes[i], &m.outcomes[i])
	}
	if t.touched == 0 {
		return
	}
	for ; t.touched != 0; t.touched &= t.touched - 1 {
		i := bits.TrailingZeros32(t.touched)
		move(&t.latency[i], &m.latency.buckets[i])
	}
	m.latency.sum.Add(uint64(t.sum))
	t.sum = 0
}

func move(from *uint64, to *atomic.Uint64) {
	if *from > 0 {
		to.Add(*from)
		*from = 0
	}
}
