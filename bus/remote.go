package bus

import (
	"fmt"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// A Cluster joins this bus with others. Package bus/cluster is one, over NATS.
// Its methods are called on the hot path: they must not block.
type Cluster interface {
	// Attach gives the cluster its bus, before anything else is called.
	Attach(Local)
	// Joined is called when a session took an identity, Left when it ended.
	Joined(peer protocol.PeerID, stamp Stamp)
	Left(peer protocol.PeerID, stamp Stamp)
	// Subscribed and Unsubscribed are called when a session's patterns change.
	Subscribed(peer protocol.PeerID, pattern protocol.Pattern, observe bool)
	Unsubscribed(peer protocol.PeerID, pattern protocol.Pattern)
	// Forward sends a message to another bus. It calls Done or Lost once, unless
	// f.Peers is empty.
	Forward(f *Forward)
	// GiveUp calls Lost on each forward without an outcome, and on all later ones:
	// the bus is stopping.
	GiveUp(reason string)
	// Status returns what /readyz says about the cluster.
	Status() any
}

// A Stamp orders the sessions of one identity: the greater is newer.
type Stamp struct {
	At  int64  `json:"at"`  // unix nanoseconds of initialize, raised above every stamp that its bus has seen
	Bus string `json:"bus"` // the session's
}

// Newer reports whether s is newer than o.
func (s Stamp) Newer(o Stamp) bool { return s.At > o.At || s.At == o.At && s.Bus > o.Bus }

// Local is how a cluster uses its bus.
type Local interface {
	// Members lists the sessions and their patterns.
	Members() []Member
	// Replaced ends this bus's session of that identity if it is older than by. If
	// it is newer, Replaced returns its stamp and true.
	Replaced(peer protocol.PeerID, by Stamp) (newer Stamp, ok bool)
	// SetRemote adds or changes a pattern of a peer of another bus,
	// UnsetRemote removes it, DropRemote removes a peer, DropBus a whole bus.
	SetRemote(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool)
	UnsetRemote(bus string, peer protocol.PeerID, pattern protocol.Pattern)
	DropRemote(bus string, peer protocol.PeerID)
	DropBus(bus string)
	// SetBus replaces the patterns of all peers of a bus. Patterns that it had
	// before are routed to without a gap.
	SetBus(bus string, peers map[protocol.PeerID]map[protocol.Pattern]bool)
	// Deliver delivers a message that another bus accepted to this bus's sessions.
	// It calls done once with the outcome, and does not wait for it.
	Deliver(m Arrived, done func(Result))
}

// A Member is one session of this bus, as the other buses are told of it.
type Member struct {
	Peer     protocol.PeerID
	Stamp    Stamp
	Patterns map[protocol.Pattern]bool // value: observe
}

// An Arrived message was accepted, and so checked, by this bus or another one.
type Arrived struct {
	Topic     string
	MessageID string
	From      string
	Names     []string // that the sender may announce; see protocol.ProcessParams
	Payload   []byte
}

// A Result is the outcome of a message at one bus.
type Result struct {
	Targets     int                `json:"targets"`
	DeliveredTo int                `json:"deliveredTo"`
	Failures    []protocol.Failure `json:"failures,omitempty"`
	Addressee   protocol.Addressee `json:"addressee,omitempty"`
}

// A Forward is one message on its way to one other bus.
type Forward struct {
	Bus     string
	Peers   []protocol.PeerID // whose answers are waited for; none if all of them observe
	Arrived Arrived
	Expires time.Time // when to give up

	publication *publication
}

// forwards returns one Forward for each other bus that has targets whose answers are
// waited for. To a bus whose targets all observe it sends the message at once.
func (p *publication) forwards(targets []target) []*Forward {
	byBus := map[string]*Forward{}
	var list []*Forward
	for _, t := range targets {
		if t.remote == nil {
			continue
		}
		f, ok := byBus[t.remote.bus]
		if !ok {
			f = &Forward{
				Bus: t.remote.bus, publication: p, Expires: p.accepted.Add(p.server.options.DeliveryTimeout + time.Second),
				Arrived: p.message,
			}
			byBus[t.remote.bus] = f
			list = append(list, f)
		}
		if !t.observe {
			f.Peers = append(f.Peers, t.peer)
		}
	}
	for _, f := range list {
		if len(f.Peers) == 0 {
			p.server.options.Cluster.Forward(f)
		}
	}
	return slices.DeleteFunc(list, func(f *Forward) bool { return len(f.Peers) == 0 })
}

// Done adds the other bus's outcome to that of the message.
func (f *Forward) Done(r Result) {
	p := f.publication
	b := p.server.newBatch()
	p.mu.Lock()
	o := &p.outcome
	o.Targets += r.Targets - len(f.Peers)
	o.DeliveredTo += r.DeliveredTo
	o.Failures = append(o.Failures, r.Failures...)
	if o.Addressee != "" {
		o.Addressee = best(o.Addressee, r.Addressee)
	}
	p.releaseAndUnlock(b)
	b.flush()
}

// Lost ends a forward to a bus that cannot be reached. Its peers count as offline, and
// this bus records that, since the other one may be unable to.
func (f *Forward) Lost(reason string) {
	p := f.publication
	b := p.server.newBatch()
	text := fmt.Sprintf("the bus %s of this peer %s", f.Bus, reason)
	p.mu.Lock()
	o := &p.outcome
	for _, peer := range f.Peers {
		o.Failures = append(o.Failures, protocol.Failure{Peer: peer, Status: protocol.OutcomeOffline, Error: text})
		if o.Addressee != "" && addresses(peer, protocol.PeerID(p.message.Topic)) {
			o.Addressee = best(o.Addressee, protocol.AddresseeFailed)
		}
	}
	p.mu.Unlock()
	for _, peer := range f.Peers {
		b.record(activitylog.Row{
			At: b.now(), Event: activitylog.ProcessFinish, MessageID: p.message.MessageID, Actor: string(peer), Topic: p.message.Topic,
			Status: string(protocol.OutcomeOffline), Error: text,
		})
	}
	p.release(b)
	b.flush()
}

// addresses reports whether a peer of another bus is the addressee of a topic: it has
// that identity, or is the bridge of its family.
func addresses(peer, topic protocol.PeerID) bool {
	return peer == topic || protocol.SpeaksForFamily(peer) && peer.Family() == topic.Family()
}

// best returns the better of two outcomes at the addressee.
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

// A remote is another bus, as the index knows it.
type remote struct {
	bus   string
	peers map[protocol.PeerID]*remotePeer
}

type remotePeer struct {
	subscriber
	patterns map[protocol.Pattern]bool
}

var _ Local = (*Server)(nil)

// Subscriptions returns the number of subscriptions that this bus routes to, those of
// other buses' peers included, and how many of them only observe.
func (srv *Server) Subscriptions() (all, observing int) { return srv.index.size() }

// Deliver implements Local.
func (srv *Server) Deliver(m Arrived, done func(Result)) {
	b := srv.newBatch()
	p := newPublication(srv, b.at, nil, protocol.Send{Topic: m.Topic, Payload: m.Payload, MessageID: m.MessageID, From: m.From}, m.Names)
	p.finished = func(_ *batch, r Result) { done(r) }
	p.route(b, srv.index.targets(m.Topic))
	b.flush()
}

// Members implements Local.
func (srv *Server) Members() []Member {
	var list []Member
	for _, s := range srv.list() {
		if !s.ready.Load() {
			continue
		}
		s.mu.Lock()
		if !s.ended {
			m := Member{Peer: s.id, Stamp: s.stamp, Patterns: make(map[protocol.Pattern]bool, len(s.patterns))}
			for p, observe := range s.patterns {
				m.Patterns[p] = observe
			}
			list = append(list, m)
		}
		s.mu.Unlock()
	}
	return list
}

// Replaced implements Local.
func (srv *Server) Replaced(peer protocol.PeerID, by Stamp) (newer Stamp, ok bool) {
	srv.mu.Lock()
	srv.latest = max(srv.latest, by.At)
	s := srv.peers[peer]
	srv.mu.Unlock()
	if s == nil {
		return Stamp{}, false
	}
	s.mu.Lock()
	stamp := s.stamp
	s.mu.Unlock()
	if !by.Newer(stamp) {
		return stamp, stamp != by
	}
	b := srv.newBatch()
	s.evict(b, protocol.CloseReplaced, "replaced")
	b.flush()
	return Stamp{}, false
}

// SetRemote implements Local.
func (srv *Server) SetRemote(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	srv.setRemoteLocked(bus, peer, pattern, observe)
}

func (srv *Server) setRemoteLocked(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool) {
	r, ok := srv.remotes[bus]
	if !ok {
		r = &remote{bus: bus, peers: map[protocol.PeerID]*remotePeer{}}
		srv.remotes[bus] = r
	}
	p, ok := r.peers[peer]
	if !ok {
		p = &remotePeer{subscriber: subscriber{remote: r, peer: peer}, patterns: map[protocol.Pattern]bool{}}
		r.peers[peer] = p
	}
	if was, ok := p.patterns[pattern]; ok && was == observe {
		return
	}
	p.patterns[pattern] = observe
	srv.index.add(&p.subscriber, pattern, observe)
}

// SetBus implements Local.
func (srv *Server) SetBus(bus string, peers map[protocol.PeerID]map[protocol.Pattern]bool) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if r := srv.remotes[bus]; r != nil {
		for peer, p := range r.peers {
			srv.keepRemoteLocked(r, p, peers[peer])
		}
	}
	for peer, patterns := range peers {
		for pattern, observe := range patterns {
			srv.setRemoteLocked(bus, peer, pattern, observe)
		}
	}
}

// keepRemoteLocked drops the patterns of a peer that are not in patterns, and the peer
// itself if patterns is empty.
func (srv *Server) keepRemoteLocked(r *remote, p *remotePeer, patterns map[protocol.Pattern]bool) {
	if len(patterns) == 0 {
		srv.dropRemoteLocked(r, p.peer)
		return
	}
	for pattern := range p.patterns {
		if _, ok := patterns[pattern]; !ok {
			delete(p.patterns, pattern)
			srv.index.remove(&p.subscriber, pattern)
		}
	}
}

// UnsetRemote implements Local.
func (srv *Server) UnsetRemote(bus string, peer protocol.PeerID, pattern protocol.Pattern) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if r := srv.remotes[bus]; r != nil && r.peers[peer] != nil {
		p := r.peers[peer]
		delete(p.patterns, pattern)
		srv.index.remove(&p.subscriber, pattern)
	}
}

// DropRemote implements Local.
func (srv *Server) DropRemote(bus string, peer protocol.PeerID) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if r := srv.remotes[bus]; r != nil {
		srv.dropRemoteLocked(r, peer)
	}
}

func (srv *Server) dropRemoteLocked(r *remote, peer protocol.PeerID) {
	p := r.peers[peer]
	if p == nil {
		return
	}
	for pattern := range p.patterns {
		srv.index.remove(&p.subscriber, pattern)
	}
	delete(r.peers, peer)
}

// DropBus implements Local.
func (srv *Server) DropBus(bus string) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	r := srv.remotes[bus]
	if r == nil {
		return
	}
	for peer := range r.peers {
		srv.dropRemoteLocked(r, peer)
	}
	delete(srv.remotes, bus)
}
