package bus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"hubbub/protocol"
)

// A presence tells those who observe bus:presence who joins and leaves, here and at the
// other buses. The sweeper does it, ten times a second, for all that has changed by then:
// so who comes, or comes and goes, in between costs those who connect nothing.
type presence struct {
	srv *Server

	mu       sync.Mutex                   // guards the fields below
	observed bool                         // somebody observes
	changed  map[protocol.PeerID]struct{} // peers that have joined or left since the last look
	watchers map[*session]*watcher        // used only by the sweeper
}

// A watcher is a session that observes bus:presence.
type watcher struct {
	reported map[protocol.PeerID]string // the bus of each peer that it was told has joined
	pending  []protocol.PeerID          // of whom to tell, in this order; at most all that were ever there
	queued   map[protocol.PeerID]bool   // those in pending
}

// maxWatchers bounds those who observe bus:presence at one bus.
const maxWatchers = 1000

// noteChange says that a peer has joined or left.
func (p *presence) noteChange(id protocol.PeerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.observed {
		p.changed[id] = struct{}{}
	}
}

// takeChanges returns who has changed, and from then on notes changes if somebody observes.
func (p *presence) takeChanges(watched bool) (changed map[protocol.PeerID]struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, p.observed = p.changed, watched
	p.changed = map[protocol.PeerID]struct{}{}
	return changed
}

// maySubscribe returns nil if a session may have a subscription, or the reason why not:
// bus:presence is there to be observed.
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

// tellPresence tells each watcher what it does not know yet, as far as it has read what it
// was told before. The rest, or what is true by then, it is told later.
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
			w.enqueue(p.allPeers(s.id))
		}
		for id := range changed {
			w.enqueue([]protocol.PeerID{id})
		}
		w.notify(p, b, s)
	}
}

func (w *watcher) enqueue(ids []protocol.PeerID) {
	for _, id := range ids {
		if !w.queued[id] {
			w.queued[id] = true
			w.pending = append(w.pending, id)
		}
	}
}

func (w *watcher) notify(p *presence, b *batch, s *session) {
	for len(w.pending) > 0 && s.stream.Buffered() < p.srv.options.PeerBuffer/2 {
		id := w.pending[0]
		w.pending = w.pending[1:]
		delete(w.queued, id)
		told, bus := w.reported[id], p.busOf(id)
		switch {
		case told == bus:
			continue
		case bus == "":
			delete(w.reported, id)
			sendPresence(s, b, protocol.Presence{Peer: id, State: protocol.PresenceLeft, Bus: told})
		default:
			w.reported[id] = bus
			sendPresence(s, b, protocol.Presence{Peer: id, State: protocol.PresenceJoined, Bus: bus})
		}
	}
	if len(w.pending) > 0 {
		p.srv.metrics.limit(limitObserver)
	}
}

// sendPresence sends a session a message of the bus itself, which leaves no rows.
func sendPresence(s *session, b *batch, content protocol.Presence) {
	m := protocol.NewMessage(protocol.TypePresence, protocol.PeerID("bus:"+s.server.options.Name), content)
	payload, err := json.Marshal(m)
	if err != nil {
		return // cannot happen: strings only
	}
	params, err := json.Marshal(protocol.ProcessParams{Topic: protocol.TopicPresence, Payload: payload})
	if err != nil {
		return
	}
	s.mu.Lock()
	if !s.inactive() {
		s.observed++
		s.sendLocked(b, observerIDs+s.observed, params)
	}
	s.mu.Unlock()
	b.touch(s)
}

// allPeers returns who is there, here and at other buses, in order, and last the peer
// that asks: so it knows when it was told of all.
func (p *presence) allPeers(last protocol.PeerID) []protocol.PeerID {
	var list []protocol.PeerID
	p.srv.mu.Lock()
	for id := range p.srv.peers {
		list = append(list, id)
	}
	p.srv.mu.Unlock()
	p.srv.remoteMu.Lock()
	for _, r := range p.srv.remotes {
		for id := range r.peers {
			list = append(list, id)
		}
	}
	p.srv.remoteMu.Unlock()
	slices.SortFunc(list, func(a, b protocol.PeerID) int { return strings.Compare(string(a), string(b)) })
	return append(slices.DeleteFunc(slices.Compact(list), func(id protocol.PeerID) bool { return id == last }), last)
}

// busOf returns the bus that a peer is on, or "" if it is on none that can be
// reached.
func (p *presence) busOf(id protocol.PeerID) string {
	if s := p.srv.sessionOf(id); s != nil && s.ready.Load() {
		return p.srv.options.Name
	}
	p.srv.remoteMu.Lock()
	defer p.srv.remoteMu.Unlock()
	for _, r := range p.srv.remotes {
		if r.peers[id] != nil && !r.missing.Load() {
			return r.bus
		}
	}
	return ""
}
