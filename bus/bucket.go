package bus

import (
	"time"

	"hubbub/bus/grant"
)

// A bucket limits how much of something may be used over time. Taking more than it holds puts it
// in debt. Its times must not go back. The caller guards it, with all that it charges together: a
// rate.Limiter, which has a lock of its own and cannot be in debt, makes a charge five times as slow.
type bucket struct {
	size, perSecond float64
	held            float64 // at the time
	at              time.Time
}

// resize changes what a full bucket holds, and how much it gains each second. What was
// used of the old bucket counts as used of the new one.
func (b *bucket) resize(at time.Time, size, perSecond float64) {
	used := b.size - b.holds(at)
	*b = bucket{size: size, perSecond: perSecond, held: size - used, at: at}
}

// holds returns what the bucket holds: less than 0 if it is in debt.
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
