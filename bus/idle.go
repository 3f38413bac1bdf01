package bus

const (
	idleCheckSweeps = 10       // sweeps between two checks: 1 s
	idleMinChecks   = 5        // checks between two idle periods
	idleMaxFrames   = 100      // frames between two checks; more are traffic
	idleMinFrames   = 1000     // frames between two idle periods
	idleMinBytes    = 64 << 20 // bytes that waited for slow peers; as many count as traffic
)

// An idleDetector detects the end of traffic, so that a program can return the memory that the
// traffic used. Traffic is at least idleMinFrames frames, or at least idleMinBytes bytes that
// waited for slow peers. It ends when hardly any frames arrive.
type idleDetector struct {
	frames     uint64 // at the last check
	lastIdle   uint64 // frames at the start of the last idle period
	checks     int    // since then
	maxWaiting int64  // most bytes waiting since then
}

// becameIdle checks the number of frames read so far and the bytes that wait for slow peers.
// It reports whether an idle period begins.
func (d *idleDetector) becameIdle(frames uint64, waiting int64) bool {
	quiet := frames-d.frames < idleMaxFrames
	d.frames = frames
	d.checks++
	d.maxWaiting = max(d.maxWaiting, waiting)
	traffic := frames-d.lastIdle >= idleMinFrames || d.maxWaiting >= idleMinBytes && waiting < idleMinBytes
	if !quiet || d.checks < idleMinChecks || !traffic {
		return false
	}
	*d = idleDetector{frames: frames, lastIdle: frames, maxWaiting: waiting}
	return true
}
