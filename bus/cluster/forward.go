package cluster

import (
	"cmp"
	"time"

	"hubbub/bus"
)

// Forward implements bus.Cluster. It never waits: a message that cannot be queued is lost
// at once, and its peers count as offline.
func (c *Cluster) Forward(f *bus.Forward) {
	about := about{Topic: f.Arrived.Topic, MessageID: f.Arrived.MessageID, From: f.Arrived.From, Names: f.Arrived.Names, Silent: len(f.Peers) == 0}
	c.mu.Lock()
	c.nextID++
	id, stopping := c.nextID, c.gaveUp != ""
	if !about.Silent {
		c.pending[id] = f
	}
	c.mu.Unlock()
	if stopping || !c.tellBus(f.Bus, header{Kind: kindForward, ID: id}, join(about, f.Arrived.Payload)) {
		c.lose(id, c.why())
	}
}

// why returns the reason why a forward cannot be sent.
func (c *Cluster) why() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cmp.Or(c.gaveUp, "cannot be reached")
}

// GiveUp implements bus.Cluster.
func (c *Cluster) GiveUp(reason string) {
	c.mu.Lock()
	c.gaveUp = reason
	c.mu.Unlock()
	c.loseAll(reason, nil)
}

// about describes a forwarded payload.
type about struct {
	Topic     string   `json:"topic"`
	MessageID string   `json:"messageId"`
	From      string   `json:"from"`
	Names     []string `json:"names,omitempty"`
	Silent    bool     `json:"silent,omitempty"` // nobody waits for the outcome
}

// takeForward delivers a message that another bus accepted and forwarded.
func (c *Cluster) takeForward(h header, body []byte) {
	var a about
	payload, err := parse(body, &a)
	if !c.understood(h.From, "a message", err) {
		return
	}
	arrived := bus.Arrived{Topic: a.Topic, MessageID: a.MessageID, From: a.From, Names: a.Names, Payload: payload}
	c.local.Deliver(arrived, func(r bus.Result) {
		if a.Silent {
			return
		}
		if !c.tellBus(h.From, header{Kind: kindOutcome, ID: h.ID}, encode(r)) {
			c.broke("the queue to NATS is full")
		}
	})
}

// takeOutcome completes a forward. It ignores the outcome of one that was given up.
func (c *Cluster) takeOutcome(h header, body []byte) {
	var r bus.Result
	if !c.decode(h.From, "an outcome", body, &r) {
		return
	}
	if f := c.take(h.ID); f != nil {
		f.Done(r)
	}
}

func (c *Cluster) take(id uint64) *bus.Forward {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.pending[id]
	delete(c.pending, id)
	return f
}

// lose fails one forward.
func (c *Cluster) lose(id uint64, why string) {
	if f := c.take(id); f != nil {
		f.Lost(why)
	}
}

// loseAll fails the forwards for which which returns true, or all if which is nil.
func (c *Cluster) loseAll(why string, which func(*bus.Forward) bool) {
	var lost []*bus.Forward
	c.mu.Lock()
	for id, f := range c.pending {
		if which == nil || which(f) {
			lost = append(lost, f)
			delete(c.pending, id)
		}
	}
	c.mu.Unlock()
	for _, f := range lost {
		f.Lost(why)
	}
}

// expire fails the forwards that have waited too long, and those to a bus that was
// forgotten while they were queued.
func (c *Cluster) expire(at time.Time) {
	c.loseAll("did not answer", func(f *bus.Forward) bool {
		_, known := c.buses[f.Bus]
		return !known || at.After(f.Expires)
	})
}
