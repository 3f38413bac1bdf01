package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// forward hands the oldest waiting message to the agent. It is marked as taken
// only when the agent has it safe; until then every attempt has the same
// messageId and sourceId, by which the agent knows it.
func (w *worker) forward(ctx context.Context, agent protocol.PeerID) error {
	in, err := w.store.oldest(ctx, w.channel)
	if err != nil || in == nil {
		return err
	}
	// The agent may answer before the bus has told us that it took the message.
	w.channels.offer(w.channel, in.seq)
	defer w.channels.offer(w.channel, 0)
	got, err := w.tell(ctx, agent.Topic(), in.message())
	switch got {
	case received:
		w.declined, w.began = 0, w.store.now()
		return w.store.taken(ctx, in.seq)
	case absent:
		return w.missing(ctx, agent)
	case refused:
		return w.giveUp(ctx, in, "the bus refused the message: "+err.Error())
	case declined:
		if w.declined++; w.declined >= maxDeclined {
			w.declined = 0
			return w.giveUp(ctx, in, "the agent declined the message")
		}
		return fmt.Errorf("%s declined a message", agent)
	default:
		return err
	}
}

// missing deals with an assigned agent that is not there: the spawner is asked
// to bring it back, or to assign another. The error makes the worker wait.
func (w *worker) missing(ctx context.Context, agent protocol.PeerID) error {
	_, err := w.store.db.ExecContext(ctx, `UPDATE channel SET configured = 0 WHERE peer = ? AND agent = ?`, w.channel, agent)
	if err != nil {
		return fmt.Errorf("storing that an agent is gone: %w", err)
	}
	if w.askedAt.IsZero() || w.store.now().Sub(w.askedAt) >= askAgain {
		if err := w.spawn(ctx); err != nil {
			return fmt.Errorf("%s is not there, and %w", agent, err)
		}
	}
	return fmt.Errorf("%s is not there; the spawner has been asked", agent)
}

func (s *Store) oldest(ctx context.Context, channel protocol.PeerID) (*inbound, error) {
	in := &inbound{channel: channel}
	var content []byte
	err := s.db.QueryRowContext(ctx, `SELECT seq, external_id, source_id, message_id, content FROM inbound
		WHERE channel = ? AND forwarded_at = 0 ORDER BY seq LIMIT 1`, channel).
		Scan(&in.seq, &in.id, &in.sourceID, &in.messageID, &content)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a waiting message: %w", err)
	}
	in.content = content
	return in, nil
}

func (s *Store) taken(ctx context.Context, seq int64) error {
	_, err := s.db.ExecContext(ctx, `UPDATE inbound SET forwarded_at = ? WHERE seq = ?`, micros(s.now()), seq)
	if err != nil {
		return fmt.Errorf("storing that a message was taken: %w", err)
	}
	return nil
}

// giveUp takes a message out of the way that no agent will ever take, and says
// so at its callback.
func (w *worker) giveUp(ctx context.Context, in *inbound, why string) error {
	w.log.Warn().Str("peer", string(w.channel)).Str("message_id", string(in.messageID)).Str("error", why).
		Msg("a message is given up")
	err := w.store.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE inbound SET forwarded_at = ? WHERE seq = ?`, micros(w.store.now()), in.seq); err != nil {
			return err
		}
		return w.enqueueError(ctx, tx, w.channel, in.seq, "given-up", why, "not_delivered")
	})
	if err != nil {
		return fmt.Errorf("giving a message up: %w", err)
	}
	w.callbacks.Wake()
	return nil
}

// tellNoAgent says once, at the callback of the oldest waiting message, that no
// agent could be had. The messages stay.
func (g *Gateway) tellNoAgent(ctx context.Context, channel protocol.PeerID, why string) error {
	err := g.store.inTx(ctx, func(tx *sql.Tx) error {
		var seq int64
		err := tx.QueryRowContext(ctx, `SELECT min(seq) FROM inbound JOIN channel ON channel.peer = inbound.channel
			WHERE channel = ? AND forwarded_at = 0 AND told = 0 HAVING min(seq) IS NOT NULL`, channel).Scan(&seq)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE channel SET told = 1 WHERE peer = ?`, channel); err != nil {
			return err
		}
		return g.enqueueError(ctx, tx, channel, seq, "no-agent", why, "no_agent")
	})
	if err != nil {
		return fmt.Errorf("telling that there is no agent: %w", err)
	}
	g.callbacks.Wake()
	return nil
}

// takeRoute stores which agent a channel talks to from now on.
func (g *Gateway) takeRoute(ctx context.Context, d *peer.Delivery) error {
	var route protocol.RouteAssigned
	if err := json.Unmarshal(d.Message.Content, &route); err != nil {
		return peer.Reject("the content of route_assigned cannot be read")
	}
	channel := protocol.PeerID(d.Topic)
	if route.Topic != "" && route.Topic != d.Topic {
		return peer.Reject("content.topic is not the topic that this came to")
	}
	if protocol.RoleOf(route.Agent) != protocol.RoleAgent {
		return peer.Reject("content.agent is not an agent's identity")
	}
	// The same agent again was perhaps started anew: it is configured again.
	res, err := g.store.db.ExecContext(ctx, `UPDATE channel SET agent = ?, configured = 0, request_id = '' WHERE peer = ?`, route.Agent, channel)
	if err := changedOne(res, err, ErrNotFound); errors.Is(err, ErrNotFound) {
		return peer.Reject("there is no such channel here")
	} else if err != nil {
		return fmt.Errorf("storing an assignment: %w", err)
	}
	g.channels.poke(channel)
	return nil
}

// takeSpawnResult hears that an agent could not be had. The request is sent
// again all the same.
func (g *Gateway) takeSpawnResult(ctx context.Context, d *peer.Delivery) error {
	var result protocol.SpawnResult
	if err := json.Unmarshal(d.Message.Content, &result); err != nil {
		return peer.Reject("the content of spawn_result cannot be read")
	}
	if result.Status != protocol.SpawnFailed {
		return nil
	}
	g.log.Warn().Str("peer", string(d.Topic)).Str("error", result.Error).Msg("no agent could be started")
	return g.tellNoAgent(ctx, protocol.PeerID(d.Topic), "no agent could be started; the message is kept")
}
