package peer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// presenceState holds the peers on the bus, as reported by the bus.
type presenceState struct {
	handler func(protocol.Presence) // set before Run

	mu       sync.Mutex // held during calls of handler; guards the fields below
	link     *link      // the connection that reported fresh
	fresh    map[protocol.PeerID]string
	online   map[protocol.PeerID]string // the bus of each peer that is online
	complete bool                       // the bus of the link has reported all peers
	synced   bool                       // a bus has reported all peers, and no later bus has refused to
}

// HandlePresence sets the function that receives the peers on the bus, and each one that joins or
// leaves. It is called by the reader, one call at a time and in order, so it must not block.
// Peers that leave while there is no connection are reported after the next one is made. The
// function is not called if the credential does not grant bus:presence, or if the bus does not
// support it.
func (p *Peer) HandlePresence(f func(protocol.Presence)) { p.presence.handler = f }

// PresenceSynced reports whether the bus has reported all peers and reports changes. While there
// is no connection, the last reports count.
func (p *Peer) PresenceSynced() bool {
	p.presence.mu.Lock()
	defer p.presence.mu.Unlock()
	return p.presence.synced
}

// observePresence asks the bus for presence reports. The peer works without them if the bus
// refuses.
func (p *Peer) observePresence(ctx context.Context, l *link) error {
	if p.presence.handler == nil {
		return nil
	}
	err := l.subscribe(ctx, protocol.Pattern(protocol.TopicPresence), true)
	var refused *jsonrpc.Error
	if errors.As(err, &refused) {
		p.presence.mu.Lock()
		p.presence.synced = false
		p.presence.mu.Unlock()
		p.options.Log.Info().Err(err).Msg("bus:presence not granted; peers are detected by requests instead")
		return nil
	}
	return err
}

// handlePresence handles a presence report of one connection. After a reconnect, it compares the
// new reports with the old ones once they are complete: the bus reports the observer itself last.
func (p *Peer) handlePresence(l *link, d *Delivery) {
	var news protocol.Presence
	if p.presence.handler == nil || json.Unmarshal(d.Message.Content, &news) != nil {
		return
	}
	c := &p.presence
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		c.link, c.fresh, c.complete = l, map[protocol.PeerID]string{}, false
	}
	was := c.online[news.Peer]
	if c.online == nil {
		c.online = map[protocol.PeerID]string{}
	}
	// the same map once the bus has reported all peers
	for _, list := range []map[protocol.PeerID]string{c.fresh, c.online} {
		if news.State == protocol.PresenceLeft {
			delete(list, news.Peer)
		} else {
			list[news.Peer] = news.Bus
		}
	}
	if was != c.online[news.Peer] {
		c.handler(news)
	}
	if c.complete || news.Peer != p.id {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.online)) {
		if _, ok := c.fresh[id]; !ok {
			c.handler(protocol.Presence{Peer: id, State: protocol.PresenceLeft, Bus: c.online[id]})
		}
	}
	c.online, c.complete, c.synced = c.fresh, true, true
}
