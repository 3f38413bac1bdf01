package grant

import (
	"cmp"
	"fmt"
)

// A Limit bounds how much of something a credential may use; 0 means the bus's default.
type Limit int64

// UnmarshalTOML reads a limit, which must be at least 1.
func (l *Limit) UnmarshalTOML(value any) error {
	n, ok := value.(int64)
	if !ok || n < 1 {
		return fmt.Errorf("a limit of a credential must be a number of at least 1, not %v", value)
	}
	*l = Limit(n)
	return nil
}

// Limits bound how much the holders of one credential, and of those that it has issued, may
// use together on each bus: connections and subscriptions at once, messages and their bytes
// a second, and bytes of the activity log a day.
type Limits struct {
	Sessions      Limit `toml:"credential-sessions,omitzero" json:"credential-sessions,omitempty"`
	Subscriptions Limit `toml:"credential-subscriptions,omitzero" json:"credential-subscriptions,omitempty"`
	Messages      Limit `toml:"credential-messages,omitzero" json:"credential-messages,omitempty"`
	Bytes         Limit `toml:"credential-bytes,omitzero" json:"credential-bytes,omitempty"`
	LogBytes      Limit `toml:"credential-log-bytes,omitzero" json:"credential-log-bytes,omitempty"`
}

func (l *Limits) all() [5]*Limit {
	return [...]*Limit{&l.Sessions, &l.Subscriptions, &l.Messages, &l.Bytes, &l.LogBytes}
}

// WithDefaults returns the limits, with those that are not set taken from defaults.
func (l Limits) WithDefaults(defaults Limits) Limits {
	for i, limit := range l.all() {
		*limit = cmp.Or(*limit, *defaults.all()[i])
	}
	return l
}

// CappedAt returns the limits of a credential whose issuer has the limits most: none exceeds
// them. A limit that is not set stays so if the bus's default does not exceed that of the
// issuer.
func (l Limits) CappedAt(most, defaults Limits) Limits {
	for i, limit := range l.all() {
		issuer, usual := *most.all()[i], *defaults.all()[i]
		if *limit > issuer || *limit == 0 && usual > issuer {
			*limit = issuer
		}
	}
	return l
}

// check returns nil if the limits are valid, or what is wrong with them.
func (l Limits) check() error {
	for _, limit := range l.all() {
		if *limit < 0 {
			return fmt.Errorf("a limit of a credential must be at least 1, not %d", *limit)
		}
	}
	return nil
}
