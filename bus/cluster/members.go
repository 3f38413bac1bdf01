package cluster

import (
	"time"

	"hubbub/bus"
	"hubbub/protocol"
)

// A member is what this bus knows of another one.
type member struct {
	name     string
	instance string
	epoch    uint64
	seq      uint64 // of the last change that was applied
	seen     time.Time
	hears    map[string]uint64 // the last signs of life that it had of other buses; 0 of those that it misses
	told     time.Time         // when this bus sent the last sign of life that it had before it told its peers
	stale    bool              // its peers are not known for certain: it must be asked for them
	asked    time.Time         // when it was asked
	waiting  []pendingChange
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

// announce tells every bus of a change. If a change cannot be queued, its number is
// missing, and the others ask for the whole state.
func (c *Cluster) announce(ch change) {
	body := encode(ch)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	c.tellAll(header{Kind: kindChange, Epoch: c.incarnation, Seq: c.seq}, body)
}

// Joined implements bus.Cluster.
func (c *Cluster) Joined(m bus.Member) { c.announce(change{Do: "join", Member: m}) }

// Left implements bus.Cluster.
func (c *Cluster) Left(peer protocol.PeerID, stamp bus.Stamp) {
	c.announce(change{Do: "left", Member: bus.Member{Peer: peer, Stamp: stamp}})
}

// Subscribed implements bus.Cluster.
func (c *Cluster) Subscribed(peer protocol.PeerID, pattern protocol.Pattern, observe bool) {
	c.announce(change{Do: "sub", Member: bus.Member{Peer: peer}, Pattern: pattern, Observe: observe})
}

// Unsubscribed implements bus.Cluster.
func (c *Cluster) Unsubscribed(peer protocol.PeerID, pattern protocol.Pattern) {
	c.announce(change{Do: "unsub", Member: bus.Member{Peer: peer}, Pattern: pattern})
}

// meet returns what is known of the sender of a message. The sender may be new, or have
// been restarted.
func (c *Cluster) meet(h header) *member {
	m := c.buses[h.From]
	if m != nil && m.instance != h.Instance {
		c.forget(h.From, "was restarted")
		m = nil
	}
	if m == nil {
		c.find(h)
		m = &member{name: h.From, instance: h.Instance, stale: true}
		c.buses[h.From], c.met[h.From] = m, true
		c.look()
		c.options.Log.Info().Str("bus", h.From).Msg("cluster: met a bus")
		c.hear(h)
		c.hello() // so that it meets us at once
	}
	m.seen = time.Now()
	c.hear(h)
	return m
}

// find ends the absence of a bus. If it was restarted meanwhile, its peers are gone.
func (c *Cluster) find(h header) {
	was, ok := c.absent[h.From]
	delete(c.absent, h.From)
	switch {
	case ok && was.instance == h.Instance:
		c.local.SetBusMissing(h.From, false)
	case ok:
		c.local.RemoveBus(h.From)
	}
}

// hear notes the sign of life that a message brings, if it does.
func (c *Cluster) hear(h header) {
	if h.Beat == 0 || h.Kind == kindForward {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[h.From] = h.Beat
}

// takeHello compares what another bus says about itself with what is known.
func (c *Cluster) takeHello(m *member, h header, body []byte) {
	if m.epoch != 0 && h.Epoch != m.epoch {
		c.loseAll("lost its connection", func(f *crossing) bool { return f.Bus == m.name })
		c.polls.failAll(errNotAsked, func(p *poll) bool { return p.waits[m.name] })
		m.stale = true
	}
	m.epoch = h.Epoch
	if h.Seq != m.seq && len(m.waiting) == 0 {
		m.stale = true
	}
	c.learn(m, body)
	c.ask(m)
}

// askAgain is how long a bus may take to tell its peers before it is asked again.
const askAgain = time.Second

func (c *Cluster) ask(m *member) {
	if m.stale && time.Since(m.asked) > askAgain {
		m.asked = time.Now()
		c.tellBus(m.name, header{Kind: kindSync}, nil)
	}
}

// maxWaiting bounds the changes that wait while a bus is asked for its peers.
const maxWaiting = 100_000

// takeChange applies a change if it is the next one, and otherwise asks for the whole
// state.
func (c *Cluster) takeChange(m *member, h header, body []byte) {
	var ch change
	if !c.decode(m.name, "a change", body, &ch) {
		return
	}
	switch {
	case m.stale:
		if len(m.waiting) < maxWaiting {
			m.waiting = append(m.waiting, pendingChange{h.Seq, ch})
		}
		c.ask(m)
	case h.Seq == m.seq+1:
		m.seq = h.Seq
		c.apply(m, ch)
	case h.Seq > m.seq:
		m.stale = true
		m.waiting = append(m.waiting[:0], pendingChange{h.Seq, ch})
		c.ask(m)
	}
}

func (c *Cluster) apply(m *member, ch change) {
	switch ch.Do {
	case "join":
		c.claim(m, ch.Member)
	case "left":
		c.local.RemoveRemotePeer(m.name, ch.Peer, ch.Stamp)
	case "sub":
		c.local.AddRemotePattern(m.name, ch.Peer, ch.Pattern, ch.Observe)
	case "unsub":
		c.local.RemoveRemotePattern(m.name, ch.Peer, ch.Pattern)
	}
}

// claim notes the session of another bus. If ours of that identity is newer, it tells the
// others again that ours stays.
func (c *Cluster) claim(m *member, session bus.Member) {
	if newer, ok := c.local.RemoteJoined(m.name, session); ok {
		c.Joined(newer)
	}
}

// sendMembers answers a bus that asks for the peers of this one. It reads the number of
// the last change first: a change that happens meanwhile is then told twice, which does
// no harm.
func (c *Cluster) sendMembers(h header) {
	c.mu.Lock()
	head := header{Kind: kindMembers, Epoch: c.incarnation, Seq: c.seq, Beat: c.pulse.next(time.Now())}
	c.nextID++
	head.ID = c.nextID
	c.mu.Unlock()
	c.tellBus(h.From, head, encode(c.local.Members()))
}

// takeMembers replaces what is known of a bus, then applies the changes that have
// arrived meanwhile.
func (c *Cluster) takeMembers(m *member, h header, body []byte) {
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
		c.claim(m, s)
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
	m.asked = time.Time{}
	c.ask(m)
}
