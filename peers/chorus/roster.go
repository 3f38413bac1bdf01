package chorus

import (
	"sync"

	"hubbub/protocol"
)

// A roster holds the agents that are online.
type roster struct {
	mu     sync.Mutex // guards online
	online map[protocol.PeerID]bool
}

func newRoster() *roster { return &roster{online: map[protocol.PeerID]bool{}} }

// onPresence handles agents that join and leave the bus.
func (r *roster) onPresence(p protocol.Presence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case p.State == protocol.PresenceLeft:
		delete(r.online, p.Peer)
	case protocol.RoleOf(p.Peer) == protocol.RoleAgent:
		r.online[p.Peer] = true
	}
}

func (r *roster) isOnline(agent protocol.PeerID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.online[agent]
}
