package agent

// CrashWith has f called at each step after which a crash must lose and double
// nothing: stored, started, acted, returned.
func (o *Options) CrashWith(f func(step string)) { o.crash = f }
