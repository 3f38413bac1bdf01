package agent

import (
	"context"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// CrashWith makes the agent call f at each step after which a crash must
// neither lose nor duplicate anything: stored, started, acted, returned.
func (o *Options) CrashWith(f func(step string)) { o.failpoint = f }

// Tell gives the agent a fact as if a bus had let it through from anybody.
func (a *Agent) Tell(ctx context.Context, from protocol.PeerID, fact *protocol.CollabEvent) error {
	return a.handleCollabEvent(ctx, &peer.Delivery{Topic: a.id.Topic(), Message: protocol.NewMessage(protocol.TypeCollabEvent, from, fact)}, fact)
}
