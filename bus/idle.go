package bus

const (
	idleCheckSweeps = 10   // sweeps from one look to the next: 1 s
	idleMinChecks   = 5    // least number of looks from one lull to the next
	idleMaxFrames   = 100  // fewer frames than this from one look to the next are no traffic
	idleMinFrames   = 1000 // least number of frames from one lull to the next

	idleMinBytes = 64 << 20 // that waited for slow peers count as much
)

// A idleDetector detects the end of traffic: hardly any frames arrive, after at least
// idleMinFrames of them, or after idleMinBytes have waited for peers that are gone, or have them.
// Then the memory that the traffic, or many new connections, used
// can be returned to the system.
type idleDetector struct {
	frames     uint64 // frames until the last look
	lastIdle   uint64 // frames until the last lull
	checks     int    // since the last lull
	maxWaiting int64  // most bytes that waited since then
}

// becameIdle takes the number of frames read so far, and how many bytes wait for slow peers. It
// reports whether a lull begins.
func (l *idleDetector) becameIdle(frames uint64, waiting int64) bool {
	quiet := frames-l.frames < idleMaxFrames
	l.frames = frames
	l.checks++
	l.maxWaiting = max(l.maxWaiting, waiting)
	enough := frames-l.lastIdle >= idleMinFrames || l.maxWaiting >= idleMinBytes && waiting < idleMinBytes
	if !quiet || l.checks < idleMinChecks || !enough {
		return false
	}
	l.lastIdle, l.checks, l.maxWaiting = frames, 0, waiting
	return true
}
