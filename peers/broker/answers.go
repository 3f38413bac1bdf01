package broker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"github.com/rs/zerolog"
)

// How answers are sent.
const (
	maxUnsent     = 2000 // answers that may wait for one requester
	answerTimeout = 40 * time.Second
	goneAfter     = time.Minute     // for how long a requester may be away
	giveUpAfter   = 5 * time.Minute // for how long it may fail to take an answer
	retryMin      = 200 * time.Millisecond
	retryMax      = 10 * time.Second
)

// A sendFunc publishes one message; it is peer.Peer.Send.
type sendFunc func(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error)

// An answerer sends answers: to one requester in order, to different ones in
// parallel. An answer is stored before it is sent and forgotten, or kept for
// repetitions, with the writer's next commit after it arrived; a crash in between
// sends it again.
type answerer struct {
	send sendFunc
	now  func() time.Time
	log  *zerolog.Logger

	mu      sync.Mutex                   // guards the fields below
	waiting map[protocol.PeerID][]answer // a requester with an entry has a lane
	settled []int64                      // rows of answers that arrived or were given up
	pruned  time.Time
	wg      sync.WaitGroup
	ctx     context.Context // of the lanes
	stop    context.CancelFunc
}

func newAnswerer(send sendFunc, now func() time.Time, log *zerolog.Logger) *answerer {
	ctx, stop := context.WithCancel(context.Background())
	return &answerer{send: send, now: now, log: log, waiting: map[protocol.PeerID][]answer{}, ctx: ctx, stop: stop}
}

// full reports whether a requester has too many answers that it did not take.
func (a *answerer) full(requester protocol.PeerID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting[requester]) >= maxUnsent
}

// add takes answers that are stored. It does not block. Those that come after
// close are left to the next run.
func (a *answerer) add(list []answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	for _, item := range list {
		_, running := a.waiting[item.to]
		a.waiting[item.to] = append(a.waiting[item.to], item)
		if !running {
			a.wg.Go(func() { a.lane(item.to) })
		}
	}
}

// lane sends the answers to one requester until none is left.
func (a *answerer) lane(to protocol.PeerID) {
	for {
		a.mu.Lock()
		list := a.waiting[to]
		if len(list) == 0 || a.ctx.Err() != nil {
			delete(a.waiting, to)
			a.mu.Unlock()
			return
		}
		item := list[0]
		a.mu.Unlock()
		if !a.deliver(item) {
			continue // stopping
		}
		a.mu.Lock()
		a.waiting[to] = a.waiting[to][1:]
		a.settled = append(a.settled, item.id)
		a.mu.Unlock()
	}
}

// deliver sends one answer until it arrived or is given up; false means that the
// broker stops first.
func (a *answerer) deliver(item answer) bool {
	rejections := 0
	for delay := retryMin; ; delay = min(2*delay, retryMax) {
		ctx, cancel := context.WithTimeout(a.ctx, answerTimeout)
		result, err := a.send(ctx, item.to.Topic(), item.message)
		cancel()
		if a.ctx.Err() != nil {
			return false
		}
		age := a.now().Sub(item.at)
		if err == nil && result.Rejection(item.to) != nil {
			rejections++
		}
		var refused *jsonrpc.Error
		switch {
		case err == nil && result.Addressee != protocol.AddresseeAbsent && result.Addressee != protocol.AddresseeFailed:
			return true
		case errors.As(err, &refused):
			a.log.Warn().Err(err).Str("peer", string(item.to)).Msg("the bus refused an answer; it is given up")
			return true
		case err == nil && result.Addressee == protocol.AddresseeAbsent && age > goneAfter, age > giveUpAfter, rejections >= maxRejections:
			a.log.Info().Str("peer", string(item.to)).Msg("a requester did not take its answer; it is given up")
			return true
		}
		select {
		case <-time.After(delay):
		case <-a.ctx.Done():
			return false
		}
	}
}

// idle reports whether every answer was sent.
func (a *answerer) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting) == 0
}

// close ends the lanes and waits for them.
func (a *answerer) close() {
	a.mu.Lock()
	a.stop() // no lane begins after it
	a.mu.Unlock()
	a.wg.Wait()
}

func (a *answerer) pending() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.settled) > 0
}

// write stores which answers were sent, and once an hour forgets old ones.
func (a *answerer) write(ctx context.Context, tx *sql.Tx) (func(), error) {
	a.mu.Lock()
	rows := a.settled[:len(a.settled):len(a.settled)]
	now := a.now()
	prune := now.Sub(a.pruned) >= time.Hour
	a.mu.Unlock()
	for _, id := range rows {
		if _, err := tx.ExecContext(ctx, `DELETE FROM answers WHERE id = ? AND kept = 0`, id); err != nil {
			return nil, fmt.Errorf("forgetting an answer: %w", err)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE answers SET sent = 1 WHERE id = ?`, id); err != nil {
			return nil, fmt.Errorf("marking an answer as sent: %w", err)
		}
	}
	if prune {
		if _, err := tx.ExecContext(ctx, `DELETE FROM answers WHERE sent = 1 AND at < ?`, now.Add(-answersKept).UnixMicro()); err != nil {
			return nil, fmt.Errorf("forgetting old answers: %w", err)
		}
	}
	if len(rows) == 0 && !prune {
		return nil, nil
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.settled = a.settled[len(rows):]
		if prune {
			a.pruned = now
		}
	}, nil
}

// unsentAnswers reads the answers that a former run stored and did not send.
func unsentAnswers(ctx context.Context, db querier) ([]answer, error) {
	rows, err := db.QueryContext(ctx, `SELECT id, requester, content, message_id, in_reply_to, traceparent, at
		FROM answers WHERE sent = 0 ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("reading unsent answers: %w", err)
	}
	defer rows.Close()
	var list []answer
	for rows.Next() {
		var a answer
		var content string
		var at int64
		a.message.Type, a.message.From = protocol.TypeCollabResult, protocol.PeerBroker
		if err := rows.Scan(&a.id, &a.to, &content, &a.message.MessageID, &a.message.InReplyTo, &a.message.TraceParent, &at); err != nil {
			return nil, fmt.Errorf("reading an unsent answer: %w", err)
		}
		a.at = time.UnixMicro(at)
		a.message.Content, a.message.Timestamp = []byte(content), stamp(a.at)
		list = append(list, a)
	}
	return list, rows.Err()
}
