package tg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol"

	"golang.org/x/sync/errgroup"
)

// A step is what a chat without an agent needs next.
type step int

const (
	stepRest step = iota // not due
	stepAsk              // send, or repeat, the spawn_request
)

// next decides the next step of a chat on its way to an agent: what to do now,
// whether the user must hear that it takes long, and when to look again.
//
//	asking   the request is sent until somebody takes it
//	waiting  it was taken; it is repeated, under the same id, as the taker may
//	         have died with it
func (c *chat) next(at time.Time, patience time.Duration) (do step, tell bool, again time.Time) {
	if c.state != chatAsking && c.state != chatWaiting {
		return stepRest, false, time.Time{}
	}
	tell = !c.told && at.Sub(c.askedAt) >= patience
	again = c.nextAt
	if !c.told && !tell && c.askedAt.Add(patience).Before(again) {
		again = c.askedAt.Add(patience)
	}
	if wait := c.nextAt.Sub(at); wait > 0 && wait <= maxBackoffBus { // longer was reckoned before the clock was set back
		return stepRest, tell, again
	}
	return stepAsk, tell, again
}

// chatLoop brings chats to their agents, and albums to their end.
func (b *Bridge) chatLoop(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		again, err := b.advanceChats(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			b.log.Error().Err(err).Msg("the way of chats to their agents cannot go on")
			again = time.Now().Add(backoff(failures))
		} else {
			failures = 0
		}
		timer := time.NewTimer(time.Until(again))
		select {
		case <-timer.C:
		case <-b.chats:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// advanceChats makes every step that is due and returns when the next one is.
func (b *Bridge) advanceChats(ctx context.Context) (time.Time, error) {
	again := time.Now().Add(time.Minute)
	open, err := b.chatsWhere(ctx, `SELECT chat FROM chats WHERE bot = ? AND state IN ('asking','waiting') AND present = 1`)
	if err != nil {
		return again, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	results := make([]time.Time, len(open))
	for i, key := range open {
		g.Go(func() error {
			var err error
			results[i], err = b.advanceChat(gctx, key)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return again, err
	}
	ready, err := b.handOnReady(ctx)
	for _, t := range append(results, ready) {
		if !t.IsZero() && t.Before(again) {
			again = t
		}
	}
	return again, err
}

func (b *Bridge) chatsWhere(ctx context.Context, query string) ([]int64, error) {
	rows, err := b.db.QueryContext(ctx, query, b.bot)
	if err != nil {
		return nil, fmt.Errorf("looking for chats: %w", err)
	}
	defer rows.Close()
	var out []int64
	for rows.Next() {
		var key int64
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		out = append(out, key)
	}
	return out, rows.Err()
}

// handOnReady hands on what waits in chats that have agents: albums that are
// complete, and what found the queue full before.
func (b *Bridge) handOnReady(ctx context.Context) (time.Time, error) {
	keys, err := b.chatsWhere(ctx, `SELECT DISTINCT e.chat FROM events e JOIN assignments a ON a.bot = e.bot AND a.chat = e.chat
		WHERE e.bot = ? AND e.queued = 0`)
	if err != nil || len(keys) == 0 {
		return time.Time{}, err
	}
	err = inTx(ctx, b.db, func(tx *sql.Tx) error {
		for _, key := range keys {
			c, err := b.loadChat(ctx, tx, key)
			if err != nil {
				return err
			}
			if err := b.handOn(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	b.forward.Wake()
	var micro sql.NullInt64
	err = b.db.QueryRowContext(ctx, `SELECT min(ready_at) FROM events WHERE bot = ? AND queued = 0 AND ready_at > ?`, b.bot, now()).Scan(&micro)
	if err != nil {
		return time.Time{}, err
	}
	again := time.Now().Add(time.Second) // for what did not fit this time
	if micro.Valid && at(micro.Int64).Before(again) {
		again = at(micro.Int64)
	}
	return again, nil
}

// advanceChat makes a chat's next step if it is due.
func (b *Bridge) advanceChat(ctx context.Context, key int64) (time.Time, error) {
	c, err := b.loadChat(ctx, b.db, key)
	if errors.Is(err, errNoChat) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	admitted, err := b.admitsTopic(ctx, b.db, c.key)
	if err != nil {
		return time.Time{}, err
	}
	if !admitted {
		return time.Time{}, b.stopAsking(ctx, c)
	}
	do, tell, again := c.next(time.Now(), b.opts.SpawnPatience)
	if tell {
		err := inTx(ctx, b.db, func(tx *sql.Tx) error {
			return b.tellTrouble(ctx, tx, c, "It takes longer than usual to start an agent for this chat. Your messages are kept, and I go on trying.")
		})
		if err != nil {
			return again, err
		}
		b.telegram.Wake()
	}
	if do != stepAsk {
		return again, nil
	}
	return b.ask(ctx, c)
}

// stopAsking ends the way of a chat that is no longer admitted: an agent would be
// started for it, and its route refused. What was said stays until the chat is
// admitted again and says something.
func (b *Bridge) stopAsking(ctx context.Context, c *chat) error {
	b.log.Warn().Str("topic", string(topicOf(c.key))).Msg("no agent is asked for any more: the chat is no longer admitted")
	return exec(ctx, b.db, `UPDATE chats SET state = 'idle', trouble = '' WHERE bot = ? AND chat = ? AND request = ? AND state IN ('asking','waiting')`,
		b.bot, c.key, c.request)
}

// ask sends a chat's spawn request and notes what became of it, unless the chat
// has moved on meanwhile.
func (b *Bridge) ask(ctx context.Context, c *chat) (time.Time, error) {
	m := protocol.NewMessage(protocol.TypeSpawnRequest, peerOf(c.key), protocol.SpawnRequest{Topic: topicOf(c.key), RequestID: c.request})
	sending, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	result, err := b.peer.Send(sending, protocol.TopicSpawn, m)
	b.crash("asked")
	if ctx.Err() != nil {
		return time.Time{}, nil
	}
	state, trouble := chatWaiting, ""
	switch {
	case err != nil:
		state, trouble = c.state, "the bus did not take the request for an agent: "+err.Error()
	case result.DeliveredTo < 1:
		state, trouble = chatAsking, "nobody on the bus starts agents; is hubbub-system running?"
	}
	if trouble != "" {
		b.log.Warn().Str("topic", string(topicOf(c.key))).Int("attempt", c.attempts+1).Msg(trouble)
	}
	next := time.Now().Add(backoffUpTo(c.attempts+1, maxBackoffBus))
	if state == chatWaiting {
		next = time.Now().Add(5*time.Second + backoffUpTo(c.attempts+1, maxBackoffBus-5*time.Second))
	}
	err = exec(ctx, b.db, `UPDATE chats SET state = ?, attempts = attempts + 1, next_at = ?, trouble = ?
		WHERE bot = ? AND chat = ? AND request = ? AND state IN ('asking','waiting')`,
		state, next.UnixMicro(), clip(trouble, 300), b.bot, c.key, c.request)
	return next, err
}
