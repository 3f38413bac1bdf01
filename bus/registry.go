package bus

import (
	"sync"
	"time"

	"hubbub/protocol"
)

// A registry holds the sessions of this bus and their identities.
type registry struct {
	bus        string // its name, for stamps
	maxStreams int
	readers    sync.WaitGroup // one for each open stream

	mu       sync.Mutex // guards the fields below
	closed   bool       // the bus is stopping
	streams  int        // open streams, including those of sessions that have ended
	sessions map[*session]struct{}
	peers    map[protocol.PeerID]*session
	latest   int64 // greatest Stamp.At so far of all buses, whose clocks may be ahead
}

func newRegistry(bus string, maxStreams int) *registry {
	return &registry{
		bus:        bus,
		maxStreams: maxStreams,
		sessions:   map[*session]struct{}{},
		peers:      map[protocol.PeerID]*session{},
	}
}

// add adds a session unless the registry is closed or full. The caller must call
// removeStream once the stream is closed.
func (r *registry) add(s *session) (added, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.streams >= r.maxStreams {
		return false, !r.closed
	}
	r.streams++
	r.sessions[s] = struct{}{}
	r.readers.Add(1)
	return true, false
}

// close makes add refuse all sessions.
func (r *registry) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}

// removeStream counts a stream as closed. A stream may stay open long after its session has
// ended, while a slow peer reads the last frames.
func (r *registry) removeStream() {
	r.mu.Lock()
	r.streams--
	r.mu.Unlock()
	r.readers.Done()
}

// register gives s an identity that older has; older is nil if no session has it. It returns
// false if another session has the identity now.
func (r *registry) register(s *session, id protocol.PeerID, older *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[id] != older {
		return false
	}
	r.latest = max(r.latest+1, time.Now().UnixNano())
	s.id, s.stamp = id, Stamp{At: r.latest, Bus: r.bus}
	r.peers[id] = s
	return true
}

// session returns the session of an identity, or nil.
func (r *registry) session(id protocol.PeerID) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.peers[id]
}

// owns reports whether s is still the session of m's identity. It also notes m's stamp.
func (r *registry) owns(s *session, m Member) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest = max(r.latest, m.Stamp.At)
	return r.peers[m.Peer] == s
}

// unregister takes the identity from s. It returns false if s does not have it.
func (r *registry) unregister(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.peers[s.id] != s {
		return false
	}
	delete(r.peers, s.id)
	return true
}

// remove removes a session that has ended.
func (r *registry) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s)
}

// all returns the sessions.
func (r *registry) all() []*session {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*session, 0, len(r.sessions))
	for s := range r.sessions {
		list = append(list, s)
	}
	return list
}

// identities returns the identities of the sessions, in no order.
func (r *registry) identities() []protocol.PeerID {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]protocol.PeerID, 0, len(r.peers))
	for id := range r.peers {
		list = append(list, id)
	}
	return list
}

// openStreams returns the number of open streams.
func (r *registry) openStreams() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streams
}
