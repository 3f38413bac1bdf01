package surface

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// maxWhy bounds, in characters, the reasons that are stored and told.
const maxWhy = 300

// errNoRoute is why a step is repeated whose request was taken: the taker may have
// died with it.
var errNoRoute = errors.New("the request was taken; no agent is assigned yet")

// step makes the next step of a chat that is on its way: it asks for an agent, or
// hands on what could not be handed on before. Nil means that there is none left.
func (s *Surface) step(ctx context.Context, item outbox.Item) error {
	id := protocol.PeerID(item.Destination)
	c, err := s.load(ctx, s.db, id)
	if err != nil {
		return err
	}
	if c.state != Asking {
		return s.handOnLater(ctx, id)
	}
	_, refusal, err := s.host.Find(ctx, s.db, id.Topic())
	if err != nil {
		return err
	}
	if refusal != "" { // an agent would be started for it, and its route refused
		s.log.Warn().Str("topic", string(id)).Str("reason", refusal).Msg("chat no longer asks for an agent")
		return store.InTx(ctx, s.db, func(tx *sql.Tx) error { return s.end(ctx, tx, id) })
	}
	if !c.told && s.opts.Now().Sub(c.askedAt) >= s.opts.Patience {
		if err := s.tellSlow(ctx, id); err != nil {
			return err
		}
	}
	return s.ask(ctx, c, item.Attempt)
}

// resume gives a step to every chat that needs one and, as it was stored by an
// older program or given up by an operator, has none.
func (s *Surface) resume(ctx context.Context) error {
	type due struct{ chat, key string }
	all, err := store.All(ctx, s.db, func(row store.Row) (d due, err error) {
		err = row.Scan(&d.chat, &d.key)
		return d, err
	}, `SELECT chat, request FROM surface_chats WHERE surface = ?1 AND state = 'asking' UNION ALL
		SELECT e.chat, min(e.event) FROM surface_events e JOIN surface_agents a ON a.surface = e.surface AND a.chat = e.chat
		WHERE e.surface = ?1 AND e.agents = '' GROUP BY e.chat`, s.opts.Name)
	for _, d := range all {
		if _, err := s.chats.Enqueue(ctx, d.chat, d.key, nil); err != nil {
			return err
		}
	}
	return err
}

// ask sends a chat's spawn request. It is repeated, under the same id, until the
// chat has an agent.
func (s *Surface) ask(ctx context.Context, c *chat, attempt int) error {
	sending, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m := protocol.NewMessage(protocol.TypeSpawnRequest, c.id, protocol.SpawnRequest{Topic: c.id.Topic(), RequestID: c.request})
	result, err := s.peer.Send(sending, protocol.TopicSpawn, m)
	err = peer.JudgeAny(protocol.TopicSpawn, result, err)
	s.opts.Crash("asked")
	trouble := ""
	switch peer.ReceptionOf(err) {
	case peer.Received:
		err = errNoRoute
	case peer.Absent:
		trouble = "nobody on the bus starts agents; is hubbub-system running?"
	default:
		trouble = "the bus did not take the request for an agent: " + err.Error()
	}
	if trouble != "" {
		s.log.Warn().Str("topic", string(c.id)).Int("attempt", attempt).Msg(trouble)
	}
	if stored := s.setTrouble(ctx, c, trouble); stored != nil {
		return stored
	}
	delay := time.Duration(0)
	if trouble == "" {
		delay = retry.Backoff{Min: 5 * time.Second, Max: maxBackoff}.After(attempt)
	}
	if left := s.opts.Patience - s.opts.Now().Sub(c.askedAt); !c.told && left > 0 && left < maxBackoff {
		delay = min(left, max(delay, time.Second)) // to tell it in time
	}
	return outbox.Later(delay, fmt.Errorf("asking for an agent: %w", err))
}

// setTrouble notes why a chat has no agent yet, unless it has moved on.
func (s *Surface) setTrouble(ctx context.Context, c *chat, trouble string) error {
	if trouble = text.Clip(trouble, maxWhy); trouble == c.trouble {
		return nil
	}
	return store.Exec(ctx, s.db, `UPDATE surface_chats SET trouble = ? WHERE surface = ? AND chat = ? AND request = ?`,
		trouble, s.opts.Name, c.id, c.request)
}

// tellSlow tells a chat that its agent takes long.
func (s *Surface) tellSlow(ctx context.Context, id protocol.PeerID) error {
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) error {
		c, err := s.load(ctx, tx, id)
		if err != nil || c.state != Asking {
			return err
		}
		return s.tellOnce(ctx, tx, c, NoticeSlow, "")
	})
	s.host.Wake()
	return err
}

// tellOnce tells a chat that no agent comes, once until one came.
func (s *Surface) tellOnce(ctx context.Context, tx *sql.Tx, c *chat, kind NoticeKind, why string) error {
	if c.told {
		return nil
	}
	c.told = true
	return errors.Join(s.save(ctx, tx, c), s.tell(ctx, tx, &Notice{Kind: kind, Chat: c.id, Why: why, Key: c.request}))
}

// tell completes a notice and gives it to the host.
func (s *Surface) tell(ctx context.Context, tx *sql.Tx, n *Notice) (err error) {
	n.Why = text.Clip(n.Why, maxWhy)
	if n.Event, err = s.oldest(ctx, tx, n.Chat); err != nil {
		return err
	}
	return s.host.Tell(ctx, tx, n)
}
