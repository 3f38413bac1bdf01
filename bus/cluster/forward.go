package cluster

import (
	"cmp"
	"slices"
	"time"

	"hubbub/bus"
	"hubbub/protocol"
)

// Forward implements bus.Cluster. It never waits: a message that cannot be queued fails at
// once, and its peers count as offline.
func (c *Cluster) Forward(f *bus.Forward) {
	head := forwardHeader{
		Topic:     f.Message.Topic,
		MessageID: f.Message.MessageID,
		From:      f.Message.From,
		Names:     f.Message.Names,
		To:        slices.Concat(f.Peers, f.Observe),
		NoOutcome: len(f.Peers) == 0,
	}
	c.state.mu.Lock()
	c.state.nextID++
	id, stopping := c.state.nextID, c.state.failReason != ""
	c.state.pending[id] = &pendingForward{Forward: f}
	c.state.mu.Unlock()
	if stopping || !c.queue.sendTo(f.Bus, header{Kind: kindForward, ID: id}, join(head, f.Message.Payload)) {
		c.failForward(id, c.failureReason(), false)
	}
}

// A pendingForward is a forward without an outcome.
type pendingForward struct {
	*bus.Forward
	sent bool // it was passed to NATS, so the other bus may have it
}

// markSent records that a forward is about to be passed to NATS, and returns the last heartbeat
// of its bus. It returns false if the forward was given up. Then it must not be sent, because its
// peers were reported as not written to.
func (c *Cluster) markSent(id uint64) (beat uint64, ok bool) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	f, ok := c.state.pending[id]
	if !ok {
		return 0, false
	}
	if f.sent = true; len(f.Peers) == 0 {
		delete(c.state.pending, id) // there will be no outcome
	}
	return c.state.heard[f.Bus], true
}

// failureReason returns why a forward cannot be sent.
func (c *Cluster) failureReason() string {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	return cmp.Or(c.state.failReason, "cannot be reached")
}

// FailPending implements bus.Cluster.
func (c *Cluster) FailPending(reason string) {
	c.state.mu.Lock()
	c.state.failReason = reason
	c.state.mu.Unlock()
	c.failForwards(reason, nil)
	c.checks.failAll(errStopping, always)
}

// A forwardHeader describes a forwarded payload.
type forwardHeader struct {
	Topic     string            `json:"topic"`
	MessageID string            `json:"messageId"`
	From      string            `json:"from"`
	Names     []string          `json:"names,omitempty"`
	To        []protocol.PeerID `json:"to"`               // the peers that the message is for
	NoOutcome bool              `json:"silent,omitempty"` // the sender does not wait for the outcome
}

// handleForward delivers a message that another bus accepted and forwarded.
func (c *Cluster) handleForward(h header, body []byte) {
	var head forwardHeader
	payload, err := parse(body, &head)
	if !c.readable(h.From, "a message", err) {
		return
	}
	message := bus.AcceptedMessage{
		Topic:     head.Topic,
		MessageID: head.MessageID,
		From:      head.From,
		Names:     head.Names,
		Payload:   payload,
	}
	done := func(r bus.Result) {
		if head.NoOutcome {
			return
		}
		if !c.queue.sendTo(h.From, header{Kind: kindOutcome, ID: h.ID}, encode(r)) {
			c.requestEpoch("the queue to NATS is full")
		}
	}
	if !c.heartbeats.withinLease(h.Beat, time.Now()) {
		done(bus.Result{Absent: head.To}) // the other bus may have given up the forward
		return
	}
	c.local.Deliver(message, head.To, done)
}

// handleOutcome completes a forward. It ignores the outcome of one that was given up.
func (c *Cluster) handleOutcome(h header, body []byte) {
	var r bus.Result
	if !c.decode(h.From, "an outcome", body, &r) {
		return
	}
	if f := c.takePending(h.ID); f != nil {
		f.Complete(r)
	}
}

func (c *Cluster) takePending(id uint64) *pendingForward {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	f := c.state.pending[id]
	delete(c.state.pending, id)
	return f
}

// failForward fails one forward. written says that the other bus may have it.
func (c *Cluster) failForward(id uint64, reason string, written bool) {
	if f := c.takePending(id); f != nil {
		f.Fail(reason, written)
	}
}

// failForwards fails the forwards for which match returns true, or all if match is nil.
func (c *Cluster) failForwards(reason string, match func(*pendingForward) bool) {
	var failed []*pendingForward
	c.state.mu.Lock()
	for id, f := range c.state.pending {
		if match == nil || match(f) {
			failed = append(failed, f)
			delete(c.state.pending, id)
		}
	}
	c.state.mu.Unlock()
	for _, f := range failed {
		f.Fail(reason, f.sent)
	}
}

// expire fails the forwards and checks that have waited too long, and the forwards to a bus
// that was removed while they were queued.
func (c *Cluster) expire(at time.Time) {
	c.failForwards("did not answer", func(f *pendingForward) bool {
		_, known := c.members.buses[f.Bus]
		return !known || at.After(f.Expires)
	})
	c.checks.failAll(errNotChecked, func(check *duplicateCheck) bool { return at.After(check.expires) })
}
