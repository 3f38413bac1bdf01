package bus

const (
	lullLook   = 10   // sweeps from one look to the next: a second
	lullPause  = 5    // looks from one lull to the next, at least
	lullFrames = 100  // so few from one look to the next are no traffic
	lullAfter  = 1000 // frames that must have come before
)

// A lull is noticed when hardly any frames come any more, after at least
// lullAfter of them: then the garbage of the traffic, or of many new
// connections, can be given back to the system.
type lull struct {
	seen  uint64 // frames until the last look
	ended uint64 // frames until the last lull
	looks int    // since the last lull
}

// begins looks at the number of frames until now and reports whether a lull has
// begun.
func (l *lull) begins(frames uint64) bool {
	quiet := frames-l.seen < lullFrames
	l.seen = frames
	l.looks++
	if !quiet || l.looks < lullPause || frames-l.ended < lullAfter {
		return false
	}
	l.ended, l.looks = frames, 0
	return true
}
