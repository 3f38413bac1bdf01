package system

import (
	"context"
	"time"

	"hubbub/protocol"
)

// A doubt is what speaks against an agent that is stored as online: one that hangs
// may have lost its connection, and its process tells nothing of it.
type doubt struct {
	asks   [2]time.Time // the last two times when it was asked for
	looked time.Time    // when the bus was last asked for it
	absent time.Time    // since when it was not on the bus whenever that was looked at; zero for no doubt
}

const (
	// askedOften is the time within which a third request says that the agent does
	// not answer. A bridge makes three a minute at most.
	askedOften = 90 * time.Second

	lookEvery    = 5 * time.Second // the bus is asked no more often; an agent may have 200 chats
	probeTimeout = 5 * time.Second // for the bus to say whether the agent is there

	// comeBack is how long an agent may take at least to connect again, as when the
	// bus was started again: a peer tries every 15 s.
	comeBack = 30 * time.Second
)

// gone is called when the agent is asked for. It reports whether the agent hangs:
// it is asked for again and again, and has not been on the bus for as long as it
// may take to come.
func (k *keeper) gone(ctx context.Context, d *doubt) bool {
	now := time.Now()
	often := now.Sub(d.asks[0]) < askedOften
	d.asks[0], d.asks[1] = d.asks[1], now
	a, err := findAgent(ctx, k.db, k.name)
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

// isAbsent asks the bus whether the agent is not there, by telling the agent that
// it is wanted.
func (k *keeper) isAbsent(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	wanted := protocol.AgentOnline{Event: "wanted", Agent: k.name.PeerID()}
	result, err := k.peer.Send(ctx, k.name.PeerID().Topic(), k.peer.NewMessage(protocol.TypeAgentEvent, wanted))
	return err == nil && result.Addressee == protocol.AddresseeAbsent
}
