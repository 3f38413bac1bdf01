package system

import (
	"context"
	"time"

	"hubbub/protocol"
)

// A doubt is evidence that an agent recorded as online hangs: it may have lost its
// connection while its process still runs.
type doubt struct {
	asks   [2]time.Time // when the agent was asked for, the last two times
	looked time.Time    // when the bus was last asked about the agent
	absent time.Time    // since when every look found the agent absent; zero if the last one did not
}

const (
	// askedOften is the time within which a third request means that the agent does
	// not answer. A bridge makes at most three requests a minute.
	askedOften = 90 * time.Second

	lookEvery    = 5 * time.Second // shortest time between two looks; an agent may have 200 chats
	probeTimeout = 5 * time.Second // for the bus to say whether the agent is there

	// comeBack is the least time that an agent gets to connect again, for example
	// after a restart of the bus: a peer tries every 15 s.
	comeBack = 30 * time.Second
)

// gone is called whenever the agent is asked for. It reports whether the agent hangs:
// whether it is asked for repeatedly and has been absent for longer than it may take
// to connect.
func (k *keeper) gone(ctx context.Context, d *doubt) bool {
	now := time.Now()
	often := now.Sub(d.asks[0]) < askedOften
	d.asks[0], d.asks[1] = d.asks[1], now
	a, err := k.agent(ctx)
	if err != nil || !a.online || !often || now.Sub(d.looked) < lookEvery {
		return false
	}
	if now.Sub(d.looked) > askedOften {
		d.absent = time.Time{} // it may have been there since
	}
	d.looked = now
	if !k.isAbsent(ctx) {
		d.absent = time.Time{}
		return false
	}
	if d.absent.IsZero() {
		d.absent = now
	}
	patience := max(k.opts.StartTimeout, comeBack)
	return now.Sub(d.absent) >= patience && k.listening(patience)
}

// isAbsent reports whether the agent is not on the bus. It tells the agent that it is
// wanted, and looks at what the bus answers.
func (k *keeper) isAbsent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	wanted := protocol.AgentOnline{Event: "wanted", Agent: k.name.PeerID()}
	result, err := k.peer.Send(ctx, k.name.PeerID().Topic(), k.peer.NewMessage(protocol.TypeAgentEvent, wanted))
	return err == nil && result.Addressee == protocol.AddresseeAbsent
}
