package system

import (
	"context"
	"fmt"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// takeAgentEvent takes what agents say on the system's topics: that they are online,
// and, by anything else, that they are in use.
func (s *Spawner) takeAgentEvent(ctx context.Context, d *peer.Delivery) error {
	from := d.Message.From
	if protocol.RoleOf(from) != protocol.RoleAgent {
		return nil // ourselves, or no agent
	}
	name := AgentName(from.Name())
	if k := s.keeper(name); k != nil {
		k.touch()
	}
	var c protocol.AgentOnline
	if d.Topic != protocol.TopicAgents || d.Decode(&c) != nil || c.Event != "online" {
		return nil
	}
	if c.Agent != "" && c.Agent != from {
		return peer.Reject(fmt.Sprintf("%s cannot say that %s is online", from, c.Agent))
	}
	s.opts.crash("online received")
	if err := store.InTx(ctx, s.db, func(tx *store.Tx) { s.setOnline(tx, name) }); err != nil {
		return fmt.Errorf("storing that %s is online: %w", from, err)
	}
	s.opts.crash("online stored")
	if k := s.keeper(name); k != nil {
		signal(k.changed)
	}
	return nil
}

// setOnline records that an agent is online and answers the requests that wait for
// it. It ignores agents that the spawner does not run.
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

// answerAll answers every request that waits for an agent, and returns how many
// there are.
func (s *Spawner) answerAll(tx *store.Tx, name AgentName, failure error) int {
	requests := waitingFor(tx, name)
	for _, r := range requests {
		s.answer(tx, r, name, failure)
	}
	return len(requests)
}

// giveUp records that an agent failed and tells everybody who waits for it. If nobody
// does, it tells the chats that the agent talked to.
func (s *Spawner) giveUp(ctx context.Context, name AgentName, cause error) error {
	err := store.InTx(ctx, s.db, func(tx *store.Tx) {
		tx.Exec(toFailed, name, cause.Error())
		if s.answerAll(tx, name, cause) == 0 {
			s.tellChats(tx, name, cause)
		}
		s.retireCredentials(tx, name)
		s.announceEvent(tx, "failed", name, cause.Error())
	})
	if err != nil {
		return fmt.Errorf("storing that %s is given up: %w", name, err)
	}
	return nil
}

// tellChats queues a failed spawn_result without a request for each chat of an
// agent.
func (s *Spawner) tellChats(tx *store.Tx, name AgentName, cause error) {
	for _, topic := range topicsOf(tx, name) {
		m := s.peer.NewMessage(protocol.TypeSpawnResult, protocol.SpawnResult{
			Topic: topic, Agent: name.PeerID(), Status: protocol.SpawnFailed, Error: cause.Error(),
		})
		s.announce(tx, announcement{Topic: topic, Message: m})
	}
}
