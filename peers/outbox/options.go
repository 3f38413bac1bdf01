package outbox

import (
	"math/rand/v2"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/defaults"
)

const (
	maxName  = 512  // bytes of a destination or a key
	maxError = 1024 // bytes of a stored error text
)

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Positive(&d.MinBackoff, time.Second)
	defaults.Positive(&d.MaxBackoff, time.Minute)
	d.MaxBackoff = max(d.MaxBackoff, d.MinBackoff)
	defaults.Positive(&d.MaxAge, 24*time.Hour)
	defaults.Positive(&d.MaxPending, 10_000)
	defaults.Positive(&d.MaxPerDestination, max(1, d.MaxPending/4))
	defaults.Positive(&d.MaxBody, 4<<20)
	defaults.Positive(&d.Parallel, 16)
	defaults.Positive(&d.AttemptTimeout, 2*time.Minute)
	defaults.Positive(&d.StopTimeout, 5*time.Second)
	defaults.Positive(&d.Poll, 5*time.Second)
	defaults.Positive(&d.Retention, 7*24*time.Hour)
	defaults.Positive(&d.DeadRetention, 30*24*time.Hour)
	defaults.Set(&d.OnSettled, func(*store.Tx, Item, State, error) {})
	defaults.Set(&d.AfterSettled, func(Item, State, error) {})
	defaults.Set(&d.Now, time.Now)
	defaults.Set(&d.Jitter, rand.Float64)
	defaults.Log(&d.Log)
	return d
}
