package system

// CrashWith calls at for every step between two effects.
func (o *Options) CrashWith(at func(step string)) { o.failpoint = at }
