package bus

const (
	lullLook   = 10   // sweeps from one look to the next: 1 s
	lullPause  = 5    // least number of looks from one lull to the next
	lullFrames = 100  // fewer frames than this from one look to the next are no traffic
	lullAfter  = 1000 // least number of frames from one lull to the next
)

// A lull detects the end of traffic: hardly any frames arrive, after at least
// lullAfter of them. Then the memory that the traffic, or many new connections, used
// can be returned to the system.
type lull struct {
	seen  uint64 // frames until the last look
	ended uint64 // frames until the last lull
	looks int    // since the last lull
}

// begins takes the number of frames read so far and reports whether a lull begins.
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
