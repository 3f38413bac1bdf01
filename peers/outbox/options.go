package outbox

import (
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
)

const (
	maxName  = 512  // bytes of a destination or a key
	maxError = 1024 // bytes of a stored error text
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	positive(&d.MinBackoff, time.Second)
	positive(&d.MaxBackoff, time.Minute)
	d.MaxBackoff = max(d.MaxBackoff, d.MinBackoff)
	positive(&d.MaxAge, 24*time.Hour)
	positive(&d.MaxPending, 10_000)
	positive(&d.MaxPerDestination, max(1, d.MaxPending/4))
	positive(&d.MaxBody, 4<<20)
	positive(&d.Parallel, 16)
	positive(&d.AttemptTimeout, 2*time.Minute)
	positive(&d.StopTimeout, 5*time.Second)
	positive(&d.Poll, 5*time.Second)
	positive(&d.Retention, 7*24*time.Hour)
	positive(&d.DeadRetention, 30*24*time.Hour)
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Jitter == nil {
		d.Jitter = rand.Float64
	}
	if d.Log == nil {
		nop := zerolog.Nop()
		d.Log = &nop
	}
	return d
}

// positive sets a setting that is not positive to its default.
func positive[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
