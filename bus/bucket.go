package bus

import (
	"time"

	"hubbub/bus/grant"
)

// A bucket limits how much of something may be used over time. Taking more than it holds puts it
// in debt. Times passed to it must not decrease. The caller's lock guards all buckets of one
// charge: a rate.Limiter, with its own lock and without debt, would make a charge five times as
// slow.
type bucket struct {
	size, perSecond float64
	held            float64 // as of at; negative in debt
	at              time.Time
}

// resize changes the size of the bucket and its gain per second. What was used stays used.
func (b *bucket) resize(at time.Time, size, perSecond float64) {
	used := b.size - b.holds(at)
	*b = bucket{size: size, perSecond: perSecond, held: size - used, at: at}
}

// holds returns what the bucket holds, which is negative if it is in debt.
func (b *bucket) holds(at time.Time) float64 {
	if since := at.Sub(b.at); since > 0 {
		b.held, b.at = min(b.size, b.held+b.perSecond*since.Seconds()), at
	}
	return b.held
}

// take takes n from the bucket, even if it holds less.
func (b *bucket) take(at time.Time, n int) { b.held = b.holds(at) - float64(n) }

// untilPaid returns how long the bucket will be in debt, at most an hour.
func (b *bucket) untilPaid(at time.Time) time.Duration {
	debt := -b.holds(at)
	if debt <= 0 {
		return 0
	}
	return time.Duration(min(debt/b.perSecond, time.Hour.Seconds()) * float64(time.Second))
}

// used returns how much of a limit is in use.
func (b *bucket) used(at time.Time, limit grant.Limit) float64 {
	return (1 - b.holds(at)/b.size) * float64(limit)
}
