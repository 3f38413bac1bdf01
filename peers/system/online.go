package system

import (
	"context"
	"fmt"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// handleAgentEvent handles events from agents on the system's topics. The event "online" marks an
// agent as online; any event shows that it is in use. Events from the broker may request an
// agent.
func (s *Spawner) handleAgentEvent(ctx context.Context, d *peer.Delivery) error {
	from := d.Message.From
	if from == protocol.PeerBroker {
		return s.handleWanted(ctx, d)
	}
	if protocol.RoleOf(from) != protocol.RoleAgent {
		return nil // the spawner itself, or not an agent
	}
	name := AgentName(from.Name())
	if k := s.supervisor(name); k != nil {
		k.touch()
	}
	var c protocol.AgentOnline
	if d.Topic != protocol.TopicAgents || d.Decode(&c) != nil || c.Event != "online" {
		return nil
	}
	if c.Agent != "" && c.Agent != from {
		return peer.Reject(fmt.Sprintf("%s cannot announce %s", from, c.Agent))
	}
	s.opts.failpoint("online received")
	if err := store.InTx(ctx, s.db, func(tx *store.Tx) { s.setOnline(tx, name) }); err != nil {
		return fmt.Errorf("storing that %s is online: %w", from, err)
	}
	s.opts.failpoint("online stored")
	if k := s.supervisor(name); k != nil {
		k.changed.Notify()
	}
	return nil
}

// handleWanted starts an idle agent for which the broker has a delivery. The agent gets the
// delivery when it announces itself to the broker. Agents that run, have failed or are unknown
// are not started.
func (s *Spawner) handleWanted(ctx context.Context, d *peer.Delivery) error {
	var c protocol.AgentOnline
	if d.Decode(&c) != nil || c.Event != "wanted" || protocol.RoleOf(c.Agent) != protocol.RoleAgent {
		return nil
	}
	name, woken := AgentName(c.Agent.Name()), false
	err := store.InTx(ctx, s.db, func(tx *store.Tx) {
		a := findAgent(tx, name)
		if a.state != stateIdle {
			return
		}
		if refusal := s.checkBounds(tx); refusal != nil {
			s.opts.Log.Warn().Str("peer", string(c.Agent)).Str("delivery",
				c.DeliveryID).Err(refusal).Msg("agent not started for a wake")
			return
		}
		tx.Exec(toWanted, name, a.profile, a.derived, time.Now().UnixMicro())
		s.announceEvent(tx, "wanted", name, "delivery "+c.DeliveryID+" is waiting for it")
		woken = true
	})
	if err != nil {
		return fmt.Errorf("storing that %s is wanted: %w", c.Agent, err)
	}
	if woken {
		s.supervise(name, true)
	}
	return nil
}

// setOnline records that an agent is online and answers the requests that wait for it. It ignores
// agents of others.
func (s *Spawner) setOnline(tx *store.Tx, name AgentName) {
	a := findAgent(tx, name)
	if a.state != stateWanted {
		return
	}
	tx.Exec(toOnline, name)
	s.answerAll(tx, name, nil)
	if !a.online {
		s.announceEvent(tx, "spawned", name, "")
	}
}

// answerAll answers every request that waits for an agent, and returns their number.
func (s *Spawner) answerAll(tx *store.Tx, name AgentName, failure error) int {
	requests := pendingRequests(tx, name)
	for _, r := range requests {
		s.answer(tx, r, name, failure)
	}
	return len(requests)
}

// giveUp records that an agent has failed and notifies the requesters that wait for it, or else
// its chats.
func (s *Spawner) giveUp(ctx context.Context, name AgentName, cause error) error {
	err := store.InTx(ctx, s.db, func(tx *store.Tx) {
		tx.Exec(toFailed, name, cause.Error())
		if s.answerAll(tx, name, cause) == 0 {
			s.notifyChats(tx, name, cause)
		}
		s.retireCredentials(tx, name)
		s.announceEvent(tx, "failed", name, publicMessage(cause))
	})
	if err != nil {
		return fmt.Errorf("storing that %s has failed: %w", name, err)
	}
	return nil
}

// notifyChats queues a failed spawn_result, without a request, for each chat of an agent.
func (s *Spawner) notifyChats(tx *store.Tx, name AgentName, cause error) {
	for _, topic := range topicsOf(tx, name) {
		m := s.peer.NewMessage(protocol.TypeSpawnResult, protocol.SpawnResult{
			Topic: topic, Agent: name.PeerID(), Status: protocol.SpawnFailed, Error: publicMessage(cause),
		})
		s.announce(tx, announcement{Topic: topic, Message: m})
	}
}
