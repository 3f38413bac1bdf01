package system

import (
	"context"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// A liveness is evidence that an agent recorded as online hangs: it may have lost its
// connection while its process still runs.
type liveness struct {
	asks     [2]time.Time // when the agent was asked for, the last two times
	probedAt time.Time    // when the bus was last asked about the agent
	absent   time.Time    // since when every look found the agent absent; zero if the last one did not
}

const (
	// frequentWithin is the time within which a third request means that the agent does
	// not answer. A bridge makes at most three requests a minute.
	frequentWithin = 90 * time.Second

	minProbeInterval = 5 * time.Second // shortest time between two looks; an agent may have 200 chats
	probeTimeout     = 5 * time.Second // for the bus to say whether the agent is there

	// minReconnect is the least time that an agent gets to connect again, for example
	// after a restart of the bus: a peer tries every 15 s.
	minReconnect = 30 * time.Second
)

// isHung is called whenever the agent is asked for. It reports whether the agent hangs:
// whether it is asked for repeatedly and has been absent for longer than it may take
// to connect.
func (k *supervisor) isHung(ctx context.Context, d *liveness) bool {
	now := time.Now()
	often := now.Sub(d.asks[0]) < frequentWithin
	d.asks[0], d.asks[1] = d.asks[1], now
	a, err := k.agent(ctx)
	if err != nil || !a.online || !often || now.Sub(d.probedAt) < minProbeInterval {
		return false
	}
	if now.Sub(d.probedAt) > frequentWithin {
		d.absent = time.Time{} // it may have been there since
	}
	d.probedAt = now
	if !k.isAbsent(ctx) {
		d.absent = time.Time{}
		return false
	}
	if d.absent.IsZero() {
		d.absent = now
	}
	patience := max(k.opts.StartTimeout, minReconnect)
	return now.Sub(d.absent) >= patience && k.listening(patience)
}

// isAbsent reports whether the agent is not on the bus.
func (k *supervisor) isAbsent(ctx context.Context) bool {
	result, err := k.probe(ctx, k.name)
	return err == nil && result.Addressee == protocol.AddresseeAbsent
}

// probe tells an agent that it is wanted: one that nobody heard yet says that it is online.
func (s *Spawner) probe(ctx context.Context, name AgentName) (protocol.SendResult, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	wanted := protocol.AgentOnline{Event: "wanted", Agent: name.PeerID()}
	return s.peer.Send(ctx, name.PeerID().Topic(), s.peer.NewMessage(protocol.TypeAgentEvent, wanted))
}

// probeAll probes the agents that the spawner has not heard: they may have come while it was
// away.
func (s *Spawner) probeAll(ctx context.Context) {
	tx := store.On(ctx, s.db)
	unheard := store.All(tx, store.Scalar[AgentName], `SELECT name FROM agents WHERE state = ? AND online = 0 ORDER BY name`, stateWanted)
	err := tx.Err()
	for _, name := range unheard {
		if _, failure := s.probe(ctx, name); failure != nil {
			err = failure
		}
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn().Err(err).Msg("agents not asked whether they are online; they say so within five minutes")
	}
}
