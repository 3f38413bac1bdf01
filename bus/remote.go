package bus

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/protocol"
)

// A remote is another bus of the cluster.
type remote struct {
	bus     string
	missing atomic.Bool // it is out of reach
	peers   map[protocol.PeerID]*remotePeer
}

// A remotePeer is the session of a peer at another bus.
type remotePeer struct {
	subscriber
	stamp    Stamp
	patterns map[protocol.Pattern]bool // value: observe
}

// A remoteTable holds the other buses and their peers.
type remoteTable struct {
	mu    sync.Mutex // guards the table and everything in it, except remote.missing
	buses map[string]*remote
}

// removeLocked removes the sessions of an identity at all other buses. The caller must
// remove the patterns that it returns from the index.
func (t *remoteTable) removeLocked(id protocol.PeerID) (removed []patternSet) {
	for _, r := range t.buses {
		if p := r.peers[id]; p != nil {
			delete(r.peers, id)
			removed = append(removed, patternSet{&p.subscriber, p.patterns})
		}
	}
	return removed
}

// peerLocked returns the session of a peer at a bus, or nil.
func (t *remoteTable) peerLocked(bus string, peer protocol.PeerID) *remotePeer {
	if r := t.buses[bus]; r != nil {
		return r.peers[peer]
	}
	return nil
}

// addLocked adds the session of a peer at a bus.
func (t *remoteTable) addLocked(bus string, m Member) *remotePeer {
	r, ok := t.buses[bus]
	if !ok {
		r = &remote{bus: bus, peers: map[protocol.PeerID]*remotePeer{}}
		t.buses[bus] = r
	}
	patterns := m.Patterns
	if patterns == nil {
		patterns = map[protocol.Pattern]bool{}
	}
	p := &remotePeer{subscriber: subscriber{remote: r, peer: m.Peer}, stamp: m.Stamp, patterns: patterns}
	r.peers[m.Peer] = p
	return p
}

// subscribedTo returns the bus that has a session of the identity with a subscription to
// the topic, or nil.
func (t *remoteTable) subscribedTo(id protocol.PeerID, topic string) *remote {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.buses {
		if p := r.peers[id]; p != nil && subscribesTo(p.patterns, topic) {
			return r
		}
	}
	return nil
}

// identities returns the peers of all other buses, in no order.
func (t *remoteTable) identities() (list []protocol.PeerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.buses {
		for id := range r.peers {
			list = append(list, id)
		}
	}
	return list
}

// busOf returns the name of the reachable bus that a peer is on, or "".
func (t *remoteTable) busOf(id protocol.PeerID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.buses {
		if r.peers[id] != nil && !r.missing.Load() {
			return r.bus
		}
	}
	return ""
}

var _ Local = (*Server)(nil)

// Subscriptions returns the number of subscriptions that this bus routes to, including those of
// peers of other buses, and how many of them only observe.
func (srv *Server) Subscriptions() (all, observing int) { return srv.index.size() }

// Deliver implements Local.
func (srv *Server) Deliver(m AcceptedMessage, to []protocol.PeerID, done func(Result)) {
	b := srv.newBatch()
	send := protocol.Send{Topic: m.Topic, Payload: m.Payload, MessageID: m.MessageID, From: m.From}
	p := newPublication(srv, b.at, nil, send, m.Names)
	p.onFinish = func(_ *batch, r Result) { done(r) }
	var targets []target
	targets, p.outcome.Absent = srv.selectNamed(srv.index.targets(m.Topic), to, m.Topic)
	p.route(b, targets)
	b.flush()
}

// selectNamed returns the targets that are named sessions of this bus, and the named peers that
// are absent.
func (srv *Server) selectNamed(
	targets []target, names []protocol.PeerID, topic string,
) (selected []target, absent []protocol.PeerID) {
	found := make(map[protocol.PeerID]bool, len(names))
	for _, id := range names {
		found[id] = false
	}
	for _, t := range targets {
		if t.session == nil {
			continue
		}
		if _, ok := found[t.session.id]; ok {
			found[t.session.id] = true
			selected = append(selected, t)
		}
	}
	for id, ok := range found {
		if !ok && !unsubscribed(srv.sessions.session(id), topic) {
			absent = append(absent, id)
		}
	}
	return selected, absent
}

// unsubscribed reports whether s exists but is no longer subscribed to the topic. If it is
// subscribed, it joined after the targets were looked up.
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
	for _, s := range srv.sessions.all() {
		s.mu.Lock()
		if s.lifecycle.ready.Load() && !s.lifecycle.ended {
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
		ours := srv.sessions.session(m.Peer)
		newer, unsent, outcome := srv.tryRemoteJoined(ours, bus, m)
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

// tryRemoteJoined attempts RemoteJoined. ours is this bus's session of the identity, or nil. If
// ours is not older, it returns takeEnded and ours.
func (srv *Server) tryRemoteJoined(
	ours *session, bus string, m Member,
) (newer Member, unsent []*delivery, outcome int) {
	if ours != nil {
		ours.mu.Lock()
		defer ours.mu.Unlock()
	}
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	if !srv.sessions.owns(ours, m) {
		return newer, nil, takenByAnother
	}
	if ours != nil && !m.Stamp.Newer(ours.stamp) {
		return ours.memberLocked(), nil, takeEnded
	}
	for name, r := range srv.remotes.buses {
		if p := r.peers[m.Peer]; p != nil && name != bus && !m.Stamp.Newer(p.stamp) {
			return newer, nil, taken // m is outdated, and that other bus ends the older sessions
		}
	}
	p := srv.remotes.peerLocked(bus, m.Peer)
	if p != nil && p.stamp == m.Stamp && maps.Equal(p.patterns, m.Patterns) {
		return newer, nil, taken // already known
	}
	losers := srv.remotes.removeLocked(m.Peer)
	if ours != nil {
		srv.unregister(ours)
		var held patternSet
		held, unsent = ours.retireLocked()
		losers = append(losers, held)
	}
	p = srv.remotes.addLocked(bus, m)
	srv.index.replace(losers, patternSet{&p.subscriber, p.patterns})
	srv.presence.noteChange(m.Peer)
	return newer, unsent, taken
}

// AddRemotePattern implements Local.
func (srv *Server) AddRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool) {
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	if p := srv.remotes.peerLocked(bus, peer); p != nil {
		p.patterns[pattern] = observe
		srv.index.add(&p.subscriber, pattern, observe)
	}
}

// RemoveRemotePattern implements Local.
func (srv *Server) RemoveRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern) {
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	if p := srv.remotes.peerLocked(bus, peer); p != nil {
		delete(p.patterns, pattern)
		srv.index.remove(&p.subscriber, pattern)
	}
}

// RemoveRemotePeer implements Local.
func (srv *Server) RemoveRemotePeer(bus string, peer protocol.PeerID, stamp Stamp) {
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	if p := srv.remotes.peerLocked(bus, peer); p != nil && p.stamp == stamp {
		srv.removeRemotePeerLocked(p)
	}
}

func (srv *Server) removeRemotePeerLocked(p *remotePeer) {
	delete(p.remote.peers, p.peer)
	srv.presence.noteChange(p.peer)
	srv.index.replace([]patternSet{{&p.subscriber, p.patterns}}, patternSet{})
}

// RetainRemotePeers implements Local.
func (srv *Server) RetainRemotePeers(bus string, sessions map[protocol.PeerID]Stamp) {
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	r := srv.remotes.buses[bus]
	if r == nil {
		return
	}
	for peer, p := range r.peers {
		if sessions[peer] != p.stamp {
			srv.removeRemotePeerLocked(p)
		}
	}
}

// SetBusMissing implements Local.
func (srv *Server) SetBusMissing(bus string, missing bool) {
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	if r := srv.remotes.buses[bus]; r != nil {
		r.missing.Store(missing)
		for id := range r.peers {
			srv.presence.noteChange(id)
		}
	}
}

// RemoveBus implements Local.
func (srv *Server) RemoveBus(bus string) {
	srv.RetainRemotePeers(bus, nil)
	srv.remotes.mu.Lock()
	defer srv.remotes.mu.Unlock()
	delete(srv.remotes.buses, bus)
}

// AnswerDuplicateCheck implements Local.
func (srv *Server) AnswerDuplicateCheck(asker BusInstance, key DedupKey) DedupReply {
	return srv.dedup.check(time.Now(), srv.options.Name, asker, key)
}

// StoreOutcome implements Local.
func (srv *Server) StoreOutcome(key DedupKey, answer []byte) {
	b := srv.newBatch()
	for _, w := range srv.dedup.storeRemote(b.at, key, answer) {
		w.answer(b, answer, nil)
	}
	b.flush()
}
