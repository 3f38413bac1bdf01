package bus

import (
	"math"
	"time"

	"hubbub/bus/grant"

	"golang.org/x/time/rate"
)

// A bucket limits how much of something may be used over time. In contrast to a plain
// rate.Limiter, taking more than it holds puts it in debt. Its times must not go back.
type bucket struct{ *rate.Limiter }

// resize changes what a full bucket holds, and how much it gains each second. What was
// used of the old bucket counts as used of the new one.
func (b *bucket) resize(at time.Time, size, perSecond float64) {
	old := b.Limiter
	b.Limiter = rate.NewLimiter(rate.Limit(perSecond), int(min(size, math.MaxInt/2)))
	if old != nil {
		b.take(at, int(float64(old.Burst())-old.TokensAt(at)))
	}
}

// take takes n from the bucket, even if it holds less.
func (b *bucket) take(at time.Time, n int) {
	if b.AllowN(at, n) {
		return
	}
	if size := b.Burst(); n > size {
		b.SetBurstAt(at, n) // a limiter gives out at most its burst at once
		defer b.SetBurstAt(at, size)
	}
	b.ReserveN(at, n)
}

// used returns how much of a limit is in use.
func (b *bucket) used(at time.Time, limit grant.Limit) float64 {
	return (1 - b.TokensAt(at)/float64(b.Burst())) * float64(limit)
}
