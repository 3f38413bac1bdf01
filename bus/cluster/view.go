package cluster

import (
	"maps"
	"slices"
	"time"
)

// A view is how far this bus knows the others. Each bus tells in every hello which signs of
// life it had of whom. So a hello with one of this bus's own proves that what its sender
// told until then, which comes in order, was told after that sign was sent: whoever was
// subscribed there by then is known here. It also names the buses that its sender knows,
// which this one may not have met yet.
type view struct {
	apart bool                 // nothing comes from NATS, as far as this bus can tell
	known []string             // names of the buses that can be heard
	lost  []string             // names of those that fell silent
	told  map[string]time.Time // of all buses, until when their peers are known here for certain
}

// learn notes what the hello of another bus says; look tells the others.
func (c *Cluster) learn(m *member, body []byte) {
	m.hears = nil
	if !c.decode(m.name, "a sign of life", body, &m.hears) {
		return
	}
	m.told = c.pulse.sent(m.hears[c.name])
}

// look tells the other goroutines what is known of the other buses. One that has heard this
// bus since it was connected has named all that it knows: from then on this one is not apart,
// and those that were named are missing until they are known.
func (c *Cluster) look() {
	v := view{known: slices.Sorted(maps.Keys(c.buses)), lost: slices.Sorted(maps.Keys(c.absent)), told: map[string]time.Time{}}
	for name := range c.absent {
		v.told[name] = time.Time{}
	}
	for name, m := range c.buses {
		if v.told[name] = m.told; m.stale {
			v.told[name] = time.Time{}
		}
		for other := range m.hears {
			if other != c.name && !c.met[other] {
				v.told[other] = time.Time{}
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v.apart = c.view.apart
	for _, m := range c.buses {
		v.apart = v.apart && !m.told.After(c.since)
	}
	c.view = v
	for name := range c.heard {
		if c.buses[name] == nil {
			delete(c.heard, name)
		}
	}
}

// hears returns the last signs of life of the buses that this one has met itself.
func (v *view) hears(heard map[string]uint64) map[string]uint64 {
	all := map[string]uint64{}
	for _, name := range slices.Concat(v.known, v.lost) {
		all[name] = heard[name]
	}
	return all
}

// certainFor is how long what another bus told of its peers counts as what is so now.
func (o *Options) certainFor() time.Duration { return o.SilentAfter + 2*o.Heartbeat }

// missing returns the buses whose peers are not known for certain, and nil if there are none.
// It returns an empty list if there may be buses that are not known at all.
func (v *view) missing(at time.Time, certainFor time.Duration) []string {
	var missing []string
	if v.apart {
		missing = []string{}
	}
	for name, told := range v.told {
		if v.apart || age(at, told) > certainFor {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// unmet reports whether there are buses that this one cannot ask yet, although they may be
// as well as any: it has not met all that others hear, or came apart only just now.
func (v *view) unmet(justNow bool) bool {
	return v.apart && justNow || len(v.told) > len(v.known)+len(v.lost)
}

// settleDown takes a bus that nobody has answered by now for one without others. The caller
// must hold mu.
func settleDown(s *shared, at time.Time, heartbeat time.Duration) {
	if s.connected && at.Sub(s.since) >= 2*heartbeat {
		s.view.apart = false
	}
}
