package system

import (
	"context"
	"database/sql"
	"errors"
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
	if err := store.InTx(ctx, s.db, func(tx *sql.Tx) error { return s.setOnline(ctx, tx, name) }); err != nil {
		return fmt.Errorf("storing that %s is online: %w", from, err)
	}
	s.opts.crash("online stored")
	s.box.Wake()
	if k := s.keeper(name); k != nil {
		signal(k.changed)
	}
	return nil
}

// setOnline records that an agent is online and answers the requests that wait for
// it. It ignores agents that the spawner does not run.
func (s *Spawner) setOnline(ctx context.Context, tx *sql.Tx, name AgentName) error {
	a, err := findAgent(ctx, tx, name)
	if err != nil || a.state != stateWanted {
		return err
	}
	if err := store.Exec(ctx, tx, toOnline, name); err != nil {
		return err
	}
	if _, err := s.answerAll(ctx, tx, name, nil); err != nil || a.online {
		return err
	}
	return s.announceEvent(ctx, tx, "spawned", name, "")
}

// answerAll answers every request that waits for an agent, and returns how many
// there are.
func (s *Spawner) answerAll(ctx context.Context, tx *sql.Tx, name AgentName, failure error) (int, error) {
	requests, err := waitingFor(ctx, tx, name)
	for _, r := range requests {
		err = errors.Join(err, s.answer(ctx, tx, r, name, failure))
	}
	return len(requests), err
}

// giveUp records that an agent failed and tells everybody who waits for it. If nobody
// does, it tells the chats that the agent talked to.
func (s *Spawner) giveUp(ctx context.Context, name AgentName, cause error) error {
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) error {
		if err := store.Exec(ctx, tx, toFailed, name, cause.Error()); err != nil {
			return err
		}
		waited, err := s.answerAll(ctx, tx, name, cause)
		if err == nil && waited == 0 {
			err = s.tellChats(ctx, tx, name, cause)
		}
		if err == nil {
			err = retireCredentials(ctx, tx, name)
		}
		if err != nil {
			return err
		}
		return s.announceEvent(ctx, tx, "failed", name, cause.Error())
	})
	if err != nil {
		return fmt.Errorf("storing that %s is given up: %w", name, err)
	}
	s.box.Wake()
	signal(s.revocations)
	return nil
}

// tellChats queues a failed spawn_result without a request for each chat of an
// agent.
func (s *Spawner) tellChats(ctx context.Context, tx *sql.Tx, name AgentName, cause error) error {
	topics, err := topicsOf(ctx, tx, name)
	if err != nil {
		return err
	}
	for _, topic := range topics {
		m := s.peer.NewMessage(protocol.TypeSpawnResult, protocol.SpawnResult{
			Topic: topic, Agent: name.PeerID(), Status: protocol.SpawnFailed, Error: cause.Error(),
		})
		if err := s.announce(ctx, tx, announcement{Topic: topic, Message: m}); err != nil {
			return err
		}
	}
	return nil
}
