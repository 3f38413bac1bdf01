package system

import (
	"context"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// A liveness collects evidence that an agent recorded as online hangs. It may have lost its
// connection while its process is still running.
type liveness struct {
	asks     [2]time.Time // times of the last two requests for the agent
	probedAt time.Time    // time of the last probe
	absent   time.Time    // start of the series of probes that found the agent absent; zero if the last one found it
}

const (
	// A third request within frequentWithin means that the agent does not answer. A bridge makes
	// at most three requests a minute.
	frequentWithin = 90 * time.Second

	minProbeInterval = 5 * time.Second // an agent may have 200 chats
	probeTimeout     = 5 * time.Second // for the bus to answer a probe

	// minReconnect is the minimum time that an agent has to reconnect, for example after a
	// restart of the bus. Peers try every 15 s.
	minReconnect = 30 * time.Second
)

// isHung is called for each request for the agent. It reports whether the agent is hung: requests
// are frequent, and the agent has been absent longer than a reconnection may take.
func (k *supervisor) isHung(ctx context.Context, d *liveness) bool {
	now := time.Now()
	often := now.Sub(d.asks[0]) < frequentWithin
	d.asks[0], d.asks[1] = d.asks[1], now
	a, err := k.agent(ctx)
	if err != nil || !a.online || !often || now.Sub(d.probedAt) < minProbeInterval {
		return false
	}
	if now.Sub(d.probedAt) > frequentWithin {
		d.absent = time.Time{} // it may have been present in between
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

// isAbsent reports whether the agent is absent from the bus.
func (k *supervisor) isAbsent(ctx context.Context) bool {
	result, err := k.probe(ctx, k.name)
	return err == nil && result.Addressee == protocol.AddresseeAbsent
}

// probe sends an agent the event "wanted". An agent whose announcement nobody received announces
// itself again.
func (s *Spawner) probe(ctx context.Context, name AgentName) (protocol.SendResult, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	wanted := protocol.AgentOnline{Event: "wanted", Agent: name.PeerID()}
	return s.peer.Send(ctx, name.PeerID().Topic(), s.peer.NewMessage(protocol.TypeAgentEvent, wanted))
}

// probeAll probes the agents that are not online yet. They may have connected while the spawner
// was away.
func (s *Spawner) probeAll(ctx context.Context) {
	unheard, err := store.ReadAll(ctx, s.db, store.Scalar[AgentName],
		`SELECT name FROM agents WHERE state = ? AND online = 0 ORDER BY name`, stateWanted)
	for _, name := range unheard {
		if _, failure := s.probe(ctx, name); failure != nil {
			err = failure
		}
	}
	if err != nil && ctx.Err() == nil {
		s.opts.Log.Warn().Err(err).Msg("agents not probed; they announce themselves within five minutes")
	}
}
