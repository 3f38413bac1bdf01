package cluster

import (
	"time"

	"hubbub/bus"
	"hubbub/protocol"
)

// A member is what is known about another bus.
type member struct {
	name     string
	instance string
	epoch    uint64
	seq      uint64 // of the last change that was applied
	seen     time.Time
	// the last heartbeats that it has received from other buses; 0 for a bus that it does not hear
	// from
	heard      map[string]uint64
	knownUntil time.Time // when this bus sent the last heartbeat that m had received before it sent its peers
	stale      bool      // its peers are not known for certain and must be requested
	requested  time.Time // when its peers were requested
	waiting    []pendingChange
}

type pendingChange struct {
	seq    uint64
	change change
}

// A change is one change of the peers of a bus.
type change struct {
	Do string `json:"do"` // join, left, sub or unsub
	bus.Member
	Pattern protocol.Pattern `json:"pattern,omitempty"`
	Observe bool             `json:"observe,omitempty"`
}

// broadcastChange sends a change to every bus. If the change cannot be queued, the others notice
// that its number is missing, and request the whole state.
func (c *Cluster) broadcastChange(ch change) {
	body := encode(ch)
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.seq++
	c.queue.broadcast(header{Kind: kindChange, Epoch: c.state.incarnation, Seq: c.state.seq}, body)
}

// Joined implements bus.Cluster.
func (c *Cluster) Joined(m bus.Member) { c.broadcastChange(change{Do: "join", Member: m}) }

// Left implements bus.Cluster.
func (c *Cluster) Left(peer protocol.PeerID, stamp bus.Stamp) {
	c.broadcastChange(change{Do: "left", Member: bus.Member{Peer: peer, Stamp: stamp}})
}

// Subscribed implements bus.Cluster.
func (c *Cluster) Subscribed(peer protocol.PeerID, pattern protocol.Pattern, observe bool) {
	c.broadcastChange(change{Do: "sub", Member: bus.Member{Peer: peer}, Pattern: pattern, Observe: observe})
}

// Unsubscribed implements bus.Cluster.
func (c *Cluster) Unsubscribed(peer protocol.PeerID, pattern protocol.Pattern) {
	c.broadcastChange(change{Do: "unsub", Member: bus.Member{Peer: peer}, Pattern: pattern})
}

// ensureMember returns the member for the sender of a message. The sender may be new, or may have
// been restarted.
func (c *Cluster) ensureMember(h header) *member {
	m := c.members.buses[h.From]
	if m != nil && m.instance != h.Instance {
		c.removeBus(h.From, "was restarted")
		m = nil
	}
	if m == nil {
		c.endSilence(h)
		m = &member{name: h.From, instance: h.Instance, stale: true}
		c.members.buses[h.From], c.members.everMet[h.From] = m, true
		c.updateView()
		c.options.Log.Info().Str("bus", h.From).Msg("cluster: met a bus")
		c.noteHeartbeat(h)
		c.hello() // so that the new bus meets this one at once
	}
	m.seen = time.Now()
	c.noteHeartbeat(h)
	return m
}

// endSilence ends the silence of a bus. If the bus was restarted, it removes the old peers.
func (c *Cluster) endSilence(h header) {
	was, ok := c.members.silent[h.From]
	delete(c.members.silent, h.From)
	switch {
	case ok && was.instance == h.Instance:
		c.local.SetBusMissing(h.From, false)
	case ok:
		c.local.RemoveBus(h.From)
	}
}

// noteHeartbeat notes the heartbeat in a message, if any.
func (c *Cluster) noteHeartbeat(h header) {
	if h.Beat == 0 || h.Kind == kindForward {
		return
	}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	c.state.heard[h.From] = h.Beat
}

// handleHello compares the state in a bus's hello with the known state.
func (c *Cluster) handleHello(m *member, h header, body []byte) {
	if m.epoch != 0 && h.Epoch != m.epoch {
		c.failForwards("lost its connection", func(f *pendingForward) bool { return f.Bus == m.name })
		c.checks.failAll(errNotChecked, func(p *duplicateCheck) bool { return p.waitingFor[m.name] })
		m.stale = true
	}
	m.epoch = h.Epoch
	if h.Seq != m.seq && len(m.waiting) == 0 {
		m.stale = true
	}
	c.recordHello(m, body)
	c.requestMembers(m)
}

// requestInterval is how long a bus may take to send its peers before they are requested again.
const requestInterval = time.Second

func (c *Cluster) requestMembers(m *member) {
	if m.stale && time.Since(m.requested) > requestInterval {
		m.requested = time.Now()
		c.queue.sendTo(m.name, header{Kind: kindSync}, nil)
	}
}

// maxWaiting bounds the changes that wait for the requested peers of a bus.
const maxWaiting = 100_000

// handleChange applies a change if it is the next one, and otherwise requests the whole state.
func (c *Cluster) handleChange(m *member, h header, body []byte) {
	var ch change
	if !c.decode(m.name, "a change", body, &ch) {
		return
	}
	switch {
	case m.stale:
		if len(m.waiting) < maxWaiting {
			m.waiting = append(m.waiting, pendingChange{h.Seq, ch})
		}
		c.requestMembers(m)
	case h.Seq == m.seq+1:
		m.seq = h.Seq
		c.apply(m, ch)
	case h.Seq > m.seq:
		m.stale = true
		m.waiting = append(m.waiting[:0], pendingChange{h.Seq, ch})
		c.requestMembers(m)
	}
}

func (c *Cluster) apply(m *member, ch change) {
	switch ch.Do {
	case "join":
		c.applyJoin(m, ch.Member)
	case "left":
		c.local.RemoveRemotePeer(m.name, ch.Peer, ch.Stamp)
	case "sub":
		c.local.AddRemotePattern(m.name, ch.Peer, ch.Pattern, ch.Observe)
	case "unsub":
		c.local.RemoveRemotePattern(m.name, ch.Peer, ch.Pattern)
	}
}

// applyJoin records a session of another bus. If this bus has a newer session of the identity, it
// announces that again.
func (c *Cluster) applyJoin(m *member, session bus.Member) {
	if newer, ok := c.local.RemoteJoined(m.name, session); ok {
		c.Joined(newer)
	}
}

// sendMembers sends the peers of this bus to a bus that has requested them. It reads the number
// of the last change first: a later change may then be sent twice, which is harmless.
func (c *Cluster) sendMembers(h header) {
	c.state.mu.Lock()
	head := header{Kind: kindMembers, Epoch: c.state.incarnation, Seq: c.state.seq, Beat: c.heartbeats.next(time.Now())}
	c.state.nextID++
	head.ID = c.state.nextID
	c.state.mu.Unlock()
	c.queue.sendTo(h.From, head, encode(c.local.Members()))
}

// handleMembers replaces the known peers of a bus, and then applies the changes that have arrived
// meanwhile.
func (c *Cluster) handleMembers(m *member, h header, body []byte) {
	var sessions []bus.Member
	if !c.decode(m.name, "a list of members", body, &sessions) {
		return
	}
	stamps := make(map[protocol.PeerID]bus.Stamp, len(sessions))
	for _, s := range sessions {
		stamps[s.Peer] = s.Stamp
	}
	c.local.RetainRemotePeers(m.name, stamps)
	for _, s := range sessions {
		c.applyJoin(m, s)
	}
	m.seq, m.epoch, m.stale = h.Seq, h.Epoch, false
	waiting := m.waiting
	m.waiting = nil
	for _, w := range waiting {
		if w.seq == m.seq+1 {
			m.seq = w.seq
			c.apply(m, w.change)
		} else if w.seq > m.seq {
			m.stale = true
		}
	}
	m.requested = time.Time{}
	c.requestMembers(m)
}
