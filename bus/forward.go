package bus

import (
	"fmt"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// A Forward is one message on its way to one other bus.
type Forward struct {
	Bus     string
	Peers   []protocol.PeerID // peers whose answers the sender waits for; empty if all of them observe
	Observe []protocol.PeerID // peers whose answers are ignored
	Message AcceptedMessage
	Expires time.Time // when to give up

	publication *publication
	missing     bool // the bus is out of reach
}

// forwards returns one Forward for each other bus with targets whose answers count. It sends the
// message at once to a bus whose targets all observe. The index holds each identity for at most
// one bus, so an identity is named to at most one bus. Therefore no message reaches two sessions
// of one identity, even if a bus's knowledge is outdated.
func (p *publication) forwards(targets []target) []*Forward {
	byBus := map[string]*Forward{}
	var list []*Forward
	for _, t := range targets {
		if t.remote == nil {
			continue
		}
		f, ok := byBus[t.remote.bus]
		if !ok {
			f = p.forward(t.remote)
			byBus[t.remote.bus] = f
			list = append(list, f)
		}
		if t.observe {
			f.Observe = append(f.Observe, t.peer)
		} else {
			f.Peers = append(f.Peers, t.peer)
		}
	}
	for _, f := range list {
		if len(f.Peers) == 0 && !f.missing {
			p.server.options.Cluster.Forward(f)
		}
	}
	return slices.DeleteFunc(list, func(f *Forward) bool { return len(f.Peers) == 0 })
}

// forward returns a Forward to one bus.
func (p *publication) forward(r *remote) *Forward {
	return &Forward{
		Bus:         r.bus,
		Message:     p.message,
		Expires:     p.accepted.Add(p.server.options.DeliveryTimeout + time.Second),
		publication: p,
		missing:     r.missing.Load(),
	}
}

// send passes a Forward to the cluster, unless its bus is out of reach.
func (f *Forward) send() {
	if f.missing {
		f.Fail("is out of reach", false)
		return
	}
	f.publication.server.options.Cluster.Forward(f)
}

// Complete adds the other bus's outcome to that of the message. If a peer has moved to another
// bus, the message follows it.
func (f *Forward) Complete(r Result) {
	p := f.publication
	absent := slices.DeleteFunc(r.Absent, func(id protocol.PeerID) bool { return !slices.Contains(f.Peers, id) })
	b := p.server.newBatch()
	p.mu.Lock()
	o := &p.outcome
	o.Targets += r.Targets + len(absent) - len(f.Peers)
	o.DeliveredTo += r.DeliveredTo
	o.Failures = append(o.Failures, r.Failures...)
	if o.Addressee != "" {
		o.Addressee = best(o.Addressee, r.Addressee)
	}
	p.waiting += len(absent)
	p.mu.Unlock()
	for _, id := range absent {
		if !p.follow(b, id, f.Bus) {
			p.offline(b, id, "the bus "+f.Bus+" refused it: the peer has left it, or the message came too late", false)
			p.release(b)
		}
	}
	p.release(b)
	b.flush()
}

// Fail ends a forward to a bus that is out of reach. The peers of that bus count as offline. This
// bus records the failures, because the other one may be unable to. written says that the message
// may have reached the other bus.
func (f *Forward) Fail(reason string, written bool) {
	if len(f.Peers) == 0 {
		return // the sender does not wait
	}
	p := f.publication
	b := p.server.newBatch()
	for _, peer := range f.Peers {
		p.offline(b, peer, fmt.Sprintf("the bus %s of this peer %s", f.Bus, reason), written)
	}
	p.mu.Lock()
	p.coverage.partial = true
	if !slices.Contains(p.coverage.missing, f.Bus) {
		p.coverage.missing = append(slices.Clip(p.coverage.missing), f.Bus)
	}
	p.releaseAndUnlock(b)
	b.flush()
}

// maxMoves is how often a message follows a peer from bus to bus.
const maxMoves = 3

// follow forwards a message to the bus that now holds the peer, unless that is the bus old, which
// did not deliver it. An empty old means this bus. It returns false if no other bus holds the
// peer. To keep the order, it also returns false if the sender has sent more messages since. The
// caller holds one wait of the publication for this peer; follow takes it over if it returns
// true.
func (p *publication) follow(b *batch, id protocol.PeerID, old string) bool {
	s := p.sender
	if b.routing != s {
		if !s.order.mu.TryLock() {
			return false
		}
		defer s.order.mu.Unlock()
	}
	if p.order.moves >= maxMoves || p.order.number != s.order.published {
		return false
	}
	p.order.moves++
	srv := p.server
	if ours := srv.sessions.session(id); ours != nil && old != "" {
		d := &delivery{publication: p, target: ours}
		b.record(d.startRow())
		d.redirectTo(b, ours)
		return true
	}
	r := srv.remotes.subscribedTo(id, p.message.Topic)
	if r == nil || r.bus == old || r.missing.Load() {
		return false
	}
	f := p.forward(r)
	f.Peers = []protocol.PeerID{id}
	f.send()
	return true
}

// offline records that a message did not reach a peer of another bus.
func (p *publication) offline(b *batch, peer protocol.PeerID, text string, written bool) {
	p.mu.Lock()
	o := &p.outcome
	o.Failures = append(o.Failures, protocol.Failure{
		Peer: peer, Status: protocol.OutcomeOffline, Error: text, Written: written,
	})
	if o.Addressee != "" && addresses(peer, protocol.PeerID(p.message.Topic)) {
		o.Addressee = best(o.Addressee, protocol.AddresseeFailed)
	}
	p.mu.Unlock()
	b.record(activitylog.Row{
		At:        b.now(),
		Event:     activitylog.ProcessFinish,
		MessageID: p.message.MessageID,
		Actor:     string(peer),
		Topic:     p.message.Topic,
		Status:    string(protocol.OutcomeOffline),
		Error:     text,
		Of:        &p.log.sending,
	})
}

// addresses reports whether a peer of another bus is the addressee of a topic: it has that
// identity, or is the bridge of its family.
func addresses(peer, topic protocol.PeerID) bool {
	return peer == topic || protocol.MaySendForFamily(peer) && peer.Family() == topic.Family()
}

// best returns the better of two outcomes for the addressee.
func best(a, b protocol.Addressee) protocol.Addressee {
	rank := func(o protocol.Addressee) int {
		switch o {
		case protocol.AddresseeOK:
			return 2
		case protocol.AddresseeFailed:
			return 1
		}
		return 0
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}
