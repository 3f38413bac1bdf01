package bus

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// A Cluster joins this bus with others. Package bus/cluster is one, over NATS.
// Its methods are called on the hot path: they must not block.
type Cluster interface {
	// Attach gives the cluster its bus, before anything else is called.
	Attach(Local)
	// Joined is called when a session took an identity, Left when it ended. It does not
	// end if another session took the identity over: that one has joined.
	Joined(m Member)
	Left(peer protocol.PeerID, stamp Stamp)
	// Subscribed and Unsubscribed are called when a session's patterns change.
	Subscribed(peer protocol.PeerID, pattern protocol.Pattern, observe bool)
	Unsubscribed(peer protocol.PeerID, pattern protocol.Pattern)
	// Forward sends a message to another bus. It calls Done or Lost once, unless
	// f.Peers is empty.
	Forward(f *Forward)
	// CheckDuplicate asks the other buses whether this one may deliver a message that was sent
	// with once, and calls done once, with what they say. A bus that cannot be reached
	// says nothing.
	CheckDuplicate(who DedupKey, done func([]DedupReply, error))
	// ShareOutcome tells the other buses the outcome of such a message.
	ShareOutcome(who DedupKey, answer []byte)
	// FailPending calls Lost on each forward without an outcome, and on all later ones, and
	// ends what CheckDuplicate waits for: the bus is stopping.
	FailPending(reason string)
	// Missing returns the buses that are out of reach, and nil if none is. It is empty
	// if there may be some that this bus does not know.
	Missing() []string
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
	// RemoteJoined notes that another bus has a session of an identity, and takes the identity
	// from every older session, here and elsewhere, at once. If a session of this bus is
	// newer, it returns that one and true. It ignores a claim that is older than what it
	// knows of another bus.
	RemoteJoined(bus string, m Member) (newer Member, ok bool)
	// AddRemotePattern adds or changes a pattern of a peer of another bus, RemoveRemotePattern
	// removes it. Both do nothing unless that bus has the identity. RemoveRemotePeer removes
	// the session of a peer, RemoveBus a whole bus.
	AddRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool)
	RemoveRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern)
	RemoveRemotePeer(bus string, peer protocol.PeerID, stamp Stamp)
	RemoveBus(bus string)
	// SetBusMissing says whether a bus is out of reach. Its peers are still known, and named as
	// offline in the results of the messages that they would have got.
	SetBusMissing(bus string, missing bool)
	// RetainRemotePeers removes those peers of a bus whose sessions are not in the map.
	RetainRemotePeers(bus string, sessions map[protocol.PeerID]Stamp)
	// Deliver delivers a message that another bus accepted to those of this bus's sessions
	// that it names. It calls done once with the outcome, and does not wait for it.
	Deliver(m AcceptedMessage, to []protocol.PeerID, done func(Result))
	// AnswerDuplicateCheck answers another bus's CheckDuplicate. StoreOutcome takes what it told.
	AnswerDuplicateCheck(asker BusInstance, who DedupKey) DedupReply
	StoreOutcome(who DedupKey, answer []byte)
}

// A Member is one session, as the buses tell each other of it.
type Member struct {
	Peer     protocol.PeerID           `json:"peer"`
	Stamp    Stamp                     `json:"stamp"`
	Patterns map[protocol.Pattern]bool `json:"patterns,omitempty"` // value: observe
}

// An AcceptedMessage message was accepted, and so checked, by this bus or another one.
type AcceptedMessage struct {
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
	Absent      []protocol.PeerID  `json:"gone,omitempty"` // of those named, who is not here and was not sent the message
}

// A Forward is one message on its way to one other bus.
type Forward struct {
	Bus     string
	Peers   []protocol.PeerID // whose answers are waited for; none if all of them observe
	Observe []protocol.PeerID // whose answers nobody waits for
	Message AcceptedMessage
	Expires time.Time // when to give up

	publication *publication
	missing     bool // the bus is out of reach
}

// forwards returns one Forward for each other bus that has targets whose answers are
// waited for. To a bus whose targets all observe it sends the message at once. An identity
// is named to one bus at most, since at most one bus holds it in the index: so no message
// reaches two sessions of it, however stale this bus or the other one is.
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

// forward makes a Forward to one bus.
func (p *publication) forward(r *remote) *Forward {
	return &Forward{
		Bus: r.bus, publication: p, Expires: p.accepted.Add(p.server.options.DeliveryTimeout + time.Second),
		Message: p.message, missing: r.missing.Load(),
	}
}

// send hands a Forward to the cluster, unless its bus is out of reach.
func (f *Forward) send() {
	if f.missing {
		f.Fail("is out of reach", false)
		return
	}
	f.publication.server.options.Cluster.Forward(f)
}

// Complete adds the other bus's outcome to that of the message. A peer that is not there any
// more is looked for where it is now.
func (f *Forward) Complete(r Result) {
	p := f.publication
	gone := slices.DeleteFunc(r.Absent, func(id protocol.PeerID) bool { return !slices.Contains(f.Peers, id) })
	b := p.server.newBatch()
	p.mu.Lock()
	o := &p.outcome
	o.Targets += r.Targets + len(gone) - len(f.Peers)
	o.DeliveredTo += r.DeliveredTo
	o.Failures = append(o.Failures, r.Failures...)
	if o.Addressee != "" {
		o.Addressee = best(o.Addressee, r.Addressee)
	}
	p.waiting += len(gone)
	p.mu.Unlock()
	for _, id := range gone {
		if !p.follow(b, id, f.Bus) {
			p.offline(b, id, "the bus "+f.Bus+" refused it: the peer has left it, or the message came too late", false)
			p.release(b)
		}
	}
	p.release(b)
	b.flush()
}

// maxMoves is how often a message follows a peer from bus to bus.
const maxMoves = 3

// follow sends a message to where a peer is now that was not sent it at another bus; an
// empty name is this bus. It returns false if the peer is nowhere else, or if the sender
// has sent more since, which the peer may have got: order comes first. The caller has a
// wait of the publication for this peer, which it hands over.
func (p *publication) follow(b *batch, id protocol.PeerID, was string) bool {
	s := p.sender
	if b.routing != s {
		if !s.order.TryLock() {
			return false
		}
		defer s.order.Unlock()
	}
	if p.moves >= maxMoves || p.number != s.published {
		return false
	}
	p.moves++
	srv, topic := p.server, p.message.Topic
	if ours := srv.sessionOf(id); ours != nil && was != "" {
		d := &delivery{publication: p, target: ours}
		row := d.startRow()
		b.record(row)
		d.redirectTo(b, ours)
		return true
	}
	srv.remoteMu.Lock()
	r := srv.remotes.subscribedTo(id, topic)
	srv.remoteMu.Unlock()
	if r == nil || r.bus == was || r.missing.Load() {
		return false
	}
	f := p.forward(r)
	f.Peers = []protocol.PeerID{id}
	f.send()
	return true
}

// subscribedTo returns the bus that has a session of an identity that hears a topic, or nil.
func (all remotes) subscribedTo(id protocol.PeerID, topic string) *remote {
	for _, r := range all {
		if p := r.peers[id]; p != nil && subscribesTo(p.patterns, topic) {
			return r
		}
	}
	return nil
}

// Fail ends a forward to a bus that cannot be reached. Its peers count as offline, and
// this bus records that, since the other one may be unable to. written says that the
// message may have reached the other bus.
func (f *Forward) Fail(reason string, written bool) {
	if len(f.Peers) == 0 {
		return // nobody waits
	}
	p := f.publication
	b := p.server.newBatch()
	for _, peer := range f.Peers {
		p.offline(b, peer, fmt.Sprintf("the bus %s of this peer %s", f.Bus, reason), written)
	}
	p.mu.Lock()
	p.partial = true
	if !slices.Contains(p.missing, f.Bus) {
		p.missing = append(slices.Clip(p.missing), f.Bus)
	}
	p.releaseAndUnlock(b)
	b.flush()
}

// offline records that a message did not reach a peer of another bus.
func (p *publication) offline(b *batch, peer protocol.PeerID, text string, written bool) {
	p.mu.Lock()
	o := &p.outcome
	o.Failures = append(o.Failures, protocol.Failure{Peer: peer, Status: protocol.OutcomeOffline, Error: text, Written: written})
	if o.Addressee != "" && addresses(peer, protocol.PeerID(p.message.Topic)) {
		o.Addressee = best(o.Addressee, protocol.AddresseeFailed)
	}
	p.mu.Unlock()
	b.record(activitylog.Row{
		At: b.now(), Event: activitylog.ProcessFinish, MessageID: p.message.MessageID, Actor: string(peer), Topic: p.message.Topic,
		Status: string(protocol.OutcomeOffline), Error: text, Of: &p.sending,
	})
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
	bus     string
	missing atomic.Bool // it is out of reach
	peers   map[protocol.PeerID]*remotePeer
}

type remotePeer struct {
	subscriber
	stamp    Stamp // of its session
	patterns map[protocol.Pattern]bool
}

var _ Local = (*Server)(nil)

// Subscriptions returns the number of subscriptions that this bus routes to, those of
// other buses' peers included, and how many of them only observe.
func (srv *Server) Subscriptions() (all, observing int) { return srv.index.size() }

// Deliver implements Local.
func (srv *Server) Deliver(m AcceptedMessage, to []protocol.PeerID, done func(Result)) {
	b := srv.newBatch()
	p := newPublication(srv, b.at, nil, protocol.Send{Topic: m.Topic, Payload: m.Payload, MessageID: m.MessageID, From: m.From}, m.Names)
	p.onFinish = func(_ *batch, r Result) { done(r) }
	var targets []target
	targets, p.outcome.Absent = srv.selectNamed(srv.index.targets(m.Topic), to, m.Topic)
	p.route(b, targets)
	b.flush()
}

// selectNamed returns the targets whose sessions are of this bus and named, and who of those
// selectNamed is not here.
func (srv *Server) selectNamed(targets []target, to []protocol.PeerID, topic string) (named []target, gone []protocol.PeerID) {
	found := make(map[protocol.PeerID]bool, len(to))
	for _, id := range to {
		found[id] = false
	}
	for _, t := range targets {
		if t.session == nil {
			continue
		}
		if _, ok := found[t.session.id]; ok {
			found[t.session.id] = true
			named = append(named, t)
		}
	}
	for id, ok := range found {
		if !ok && !unsubscribed(srv.sessionOf(id), topic) {
			gone = append(gone, id)
		}
	}
	return named, gone
}

// unsubscribed reports whether a session is there and does not want messages of a topic any more.
// One that wants them has come since the targets were looked up.
func unsubscribed(s *session, topic string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !subscribesTo(s.patterns, topic)
}

// Members implements Local.
func (srv *Server) Members() []Member {
	var list []Member
	for _, s := range srv.allSessions() {
		s.mu.Lock()
		if s.ready.Load() && !s.ended {
			list = append(list, s.memberLocked())
		}
		s.mu.Unlock()
	}
	return list
}

func (s *session) memberLocked() Member {
	return Member{Peer: s.id, Stamp: s.stamp, Patterns: maps.Clone(s.patterns)}
}

// RemoteJoined implements Local.
func (srv *Server) RemoteJoined(bus string, m Member) (newer Member, ok bool) {
	for {
		ours := srv.sessionOf(m.Peer)
		newer, unsent, outcome := srv.claimFrom(ours, bus, m)
		switch outcome {
		case takenByAnother:
			continue
		case takeEnded:
			return newer, newer.Stamp != m.Stamp
		}
		if ours != nil {
			b := srv.newBatch()
			ours.finishTakeover(b, unsent)
			b.flush()
		}
		return Member{}, false
	}
}

// claimFrom is Claim if ours is this bus's session of the identity; nil if it has none.
// It returns takeEnded and the newer session if ours is not older.
func (srv *Server) claimFrom(ours *session, bus string, m Member) (newer Member, unsent []*delivery, outcome int) {
	if ours != nil {
		ours.mu.Lock()
		defer ours.mu.Unlock()
	}
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if !srv.ownsIdentity(ours, m) {
		return newer, nil, takenByAnother
	}
	if ours != nil && !m.Stamp.Newer(ours.stamp) {
		return ours.memberLocked(), nil, takeEnded
	}
	for name, r := range srv.remotes {
		if p := r.peers[m.Peer]; p != nil && name != bus && !m.Stamp.Newer(p.stamp) {
			return newer, nil, taken // ours is no longer in question: the other bus ends it, or has
		}
	}
	if p := srv.remotes.session(bus, m.Peer); p != nil && p.stamp == m.Stamp && maps.Equal(p.patterns, m.Patterns) {
		return newer, nil, taken // known already
	}
	losers := srv.remotes.drop(m.Peer)
	if ours != nil {
		srv.unregister(ours)
		var held patternSet
		held, unsent = ours.retireLocked()
		losers = append(losers, held)
	}
	r, ok := srv.remotes[bus]
	if !ok {
		r = &remote{bus: bus, peers: map[protocol.PeerID]*remotePeer{}}
		srv.remotes[bus] = r
	}
	patterns := m.Patterns
	if patterns == nil {
		patterns = map[protocol.Pattern]bool{}
	}
	p := &remotePeer{subscriber: subscriber{remote: r, peer: m.Peer}, stamp: m.Stamp, patterns: patterns}
	r.peers[m.Peer] = p
	srv.index.replace(losers, patternSet{&p.subscriber, p.patterns})
	srv.presence.noteChange(m.Peer)
	return newer, unsent, taken
}

// ownsIdentity reports whether s is still this bus's session of an identity, and notes the
// stamp of a claim to it.
func (srv *Server) ownsIdentity(s *session, m Member) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.latest = max(srv.latest, m.Stamp.At)
	return srv.peers[m.Peer] == s
}

// remotes are the other buses, by name.
type remotes map[string]*remote

// drop removes the sessions that other buses have of an identity. The caller must remove the
// patterns that it returns from the index.
func (all remotes) drop(id protocol.PeerID) (losers []patternSet) {
	for _, r := range all {
		if p := r.peers[id]; p != nil {
			delete(r.peers, id)
			losers = append(losers, patternSet{&p.subscriber, p.patterns})
		}
	}
	return losers
}

// session returns the session that a bus has of an identity, or nil.
func (all remotes) session(bus string, peer protocol.PeerID) *remotePeer {
	if r := all[bus]; r != nil {
		return r.peers[peer]
	}
	return nil
}

// AddRemotePattern implements Local.
func (srv *Server) AddRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if p := srv.remotes.session(bus, peer); p != nil {
		p.patterns[pattern] = observe
		srv.index.add(&p.subscriber, pattern, observe)
	}
}

// RemoveRemotePattern implements Local.
func (srv *Server) RemoveRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if p := srv.remotes.session(bus, peer); p != nil {
		delete(p.patterns, pattern)
		srv.index.remove(&p.subscriber, pattern)
	}
}

// RemoveRemotePeer implements Local.
func (srv *Server) RemoveRemotePeer(bus string, peer protocol.PeerID, stamp Stamp) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if p := srv.remotes.session(bus, peer); p != nil && p.stamp == stamp {
		srv.dropRemoteLocked(p)
	}
}

func (srv *Server) dropRemoteLocked(p *remotePeer) {
	delete(p.remote.peers, p.peer)
	srv.presence.noteChange(p.peer)
	srv.index.replace([]patternSet{{&p.subscriber, p.patterns}}, patternSet{})
}

// RetainRemotePeers implements Local.
func (srv *Server) RetainRemotePeers(bus string, sessions map[protocol.PeerID]Stamp) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	r := srv.remotes[bus]
	if r == nil {
		return
	}
	for peer, p := range r.peers {
		if sessions[peer] != p.stamp {
			srv.dropRemoteLocked(p)
		}
	}
}

// SetBusMissing implements Local.
func (srv *Server) SetBusMissing(bus string, missing bool) {
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	if r := srv.remotes[bus]; r != nil {
		r.missing.Store(missing)
		for id := range r.peers {
			srv.presence.noteChange(id)
		}
	}
}

// RemoveBus implements Local.
func (srv *Server) RemoveBus(bus string) {
	srv.RetainRemotePeers(bus, nil)
	srv.remoteMu.Lock()
	defer srv.remoteMu.Unlock()
	delete(srv.remotes, bus)
}
