package grant

import (
	"cmp"
	"fmt"
)

// A Bound is how much of something may be used with one credential; 0 means the bus's
// default.
type Bound int64

// UnmarshalTOML reads a bound, which must let something through.
func (b *Bound) UnmarshalTOML(value any) error {
	n, ok := value.(int64)
	if !ok || n < 1 {
		return fmt.Errorf("a bound of a credential must be a number of at least 1, not %v", value)
	}
	*b = Bound(n)
	return nil
}

// Bounds are how much the holders of one credential, and of those that it has issued, may
// use together, on each bus.
type Bounds struct {
	Sessions      Bound `toml:"credential-sessions,omitzero" json:"credential-sessions,omitempty"`           // at once
	Subscriptions Bound `toml:"credential-subscriptions,omitzero" json:"credential-subscriptions,omitempty"` // at once
	Messages      Bound `toml:"credential-messages,omitzero" json:"credential-messages,omitempty"`           // a second
	Bytes         Bound `toml:"credential-bytes,omitzero" json:"credential-bytes,omitempty"`                 // of messages, a second
	LogBytes      Bound `toml:"credential-log-bytes,omitzero" json:"credential-log-bytes,omitempty"`         // of the activity log, a day
}

func (b *Bounds) all() [5]*Bound {
	return [...]*Bound{&b.Sessions, &b.Subscriptions, &b.Messages, &b.Bytes, &b.LogBytes}
}

// Or returns the bounds with those that are not set taken from others.
func (b Bounds) Or(others Bounds) Bounds {
	for i, bound := range b.all() {
		*bound = cmp.Or(*bound, *others.all()[i])
	}
	return b
}

// Within returns the bounds of a credential whose issuer has the bounds limit: none is
// above it. What is not set stays so if the bus's default lies within the limit.
func (b Bounds) Within(limit, defaults Bounds) Bounds {
	for i, bound := range b.all() {
		most, usual := *limit.all()[i], *defaults.all()[i]
		if *bound > most || *bound == 0 && usual > most {
			*bound = most
		}
	}
	return b
}

// check returns nil if the bounds are valid, or what is wrong with them.
func (b Bounds) check() error {
	for _, bound := range b.all() {
		if *bound < 0 {
			return fmt.Errorf("a bound of a credential must be at least 1, not %d", *bound)
		}
	}
	return nil
}
