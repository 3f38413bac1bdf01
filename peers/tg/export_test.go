package tg

// CrashAt sets what is called at the points between receiving, storing, sending
// and acknowledging.
func (b *Bridge) CrashAt(f func(point string)) { b.crash = f }
