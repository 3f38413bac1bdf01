package chorus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// members keeps one connection to the bus for every external agent in the
// database, as they come and go.
type members struct {
	g *Gateway

	mu   sync.Mutex
	open map[AgentName]*member
}

// A member is one external agent's connection.
type member struct {
	added  int64 // tells an agent from one of the same name that was removed before
	peer   *peer.Peer
	cancel context.CancelFunc
}

// Delays of the loop over the agents.
const (
	memberScan  = 500 * time.Millisecond
	memberRetry = 15 * time.Second // after the bus refused an agent
)

func newMembers(g *Gateway) *members {
	return &members{g: g, open: map[AgentName]*member{}}
}

// of returns the connection of an agent, nil when it has none.
func (m *members) of(name AgentName) *peer.Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.open[name]; one != nil {
		return one.peer
	}
	return nil
}

// run follows the database until ctx ends, and returns when every connection
// has ended.
func (m *members) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ticker := time.NewTicker(memberScan)
	defer ticker.Stop()
	for {
		wanted, err := m.wanted(ctx)
		if err != nil && ctx.Err() == nil {
			m.g.log.Error().Err(err).Msg("the agents cannot be read; trying again")
		}
		if err == nil {
			m.follow(ctx, wanted, &wg)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (m *members) wanted(ctx context.Context) (map[AgentName]int64, error) {
	rows, err := m.g.store.db.QueryContext(ctx, `SELECT name, added_at FROM agent`)
	if err != nil {
		return nil, fmt.Errorf("listing agents: %w", err)
	}
	defer rows.Close()
	wanted := map[AgentName]int64{}
	for rows.Next() {
		var name AgentName
		var added int64
		if err := rows.Scan(&name, &added); err != nil {
			return nil, fmt.Errorf("listing agents: %w", err)
		}
		wanted[name] = added
	}
	return wanted, rows.Err()
}

// follow ends the connections of agents that are gone and begins those of new
// ones.
func (m *members) follow(ctx context.Context, wanted map[AgentName]int64, wg *sync.WaitGroup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, one := range m.open {
		if added, ok := wanted[name]; !ok || added != one.added {
			one.cancel()
			delete(m.open, name)
			m.g.log.Info().Str("agent", string(name)).Msg("the agent was removed")
		}
	}
	for name, added := range wanted {
		if m.open[name] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		one := &member{added: added, peer: m.g.newMember(name), cancel: cancel}
		m.open[name] = one
		wg.Go(func() { m.keep(ctx, name, one) })
	}
}

// keep runs one agent's connection until it is removed. What the bus refuses is
// recorded for `hubbub chorus list`, and tried again.
func (m *members) keep(ctx context.Context, name AgentName, one *member) {
	for ctx.Err() == nil {
		err := one.peer.Run(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		m.g.log.Error().Err(err).Str("agent", string(name)).Msg("the bus does not take this agent")
		if err := m.g.store.setTrouble(ctx, name, err.Error()); err != nil {
			m.g.log.Error().Err(err).Msg("the state of an agent cannot be stored")
		}
		if errors.Is(err, peer.ErrReplaced) {
			<-ctx.Done() // somebody else is this agent now; to fight over it helps nobody
			return
		}
		timer := time.NewTimer(memberRetry)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		m.mu.Lock()
		one.peer = m.g.newMember(name)
		m.mu.Unlock()
	}
}

// newMember makes the peer of one external agent.
func (g *Gateway) newMember(name AgentName) *peer.Peer {
	opts := g.peerOptions()
	opts.OnConnect = func(ctx context.Context) { g.announce(ctx, name) }
	opts.Pulse = nil // it is the gateway's own connection's
	p := peer.New(name.ID(), opts)
	take := func(ctx context.Context, d *peer.Delivery) error { return g.takeEvent(ctx, name, d) }
	p.Handle(protocol.TypeTGMessage, take)
	p.Handle(protocol.TypeChatMessage, take)
	p.Handle(protocol.TypeCollabResult, g.takeResult)
	p.Handle(protocol.TypeDeliveryStatus, g.takeStatus)
	g.subscribe(p, protocol.Pattern(name.ID()))
	return p
}

// announce says that an agent is on the bus, as every agent does.
func (g *Gateway) announce(ctx context.Context, name AgentName) {
	if err := g.store.setTrouble(ctx, name, ""); err != nil && ctx.Err() == nil {
		g.log.Error().Err(err).Msg("the state of an agent cannot be stored")
	}
	if err := g.toBus.Hurry(ctx, ""); err != nil && ctx.Err() == nil {
		g.log.Error().Err(err).Msg("waiting messages cannot be hurried")
	}
	p := g.members.of(name)
	if p == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	_, err := p.Send(ctx, protocol.TopicAgents, p.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: name.ID()}))
	if err != nil && ctx.Err() == nil {
		g.log.Warn().Err(err).Str("agent", string(name)).Msg("the agent could not announce itself")
	}
	g.log.Info().Str("agent", string(name)).Msg("the agent is on the bus")
}

// takeStatus hears what a bridge made of an agent's reply.
func (g *Gateway) takeStatus(_ context.Context, d *peer.Delivery) error {
	var s protocol.DeliveryStatus
	if err := d.Decode(&s); err != nil {
		return peer.Reject("the content of delivery_status cannot be read")
	}
	if s.Status == protocol.StatusFailed || s.Status == protocol.StatusUnknown {
		g.log.Warn().Str("message_id", string(s.MessageID)).Str("outcome", s.Status).Str("error", s.Reason).Msg("a reply did not reach its chat")
	}
	return nil
}
