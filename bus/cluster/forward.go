package cluster

import (
	"cmp"
	"slices"
	"time"

	"hubbub/bus"
	"hubbub/protocol"
)

// Forward implements bus.Cluster. It never waits: a message that cannot be queued is lost
// at once, and its peers count as offline.
func (c *Cluster) Forward(f *bus.Forward) {
	about := about{
		Topic: f.Message.Topic, MessageID: f.Message.MessageID, From: f.Message.From, Names: f.Message.Names,
		To: slices.Concat(f.Peers, f.Observe), Silent: len(f.Peers) == 0,
	}
	c.mu.Lock()
	c.nextID++
	id, stopping := c.nextID, c.gaveUp != ""
	c.pending[id] = &crossing{Forward: f}
	c.mu.Unlock()
	if stopping || !c.tellBus(f.Bus, header{Kind: kindForward, ID: id}, join(about, f.Message.Payload)) {
		c.lose(id, c.why(), false)
	}
}

// A crossing is a forward that has no outcome yet.
type crossing struct {
	*bus.Forward
	sent bool // it was handed to NATS, so the other bus may have it
}

// depart notes that a forward is handed to NATS now, and returns the last sign of life that
// came from its bus. It returns false if the forward was given up: then it must not be
// sent, since its peers are reported as never written to.
func (c *Cluster) depart(id uint64) (beat uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.pending[id]
	if !ok {
		return 0, false
	}
	if f.sent = true; len(f.Peers) == 0 {
		delete(c.pending, id) // nobody waits for its outcome
	}
	return c.heard[f.Bus], true
}

// why returns the reason why a forward cannot be sent.
func (c *Cluster) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.gaveUp, "cannot be reached")
}

// FailPending implements bus.Cluster.
func (c *Cluster) FailPending(reason string) {
	c.mu.Lock()
	c.gaveUp = reason
	c.mu.Unlock()
	c.loseAll(reason, nil)
	c.polls.failAll(errStopping, every)
}

// about describes a forwarded payload.
type about struct {
	Topic     string            `json:"topic"`
	MessageID string            `json:"messageId"`
	From      string            `json:"from"`
	Names     []string          `json:"names,omitempty"`
	To        []protocol.PeerID `json:"to"`               // whose sessions get it, and no others
	Silent    bool              `json:"silent,omitempty"` // nobody waits for the outcome
}

// takeForward delivers a message that another bus accepted and forwarded.
func (c *Cluster) takeForward(h header, body []byte) {
	var a about
	payload, err := parse(body, &a)
	if !c.understood(h.From, "a message", err) {
		return
	}
	arrived := bus.AcceptedMessage{Topic: a.Topic, MessageID: a.MessageID, From: a.From, Names: a.Names, Payload: payload}
	done := func(r bus.Result) {
		if a.Silent {
			return
		}
		if !c.tellBus(h.From, header{Kind: kindOutcome, ID: h.ID}, encode(r)) {
			c.broke("the queue to NATS is full")
		}
	}
	if !c.pulse.covers(h.Beat, time.Now()) {
		done(bus.Result{Absent: a.To}) // the other bus may have given it up by now
		return
	}
	c.local.Deliver(arrived, a.To, done)
}

// takeOutcome completes a forward. It ignores the outcome of one that was given up.
func (c *Cluster) takeOutcome(h header, body []byte) {
	var r bus.Result
	if !c.decode(h.From, "an outcome", body, &r) {
		return
	}
	if f := c.take(h.ID); f != nil {
		f.Complete(r)
	}
}

func (c *Cluster) take(id uint64) *crossing {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.pending[id]
	delete(c.pending, id)
	return f
}

// lose fails one forward. written says that the other bus may have it.
func (c *Cluster) lose(id uint64, why string, written bool) {
	if f := c.take(id); f != nil {
		f.Fail(why, written)
	}
}

// loseAll fails the forwards for which which returns true, or all if which is nil.
func (c *Cluster) loseAll(why string, which func(*crossing) bool) {
	var lost []*crossing
	c.mu.Lock()
	for id, f := range c.pending {
		if which == nil || which(f) {
			lost = append(lost, f)
			delete(c.pending, id)
		}
	}
	c.mu.Unlock()
	for _, f := range lost {
		f.Fail(why, f.sent)
	}
}

// expire fails the forwards that have waited too long, and those to a bus that was
// forgotten while they were queued, and the polls that nobody ended.
func (c *Cluster) expire(at time.Time) {
	c.loseAll("did not answer", func(f *crossing) bool {
		_, known := c.buses[f.Bus]
		return !known || at.After(f.Expires)
	})
	c.polls.failAll(errNotAsked, func(p *poll) bool { return at.After(p.expires) })
}
