package activitylog

import (
	"slices"
	"time"
)

// A tail is the end of one log, as far as it was read.
type tail struct {
	last     time.Time // of its last row
	open     int       // sessions that were connected and not disconnected
	pruned   bool      // its first rows are gone: more sessions may be open
	doubtful []*Pass   // its next row tells whether they were cut by a kill of this bus
}

// inUse reports whether sessions may be open: a bus that was stopped has ended them.
func (t *tail) inUse() bool { return t.open > 0 || t.pruned }

// A silence is a time in which a log has no rows, and after which a peer connects
// though sessions were open before, or there was no row before: the bus may have
// been killed then, and started again.
type silence struct {
	log      int
	from, to time.Time
}

// killReach is how far the last row that a killed bus has written may lie behind
// the first that it has not, or before it: rows of one moment are written in no
// particular order, and clocks differ.
const killReach = time.Second

// leastSilence is the shortest gap that counts as a restart: no bus is back, with its
// peers, sooner after a kill.
const leastSilence = 20 * time.Millisecond

// maxDoubtful bounds the passes that wait for the next row of one log. Further
// passes count as cut.
const maxDoubtful = 10_000

// follow records where a log falls silent, and judges the passes that waited for its
// next row.
func (c *checker) follow(e *Entry, at time.Time) {
	t := &c.tails[e.Log]
	t.pruned = t.pruned || t.last.IsZero() && e.ID > 1
	switch {
	case e.Is(PeerConnected):
		if t.last.IsZero() || t.inUse() && at.Sub(t.last) >= leastSilence {
			c.silent = append(c.silent, silence{e.Log, t.last, at})
		}
		t.open++
	case e.Is(PeerDisconnected):
		t.open--
	}
	t.last = at
	for len(c.silent) > 0 && c.silent[0].to.Before(at.Add(-2*c.longest)) {
		c.silent = c.silent[1:]
	}
	doubtful := t.doubtful
	t.doubtful = nil
	for _, p := range doubtful {
		c.weighUnlessDoubtful(p)
	}
}

// weighUnlessDoubtful weighs a pass, unless the next row of another log can decide
// the case.
func (c *checker) weighUnlessDoubtful(p *Pass) {
	t := tallyOf(p)
	if t.fault != "" && !c.explained(p) && t.lacks() && !c.restartedElsewhere(p) {
		for log := range c.tails {
			if c.isSilent(log, p) && len(c.tails[log].doubtful) < maxDoubtful {
				c.tails[log].doubtful = append(c.tails[log].doubtful, p)
				return
			}
		}
	}
	c.weigh(t)
}

// isSilent reports whether another log has no rows since the pass, as if
// its bus had been killed.
func (c *checker) isSilent(log int, p *Pass) bool {
	t := &c.tails[log]
	return log != p.log && (t.inUse() || t.last.IsZero()) && !t.last.After(p.seen.Add(killReach))
}

// restartedElsewhere reports whether another bus may have been killed, and was
// started again, while the pass was under way, or has counted lost rows in a gap.
func (c *checker) restartedElsewhere(p *Pass) bool {
	return slices.ContainsFunc(c.silent, func(s silence) bool {
		return s.log != p.log && !s.from.After(p.seen.Add(killReach)) && !s.to.Before(p.began)
	}) || slices.ContainsFunc(c.gaps, func(g gapPlace) bool {
		return g.log != p.log && !g.at.Before(p.began) && g.at.Before(p.seen.Add(c.longest))
	})
}

// lostElsewhere reports whether the rows that a pass lacks may have been lost by
// another bus of the cluster: it was killed before it wrote them, or has
// counted them in a gap.
func (c *checker) lostElsewhere(p *Pass) bool {
	for log := range c.tails {
		if c.isSilent(log, p) {
			return true
		}
	}
	return c.restartedElsewhere(p)
}
