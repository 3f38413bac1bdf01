package grant

import (
	"cmp"
	"fmt"
)

// A Limit is how much of something may be used with one credential; 0 means the bus's
// default.
type Limit int64

// UnmarshalTOML reads a bound, which must let something through.
func (b *Limit) UnmarshalTOML(value any) error {
	n, ok := value.(int64)
	if !ok || n < 1 {
		return fmt.Errorf("a bound of a credential must be a number of at least 1, not %v", value)
	}
	*b = Limit(n)
	return nil
}

// Limits are how much the holders of one credential, and of those that it has issued, may
// use together, on each bus.
type Limits struct {
	Sessions      Limit `toml:"credential-sessions,omitzero" json:"credential-sessions,omitempty"`           // at once
	Subscriptions Limit `toml:"credential-subscriptions,omitzero" json:"credential-subscriptions,omitempty"` // at once
	Messages      Limit `toml:"credential-messages,omitzero" json:"credential-messages,omitempty"`           // a second
	Bytes         Limit `toml:"credential-bytes,omitzero" json:"credential-bytes,omitempty"`                 // of messages, a second
	LogBytes      Limit `toml:"credential-log-bytes,omitzero" json:"credential-log-bytes,omitempty"`         // of the activity log, a day
}

func (b *Limits) all() [5]*Limit {
	return [...]*Limit{&b.Sessions, &b.Subscriptions, &b.Messages, &b.Bytes, &b.LogBytes}
}

// WithDefaults returns the bounds with those that are not set taken from others.
func (b Limits) WithDefaults(others Limits) Limits {
	for i, bound := range b.all() {
		*bound = cmp.Or(*bound, *others.all()[i])
	}
	return b
}

// CappedAt returns the bounds of a credential whose issuer has the bounds limit: none is
// above it. What is not set stays so if the bus's default lies within the limit.
func (b Limits) CappedAt(limit, defaults Limits) Limits {
	for i, bound := range b.all() {
		most, usual := *limit.all()[i], *defaults.all()[i]
		if *bound > most || *bound == 0 && usual > most {
			*bound = most
		}
	}
	return b
}

// check returns nil if the bounds are valid, or what is wrong with them.
func (b Limits) check() error {
	for _, bound := range b.all() {
		if *bound < 0 {
			return fmt.Errorf("a bound of a credential must be at least 1, not %d", *bound)
		}
	}
	return nil
}
