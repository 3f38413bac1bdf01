package bus

import (
	"math/bits"
	"sync/atomic"
	"time"

	"hubbub/protocol"
)

// batchCounters are the counts of one goroutine until it waits. Adding them to the shared metrics
// for each message would cost too much, because the processors would compete for the same cache
// lines.
type batchCounters struct {
	frames   uint64
	accepted uint64
	finished uint64
	outcomes [len(outcomes)]uint64
	latency  [len(histogram{}.buckets)]uint64
	touched  uint32 // a bit for each bucket of latency that is not 0
	sum      time.Duration
}

func (c *batchCounters) countOutcome(o protocol.Outcome) {
	for i := range outcomes {
		if outcomes[i] == o {
			c.outcomes[i]++
			return
		}
	}
}

func (c *batchCounters) observeLatency(d time.Duration) {
	i := bucketOf(d)
	c.latency[i]++
	c.touched |= 1 << i
	c.sum += d
}

// addTo adds the counts to the metrics and sets them to 0.
func (c *batchCounters) addTo(m *metrics) {
	move(&c.frames, &m.frames)
	move(&c.accepted, &m.accepted)
	move(&c.finished, &m.finished)
	for i := range c.outcomes {
		move(&c.outcomes[i], &m.outcomes[i])
	}
	if c.touched == 0 {
		return
	}
	for ; c.touched != 0; c.touched &= c.touched - 1 {
		i := bits.TrailingZeros32(c.touched)
		move(&c.latency[i], &m.latency.buckets[i])
	}
	m.latency.sum.Add(uint64(c.sum))
	c.sum = 0
}

func move(from *uint64, to *atomic.Uint64) {
	if *from > 0 {
		to.Add(*from)
		*from = 0
	}
}
