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

// Limits bound how much the holders of one credential, and of those that it has issued, may use
// together on each bus: connections and subscriptions at once, messages and their bytes per
// second, and bytes of the activity log per day.
type Limits struct {
	Sessions      Limit `flag:"credential-sessions" positive:"1000" toml:"credential-sessions,omitzero" json:"credential-sessions,omitempty" usage:"connections of one credential at once, unless credentials.toml says otherwise"`
	Subscriptions Limit `flag:"credential-subscriptions" positive:"10000" toml:"credential-subscriptions,omitzero" json:"credential-subscriptions,omitempty" usage:"subscriptions of all sessions of one credential, unless credentials.toml says otherwise"`
	Messages      Limit `flag:"credential-messages" positive:"20000" toml:"credential-messages,omitzero" json:"credential-messages,omitempty" usage:"messages a second of one credential, twice as many at once, unless credentials.toml says otherwise"`
	Bytes         Limit `flag:"credential-bytes" positive:"64<<20" toml:"credential-bytes,omitzero" json:"credential-bytes,omitempty" usage:"bytes of messages a second of one credential, twice as many at once, unless credentials.toml says otherwise"`
	LogBytes      Limit `flag:"credential-log-bytes" positive:"10<<30" toml:"credential-log-bytes,omitzero" json:"credential-log-bytes,omitempty" usage:"bytes a day that one credential may add to the activity log, unless credentials.toml says otherwise"`
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

// CappedAt returns the limits of a credential whose issuer has the limits most. No returned
// limit exceeds the issuer's. An unset limit stays unset if the default of the bus does not
// exceed the issuer's limit.
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
