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
	d.MaxBackoff = max(d.MaxBackoff, d.MinBackoff)
	defaults.Positive(&d.MaxPerDestination, max(1, d.MaxPending/4))
	defaults.Set(&d.OnSettled, func(*store.Tx, Item, State, error) {})
	defaults.Set(&d.AfterSettled, func(Item, State, error) {})
	defaults.Set(&d.Now, time.Now)
	defaults.Set(&d.Jitter, rand.Float64)
	defaults.Log(&d.Log)
	return d
}
