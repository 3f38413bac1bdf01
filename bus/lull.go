package bus

const (
	lullLook   = 10   // sweeps from one look to the next: 1 s
	lullPause  = 5    // least number of looks from one lull to the next
	lullFrames = 100  // fewer frames than this from one look to the next are no traffic
	lullAfter  = 1000 // least number of frames from one lull to the next

	lullBytes = 64 << 20 // that waited for slow peers count as much
)

// A lull detects the end of traffic: hardly any frames arrive, after at least
// lullAfter of them, or after lullBytes have waited for peers that are gone, or have them.
// Then the memory that the traffic, or many new connections, used
// can be returned to the system.
type lull struct {
	seen  uint64 // frames until the last look
	ended uint64 // frames until the last lull
	looks int    // since the last lull
	slow  int64  // most bytes that waited since then
}

// begins takes the number of frames read so far, and how many bytes wait for slow peers. It
// reports whether a lull begins.
func (l *lull) begins(frames uint64, waiting int64) bool {
	quiet := frames-l.seen < lullFrames
	l.seen = frames
	l.looks++
	l.slow = max(l.slow, waiting)
	enough := frames-l.ended >= lullAfter || l.slow >= lullBytes && waiting < lullBytes
	if !quiet || l.looks < lullPause || !enough {
		return false
	}
	l.ended, l.looks, l.slow = frames, 0, waiting
	return true
}
