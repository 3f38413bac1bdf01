package broker

import (
	"context"
	"sync"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// How answers are sent.
const (
	maxUnsent     = 2000 // answers that may wait for one requester
	answerTimeout = 40 * time.Second
	goneAfter     = time.Minute     // how long a requester may be absent
	giveUpAfter   = 5 * time.Minute // how long a requester may fail to take an answer
)

// backoff is the pause between attempts to send an answer or an event.
var backoff = retry.Backoff{Min: 200 * time.Millisecond, Max: 10 * time.Second}

// A sendFunc publishes one message, like peer.Peer.Send.
type sendFunc func(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error)

// An answerer sends answers: to one requester in order, to different requesters in parallel. An
// answer is stored before it is sent. Once it has arrived, the writer's next commit deletes it,
// or keeps it for repeated requests. After a crash in between it is sent again.
//
// It is not an outbox, because an outbox commits each attempt and its outcome.
type answerer struct {
	send    sendFunc
	settled func(item answer) // called when the answer has arrived or was given up
	now     func() time.Time
	log     *zerolog.Logger
	ctx     context.Context // of the senders
	stop    context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex                   // guards waiting
	waiting map[protocol.PeerID][]answer // each requester with an entry has a sender
}

func newAnswerer(send sendFunc, settled func(answer), now func() time.Time, log *zerolog.Logger) *answerer {
	ctx, stop := context.WithCancel(context.Background())
	return &answerer{
		send:    send,
		settled: settled,
		now:     now,
		log:     log,
		waiting: map[protocol.PeerID][]answer{},
		ctx:     ctx,
		stop:    stop,
	}
}

// full reports whether too many answers wait for a requester.
func (a *answerer) full(requester protocol.PeerID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.waiting[requester]) >= maxUnsent
}

// add takes stored answers. It does not block. After close, answers wait for the next run.
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
			a.wg.Go(func() { a.sendAll(item.to) })
		}
	}
}

// sendAll sends the answers to one requester until none is left.
func (a *answerer) sendAll(to protocol.PeerID) {
	for item, ok := a.first(to); ok; item, ok = a.first(to) {
		if a.deliver(item) { // otherwise the broker is stopping
			a.settled(item)
			a.mu.Lock()
			a.waiting[to] = a.waiting[to][1:]
			a.mu.Unlock()
		}
	}
}

// first returns the next answer to a requester. It reports false and ends the sender if there is
// none, or if the broker is stopping.
func (a *answerer) first(to protocol.PeerID) (item answer, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting[to]) == 0 || a.ctx.Err() != nil {
		delete(a.waiting, to)
		return item, false
	}
	return a.waiting[to][0], true
}

// deliver sends one answer until it arrives or is given up. It returns false if the broker stops
// first.
func (a *answerer) deliver(item answer) bool {
	rejections := 0
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithTimeout(a.ctx, answerTimeout)
		result, err := a.send(ctx, item.to.Topic(), item.message())
		cancel()
		err = peer.Classify(item.to.Topic(), attempt, result, err)
		reception, age := peer.OutcomeOf(err), a.now().Sub(time.UnixMicro(item.at))
		if reception == peer.Rejected {
			rejections++
		}
		switch {
		case a.ctx.Err() != nil:
			return false
		case err == nil:
			return true
		case reception == peer.Refused, reception == peer.Absent &&
			age > goneAfter, age > giveUpAfter, rejections >= maxRejections:
			a.log.Warn().Err(err).Str("peer", string(item.to)).Msg("answer abandoned; its requester did not take it")
			return true
		}
		if !retry.Sleep(a.ctx, backoff.After(attempt)) {
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

// close ends the senders and waits for them.
func (a *answerer) close() {
	a.mu.Lock()
	a.stop() // no sender starts after this
	a.mu.Unlock()
	a.wg.Wait()
}

// unsentAnswers reads the stored answers that the previous run did not send.
func unsentAnswers(tx *store.Tx) []answer {
	return store.All(tx, func(a *answer) []any {
		return []any{&a.id, &a.to, &a.content, &a.messageID, &a.inReplyTo, &a.traceParent, &a.at}
	}, `SELECT id, requester, content, message_id, in_reply_to, traceparent, at FROM answers WHERE sent = 0 ORDER BY id`)
}
