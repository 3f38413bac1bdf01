package cluster

import (
	"maps"
	"slices"
	"time"
)

// A view is what this bus knows about the others. Each hello of a bus lists the last heartbeats
// that it has received. Messages arrive in order, so a hello that lists a heartbeat of this bus
// proves that this bus knows all earlier changes of the sender: all peers that were subscribed
// there when the heartbeat was sent. A hello also names the buses that its sender knows, which
// this bus may not have met yet.
type view struct {
	isolated   bool                 // no message comes from NATS
	reachable  []string             // names of the buses that send heartbeats
	silent     []string             // names of the silent buses
	unmet      bool                 // another bus receives heartbeats of a bus that this one has not met
	knownUntil map[string]time.Time // by bus: the time until which its peers are known for certain
}

// recordHello records the content of another bus's hello; updateView publishes it.
func (c *Cluster) recordHello(m *member, body []byte) {
	m.heard = nil
	if !c.decode(m.name, "a heartbeat", body, &m.heard) {
		return
	}
	m.knownUntil = c.heartbeats.sent(m.heard[c.name])
}

// updateView publishes to the other goroutines what is known about the other buses. A bus that
// has received a heartbeat since this bus connected has named all buses that it knows. Then this
// bus is no longer isolated, and the named buses count as missing until they are known.
func (c *Cluster) updateView() {
	members := &c.members
	v := view{
		reachable:  slices.Sorted(maps.Keys(members.buses)),
		silent:     slices.Sorted(maps.Keys(members.silent)),
		knownUntil: map[string]time.Time{},
	}
	for name := range members.silent {
		v.knownUntil[name] = time.Time{}
	}
	for name, m := range members.buses {
		if v.knownUntil[name] = m.knownUntil; m.stale {
			v.knownUntil[name] = time.Time{}
		}
		for other, beat := range m.heard {
			if other != c.name && !members.everMet[other] {
				v.knownUntil[other] = time.Time{}
				v.unmet = v.unmet || beat != 0
			}
		}
	}
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	v.isolated = s.view.isolated
	for _, m := range members.buses {
		v.isolated = v.isolated && !m.knownUntil.After(s.since)
	}
	s.view = v
	for name := range s.heard {
		if members.buses[name] == nil {
			delete(s.heard, name)
		}
	}
}

// heartbeatsHeard returns the last heartbeats of the buses that this bus has met, or 0 for silent
// buses.
func (v *view) heartbeatsHeard(heard map[string]uint64) map[string]uint64 {
	all := map[string]uint64{}
	for _, name := range v.silent {
		all[name] = 0
	}
	for _, name := range v.reachable {
		all[name] = max(heard[name], 1) // its first message may have no heartbeat
	}
	return all
}

// certainFor returns how long the peers of another bus count as known after the last proof.
func (o *Options) certainFor() time.Duration { return o.SilentAfter + 2*o.Heartbeat }

// missing returns the names of the buses whose peers are not known for certain. It returns nil if
// there are none, and an empty slice if there may be unknown buses.
func (v *view) missing(at time.Time, certainFor time.Duration) []string {
	var missing []string
	if v.isolated {
		missing = []string{}
	}
	for name, knownUntil := range v.knownUntil {
		if v.isolated || age(at, knownUntil) > certainFor {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// hasUnmet reports whether there may be working buses that this bus cannot ask yet: it has not
// met all buses that others hear from, or it was just isolated. Silent buses that only others
// remember do not count, because no bus can ask them.
func (v *view) hasUnmet(justIsolated bool) bool { return v.isolated && justIsolated || v.unmet }

// endIsolation ends the isolation of a connected bus that no other bus has answered, because it
// is the only bus. The caller must hold mu.
func (s *state) endIsolation(at time.Time, heartbeat time.Duration) {
	if s.connected && at.Sub(s.since) >= 2*heartbeat {
		s.view.isolated = false
	}
}
