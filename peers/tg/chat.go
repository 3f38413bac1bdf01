package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// askForAgent opens a spawn request. The chat must be written back by the caller's
// transaction; chatLoop sends the request.
func (b *Bridge) askForAgent(ctx context.Context, tx *sql.Tx, c *chat) error {
	c.state, c.request, c.askedAt, c.attempts, c.told, c.trouble = chatAsking, requestName(ulid.Make()), time.Now(), 0, false, ""
	return errors.Join(
		exec(ctx, tx, `INSERT INTO requests (request, bot, chat, created_at) VALUES (?, ?, ?, ?)`, c.request, b.bot, c.key, now()),
		exec(ctx, tx, `UPDATE chats SET state = ?, request = ?, asked_at = ?, attempts = 0, next_at = ?, told = 0, trouble = ''
			WHERE bot = ? AND chat = ?`, c.state, c.request, c.askedAt.UnixMicro(), now(), b.bot, c.key),
	)
}

// requestName names a spawn request.
func requestName(id ulid.ULID) string { return "req_" + id.String() }

// askAgain asks for an agent where messages wait for one and the way to it was
// given up, as the chat was stopped or the bot put out of it.
func (b *Bridge) askAgain(ctx context.Context, tx *sql.Tx, c *chat) error {
	var waiting bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM events WHERE bot = ? AND chat = ? AND queued = 0)`, b.bot, c.key).Scan(&waiting)
	if err != nil || !waiting || c.state != chatIdle || !c.present || c.stopped {
		return err
	}
	return b.askForAgent(ctx, tx, c)
}

// handOn queues what waits in a chat towards its agents, in order. It stops at an
// album that may still grow. Without agents everything waits.
func (b *Bridge) handOn(ctx context.Context, tx *sql.Tx, c *chat) error {
	agents, err := b.agentsOf(ctx, tx, c.key)
	if err != nil || len(agents) == 0 {
		return err
	}
	who, err := json.Marshal(agents)
	if err != nil {
		return err
	}
	events, err := b.readyEvents(ctx, tx, c.key)
	if err != nil {
		return err
	}
	for _, event := range events {
		if err := exec(ctx, tx, `UPDATE events SET queued = 1, agents = ? WHERE id = ?`, string(who), event); err != nil {
			return err
		}
		for _, agent := range agents {
			err := b.queueForward(ctx, tx, c.key, agent, fmt.Sprintf("event:%d", event), forwardItem{Event: event})
			if errors.Is(err, outbox.ErrFull) {
				b.log.Error().Str("topic", string(topicOf(c.key))).Msg("the queue towards an agent is full; the chat's messages wait on disk")
				return exec(ctx, tx, `UPDATE events SET queued = 0 WHERE id = ?`, event)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readyEvents lists the events of a chat that may be handed on.
func (b *Bridge) readyEvents(ctx context.Context, q querier, key int64) ([]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, ready_at FROM events WHERE bot = ? AND chat = ? AND queued = 0 ORDER BY id LIMIT 1000`, b.bot, key)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var event, ready int64
		if err := rows.Scan(&event, &ready); err != nil {
			return nil, err
		}
		if wait := time.Until(at(ready)); wait > 0 && wait <= albumCap { // longer was reckoned before the clock was set back
			break
		}
		out = append(out, event)
	}
	return out, rows.Err()
}

// takeRoute is a route_assigned: the chat has an agent now. One that answers a
// spawn request must answer one of this chat's own; one without a request is an
// operator's, and adds an agent.
func (b *Bridge) takeRoute(ctx context.Context, d *peer.Delivery) error {
	var route protocol.RouteAssigned
	if err := d.Decode(&route); err != nil {
		return peer.Reject("the content of this route_assigned cannot be read: " + err.Error())
	}
	key, err := chatOf(d.Topic)
	if err != nil {
		return peer.Reject(err.Error())
	}
	if route.Topic != "" && route.Topic != d.Topic {
		return peer.Reject(fmt.Sprintf("a route for %s was sent to %s", route.Topic, d.Topic))
	}
	if protocol.RoleOf(route.Agent) != protocol.RoleAgent {
		return peer.Reject(fmt.Sprintf("%q is no agent that a chat can talk to", route.Agent))
	}
	err = inTx(ctx, b.db, func(tx *sql.Tx) error { return b.assign(ctx, tx, key, &route, d.Message.From) })
	if err != nil {
		return err
	}
	b.crash("assigned")
	// The agent is there: what waits for it waits no longer.
	if err := b.forward.Hurry(ctx, b.agentDestination(key, string(route.Agent))); err != nil {
		b.log.Warn().Err(err).Str("topic", string(d.Topic)).Msg("what waits for the agent waits for its backoff")
	}
	b.forward.Wake()
	wake(b.chats)
	return nil
}

// assign records an agent and queues its configure message and what waits.
func (b *Bridge) assign(ctx context.Context, tx *sql.Tx, key int64, route *protocol.RouteAssigned, from protocol.PeerID) error {
	c, err := b.loadChat(ctx, tx, key)
	if errors.Is(err, errNoChat) {
		return peer.Reject(fmt.Sprintf("this bot has no chat %d", key))
	}
	if err != nil {
		return err
	}
	admitted, err := b.admitsTopic(ctx, tx, c.key)
	if err != nil {
		return err
	}
	if !admitted {
		return peer.Reject(fmt.Sprintf("chat %d is not admitted", c.key))
	}
	spawned, err := b.answersRequest(ctx, tx, c, route, from)
	if err != nil {
		return err
	}
	if spawned {
		if err := b.replaceSpawned(ctx, tx, c, route.Agent); err != nil {
			return err
		}
	}
	err = exec(ctx, tx, `INSERT INTO assignments (bot, chat, agent, spawned, since) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (bot, chat, agent) DO UPDATE SET configured = 0, spawned = max(spawned, ?4)`,
		b.bot, c.key, string(route.Agent), spawned, now())
	if err == nil {
		err = exec(ctx, tx, `UPDATE chats SET state = 'assigned', request = '', told = 0, trouble = '', attempts = 0 WHERE bot = ? AND chat = ?`, b.bot, c.key)
	}
	if err == nil {
		err = b.queueForward(ctx, tx, c.key, string(route.Agent), fmt.Sprintf("configure:%d", now()), forwardItem{})
	}
	if err != nil {
		return fmt.Errorf("recording the agent of chat %d: %w", c.key, err)
	}
	b.log.Info().Str("topic", string(topicOf(c.key))).Str("peer", string(route.Agent)).Bool("spawned", spawned).Msg("the chat has an agent")
	return b.handOn(ctx, tx, c)
}

// answersRequest tells a spawner's answer from an operator's assignment, and
// refuses answers to what another chat asked, or to what is no longer wanted.
func (b *Bridge) answersRequest(ctx context.Context, tx *sql.Tx, c *chat, route *protocol.RouteAssigned, from protocol.PeerID) (bool, error) {
	if route.RequestID == "" {
		return from == protocol.PeerSystem && c.state != chatAssigned, nil
	}
	var asker int64
	err := tx.QueryRowContext(ctx, `SELECT chat FROM requests WHERE request = ? AND bot = ?`, route.RequestID, b.bot).Scan(&asker)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, peer.Reject(fmt.Sprintf("chat %d never made the request %q", c.key, route.RequestID))
	case err != nil:
		return false, err
	case asker != c.key:
		return false, peer.Reject(fmt.Sprintf("the request %q is another chat's", route.RequestID))
	case c.state != chatAssigned:
		return true, nil
	}
	// Assigned already: the spawner may repeat itself, or announce the agent anew
	// after a restart; it must not add a second one to an operator's.
	var known, spawned bool
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM assignments WHERE bot = ?1 AND chat = ?2 AND agent = ?3),
		EXISTS (SELECT 1 FROM assignments WHERE bot = ?1 AND chat = ?2 AND spawned = 1)`, b.bot, c.key, string(route.Agent)).Scan(&known, &spawned)
	if err == nil && !known && !spawned {
		return false, peer.Reject(fmt.Sprintf("chat %d was given another agent meanwhile", c.key))
	}
	return true, err
}

// replaceSpawned lets another spawned agent take the place of the one before: a
// chat never has two by accident. What the old one did not get goes to the new.
func (b *Bridge) replaceSpawned(ctx context.Context, tx *sql.Tx, c *chat, agent protocol.PeerID) error {
	old, err := list(ctx, tx, `SELECT agent FROM assignments WHERE bot = ? AND chat = ? AND spawned = 1 AND agent <> ?`, b.bot, c.key, string(agent))
	if err != nil {
		return err
	}
	for _, gone := range old {
		b.log.Warn().Str("topic", string(topicOf(c.key))).Str("peer", gone).Str("by", string(agent)).Msg("a spawned agent was replaced")
		from, to := b.agentDestination(c.key, gone), b.agentDestination(c.key, string(agent))
		err := errors.Join(
			exec(ctx, tx, `DELETE FROM assignments WHERE bot = ? AND chat = ? AND agent = ?`, b.bot, c.key, gone),
			exec(ctx, tx, `UPDATE OR IGNORE outbox SET destination = ? WHERE queue = ? AND destination = ? AND state = 'pending'`, to, b.queue(queueForward), from),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// takeSpawnResult is a spawn_result. Only a failure matters here: success is
// followed by the route. It is matched by its request, whatever its topic says;
// one without a request answers none, and tells that an agent was given up.
func (b *Bridge) takeSpawnResult(ctx context.Context, d *peer.Delivery) error {
	var result protocol.SpawnResult
	if err := d.Decode(&result); err != nil {
		return peer.Reject("the content of this spawn_result cannot be read: " + err.Error())
	}
	if result.Status != protocol.SpawnFailed {
		return nil
	}
	err := inTx(ctx, b.db, func(tx *sql.Tx) error {
		if result.RequestID == "" {
			return b.agentGivenUp(ctx, tx, d.Topic, &result)
		}
		var key int64
		err := tx.QueryRowContext(ctx, `SELECT chat FROM chats WHERE bot = ? AND request = ? AND state IN ('asking','waiting')`,
			b.bot, result.RequestID).Scan(&key)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // an old request, or another bridge's
		}
		if err != nil {
			return err
		}
		c, err := b.loadChat(ctx, tx, key)
		if err != nil {
			return err
		}
		return b.spawnFailed(ctx, tx, c, result.Error)
	})
	if err != nil {
		return err
	}
	b.telegram.Wake()
	wake(b.chats)
	return nil
}

// agentGivenUp tells the user that the chat's own agent ended for good. It
// changes nothing else: the agent is asked for again when there is something to
// pass on, and that request has an answer of its own.
func (b *Bridge) agentGivenUp(ctx context.Context, tx *sql.Tx, topic protocol.Topic, result *protocol.SpawnResult) error {
	key, err := chatOf(topic)
	if err != nil {
		return peer.Reject(err.Error())
	}
	c, err := b.loadChat(ctx, tx, key)
	if errors.Is(err, errNoChat) {
		return nil // another bridge's
	}
	if err != nil || !c.present || c.stopped {
		return err
	}
	var spawned bool
	err = tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM assignments WHERE bot = ? AND chat = ? AND agent = ? AND spawned = 1)`,
		b.bot, c.key, string(result.Agent)).Scan(&spawned)
	if err != nil || !spawned {
		return err
	}
	b.log.Error().Str("topic", string(topicOf(c.key))).Str("peer", string(result.Agent)).Str("error", result.Error).Msg("the chat's agent was given up")
	hour := time.Now().UTC().Format("2006-01-02T15")
	return b.notice(ctx, tx, c, 0, "gone:"+string(result.Agent)+":"+hour, fmt.Sprintf(
		"@%s, the agent of this chat, ended and could not be started again: %s. Your next message has it started anew, and it goes on with what it did not answer.",
		result.Agent.Name(), clip(result.Error, 300)))
}

// spawnFailed tells the user once and asks again later, under a new request.
func (b *Bridge) spawnFailed(ctx context.Context, tx *sql.Tx, c *chat, why string) error {
	if why == "" {
		why = "no reason was given"
	}
	b.log.Error().Str("topic", string(topicOf(c.key))).Str("error", why).Msg("no agent could be started")
	if err := b.tellTrouble(ctx, tx, c, "No agent could be started for this chat: "+clip(why, 300)+". Your messages are kept, and I go on trying."); err != nil {
		return err
	}
	request := requestName(ulid.Make())
	next := time.Now().Add(backoffUpTo(c.attempts+2, maxBackoffBus)).UnixMicro()
	return errors.Join(
		exec(ctx, tx, `INSERT INTO requests (request, bot, chat, created_at) VALUES (?, ?, ?, ?)`, request, b.bot, c.key, now()),
		exec(ctx, tx, `UPDATE chats SET state = 'asking', request = ?, attempts = attempts + 1, next_at = ?, trouble = ? WHERE bot = ? AND chat = ?`,
			request, next, clip(why, 300), b.bot, c.key),
	)
}

// tellTrouble tells the user that no agent comes, once until one came.
func (b *Bridge) tellTrouble(ctx context.Context, tx *sql.Tx, c *chat, text string) error {
	if c.told {
		return nil
	}
	c.told = true
	if err := exec(ctx, tx, `UPDATE chats SET told = 1 WHERE bot = ? AND chat = ?`, b.bot, c.key); err != nil {
		return err
	}
	if !c.present || c.stopped {
		return nil
	}
	var thread int
	err := tx.QueryRowContext(ctx, `SELECT thread FROM events WHERE bot = ? AND chat = ? AND queued = 0 ORDER BY id LIMIT 1`, b.bot, c.key).Scan(&thread)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return b.notice(ctx, tx, c, thread, "trouble:"+c.request, text)
}
