package agent

import "hubbub/peers/outbox"

// CrashWith has f called at each step after which a crash must lose and double
// nothing: stored, started, acted, returned.
func (o *Options) CrashWith(f func(step string)) { o.crash = f }

// FirstSchema is that of databases before deferred events came back.
func FirstSchema() []string { return []string{schema + outbox.Schema} }
