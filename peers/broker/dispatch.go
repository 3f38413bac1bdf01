package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A letter is what the outbox keeps of a sending.
type letter struct {
	To         protocol.PeerID  `json:"to"`
	DeliveryID string           `json:"deliveryId,omitempty"`
	Message    protocol.Message `json:"message"`
}

// giveUpWakeAfter is how long a wake is tried on an agent that is connected and
// does not take it.
const giveUpWakeAfter = 10 * time.Minute

// maxRejections is how often an addressee may reject something before it is given
// up, so that what comes after it need not wait.
const maxRejections = 4

// enqueue puts a wake, or another fact for one peer, into the outbox. If there is no
// room for a wake, it is parked until the next announcement.
func (b *Broker) enqueue(t *tx, s sending) {
	key := s.event.ID
	if s.again > 0 {
		key = fmt.Sprintf("%s/%d", key, s.again)
	}
	_, err := b.outbox.Put(t.db, string(s.to), key, encode(letter{s.to, s.deliveryID, factMessage(s.event, "_to")}))
	if errors.Is(err, outbox.ErrFull) || errors.Is(err, outbox.ErrTooLarge) {
		b.log.Warn().Err(err).Str("peer", string(s.to)).Msg("fact for a peer not sent; its queue is full")
		t.park(s.deliveryID)
	}
}

// sendLetter makes one attempt at a letter. If the addressee is absent from the bus,
// it is offline, and its wake is parked until it announces itself.
func (b *Broker) sendLetter(ctx context.Context, item outbox.Item) error {
	var l letter
	if err := json.Unmarshal(item.Body, &l); err != nil {
		return outbox.Permanent(fmt.Errorf("reading a stored letter: %w", err))
	}
	sentAt := stamp(b.now())
	result, err := b.send(ctx, l.To.Topic(), l.Message)
	err = peer.Judge(l.To.Topic(), item.Attempt, result, err)
	reception := peer.ReceptionOf(err)
	rejected := item.Attempt >= maxRejections && reception == peer.Rejected
	old := rejected || b.now().Sub(item.EnqueuedAt) > giveUpWakeAfter
	switch {
	case reception == peer.Received, reception == peer.Absent && l.DeliveryID == "":
		return nil
	case reception == peer.Absent:
		return b.writer.change(ctx, func(t *tx) { t.missed(l.DeliveryID, l.To, sentAt) })
	case reception == peer.Refused, reception != peer.Unsent && old && l.DeliveryID != "": // others wait behind it
		b.log.Warn().Err(err).Str("peer", string(l.To)).Str("delivery", l.DeliveryID).
			Msg("fact for a peer not taken; a wake waits for the next announcement")
		return b.writer.change(ctx, func(t *tx) { t.park(l.DeliveryID) })
	case rejected:
		return outbox.Drop(err)
	}
	return outbox.Retry(0, err)
}

// clockLoop makes the writer sweep: when a claim or an endpoint runs out, and
// thoroughly once per sweep interval.
func (b *Broker) clockLoop(ctx context.Context) error {
	thorough := time.NewTicker(b.opts.SweepInterval)
	defer thorough.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		full := false
		select {
		case <-ctx.Done():
			return nil
		case at := <-b.due:
			due.Reset(max(at.Sub(b.now()), 0))
			continue
		case <-due.C:
		case <-thorough.C:
			full = true
			before := b.now().Add(-answersKept).UnixMicro()
			b.writer.later(func(tx *store.Tx) { tx.Exec(`DELETE FROM answers WHERE sent = 1 AND at < ?`, before) })
		}
		err := b.writer.change(ctx, func(t *tx) { t.sweep(full) })
		if err != nil && ctx.Err() == nil {
			b.log.Error().Err(err).Msg("sweep failed; trying again")
			due.Reset(time.Second)
		}
	}
}
