package bus

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"hubbub/protocol"
)

// A presence sends the observers of bus:presence a message for each peer that joins or leaves,
// here or at another bus. The sweeper sends them, ten times a second, for all changes since its
// last run. So connecting costs a peer nothing, and a peer that joins and leaves between two runs
// causes no message.
type presence struct {
	srv *Server

	mu       sync.Mutex                   // guards observed and changed
	observed bool                         // at least one session observes
	changed  map[protocol.PeerID]struct{} // peers that have joined or left since the last run
	watchers map[*session]*watcher        // used only by the sweeper
}

// A watcher is a session that observes bus:presence.
type watcher struct {
	reported map[protocol.PeerID]string // the bus of each peer reported as joined
	pending  []protocol.PeerID          // peers to report, in this order, each once
	queued   map[protocol.PeerID]bool   // the peers in pending
}

// maxWatchers bounds the observers of bus:presence at one bus.
const maxWatchers = 1000

// noteChange notes that a peer has joined or left.
func (p *presence) noteChange(id protocol.PeerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.observed {
		p.changed[id] = struct{}{}
	}
}

// takeChanges returns the peers that have changed. It then notes later changes only if observed
// is set.
func (p *presence) takeChanges(observed bool) (changed map[protocol.PeerID]struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, p.observed = p.changed, observed
	p.changed = map[protocol.PeerID]struct{}{}
	return changed
}

// maySubscribe returns an error if a session may not have a subscription: bus:presence can only
// be observed.
func (p *presence) maySubscribe(pattern protocol.Pattern, observe bool) error {
	switch {
	case pattern != protocol.Pattern(protocol.TopicPresence):
		return nil
	case !observe:
		return fmt.Errorf("%s can only be observed: subscribe with \"observe\":true", pattern)
	case p.srv.index.subscribers(string(pattern)) >= maxWatchers:
		return fmt.Errorf("at most %d sessions may observe %s", maxWatchers, pattern)
	}
	return nil
}

// notify reports changes to each watcher until the watcher is slow. A later run reports the
// current state of the other peers.
func (p *presence) notify(b *batch) {
	sessions := p.srv.index.sessionsOf(string(protocol.TopicPresence))
	changed := p.takeChanges(len(sessions) > 0)
	for s := range p.watchers {
		if !slices.Contains(sessions, s) {
			delete(p.watchers, s)
		}
	}
	for _, s := range sessions {
		w, ok := p.watchers[s]
		if !ok {
			w = &watcher{reported: map[protocol.PeerID]string{}, queued: map[protocol.PeerID]bool{}}
			p.watchers[s] = w
			for _, id := range p.allPeers(s.id) {
				w.enqueue(id)
			}
		}
		for id := range changed {
			w.enqueue(id)
		}
		w.notify(p, b, s)
	}
}

func (w *watcher) enqueue(id protocol.PeerID) {
	if !w.queued[id] {
		w.queued[id] = true
		w.pending = append(w.pending, id)
	}
}

func (w *watcher) notify(p *presence, b *batch, s *session) {
	for len(w.pending) > 0 && s.stream.Buffered() < p.srv.options.PeerBuffer/2 {
		id := w.pending[0]
		w.pending = w.pending[1:]
		delete(w.queued, id)
		reported, bus := w.reported[id], p.busOf(id)
		switch {
		case reported == bus:
			continue
		case bus == "":
			delete(w.reported, id)
			p.send(b, s, protocol.Presence{Peer: id, State: protocol.PresenceLeft, Bus: reported})
		default:
			w.reported[id] = bus
			p.send(b, s, protocol.Presence{Peer: id, State: protocol.PresenceJoined, Bus: bus})
		}
	}
	if len(w.pending) > 0 {
		p.srv.metrics.limit(limitObserver)
	}
}

// send sends a session a message from the bus, which is not recorded.
func (p *presence) send(b *batch, s *session, content protocol.Presence) {
	m := protocol.NewMessage(protocol.TypePresence, protocol.PeerID("bus:"+p.srv.options.Name), content)
	payload, err := json.Marshal(m)
	if err != nil {
		return // cannot happen: strings only
	}
	params, err := json.Marshal(protocol.ProcessParams{Topic: protocol.TopicPresence, Payload: payload})
	if err != nil {
		return // cannot happen: strings only
	}
	s.mu.Lock()
	if !s.lifecycle.inactive() {
		s.window.observed++
		s.sendLocked(b, observerIDs+s.window.observed, params)
	}
	s.mu.Unlock()
	b.touch(s)
}

// allPeers returns the peers of this bus and of the others, sorted. The peer last is at the end:
// when a watcher receives its own entry, it has received all others.
func (p *presence) allPeers(last protocol.PeerID) []protocol.PeerID {
	list := slices.Concat(p.srv.sessions.identities(), p.srv.remotes.identities())
	slices.Sort(list)
	return append(slices.DeleteFunc(slices.Compact(list), func(id protocol.PeerID) bool { return id == last }), last)
}

// busOf returns the name of the bus that a peer is on, or "" if no reachable bus has it.
func (p *presence) busOf(id protocol.PeerID) string {
	if s := p.srv.sessions.session(id); s != nil && s.lifecycle.ready.Load() {
		return p.srv.options.Name
	}
	return p.srv.remotes.busOf(id)
}
