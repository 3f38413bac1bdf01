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

// presenceState is who is on the bus, as the bus told of it.
type presenceState struct {
	handler func(protocol.Presence) // set before Run

	mu       sync.Mutex // held during calls of told; guards the fields below
	link     *link      // that told of fresh
	fresh    map[protocol.PeerID]string
	online   map[protocol.PeerID]string // the bus of each peer
	complete bool                       // the bus of the link has told of all
	synced   bool                       // a bus has told of all, and no later one has refused to
}

// HandlePresence sets what is called with who is on the bus and who joins and leaves: one
// call at a time and in order, in the reader, so it must not block. Who left while there
// was no connection is told of after the next one. Nothing is called where the credential
// does not grant bus:presence, or the bus does not know it.
func (p *Peer) HandlePresence(f func(protocol.Presence)) { p.presence.handler = f }

// PresenceSynced reports whether the bus has told of all who are there, and tells of changes. While
// there is no connection, what it told stands.
func (p *Peer) PresenceSynced() bool {
	p.presence.mu.Lock()
	defer p.presence.mu.Unlock()
	return p.presence.synced
}

// observePresence asks the bus to tell who is there. A bus that refuses is no reason to do without
// it.
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
		p.options.Log.Info().Err(err).Msg("bus:presence not granted; who is there is found out by asking")
		return nil
	}
	return err
}

// handlePresence takes what the bus told on one connection. After the first connection it
// compares: the bus tells of the observer itself last.
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
	for _, list := range []map[protocol.PeerID]string{c.fresh, c.online} { // one and the same once the bus told of all
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
