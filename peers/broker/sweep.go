package broker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/collab"
)

// sweepLoop makes the writer sweep when a claim or an endpoint expires, and completely once per
// sweep interval.
func (b *Broker) sweepLoop(ctx context.Context) error {
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
			due.Reset(max(at.Sub(b.opts.Now()), 0))
			continue
		case <-due.C:
		case <-thorough.C:
			full = true
			before := b.opts.Now().Add(-answersKept).UnixMicro()
			b.writer.deferToCommit(func(tx *store.Tx) {
				tx.Exec(`DELETE FROM answers WHERE sent = 1 AND at < ?`,
					before)
			})
		}
		err := b.writer.change(ctx, func(t *tx) { t.sweep(full) })
		if err != nil && ctx.Err() == nil {
			b.opts.Log.Error().Err(err).Msg("sweep failed; trying again")
			due.Reset(time.Second)
		}
	}
}

// sweep does what is due by the clock. It expires silent endpoints, claims and decisions. A
// complete sweep also sends reminders about stale work and prunes.
func (t *tx) sweep(thorough bool) {
	identityHandler{t}.expireAll()
	claimHandler{t}.expireAll()
	decisionHandler{t}.expireAll()
	if thorough {
		reminderHandler{t}.remindAll()
		t.prune()
	}
}

// nextDue returns when a partial sweep has something to do. The zero time means never.
func (t *tx) nextDue() (next time.Time) {
	due := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	for _, id := range t.claims.openIDs() {
		due(collab.ParseTime(t.claims.get(id).ExpiresAt))
	}
	for _, id := range t.decisions.openIDs() {
		if d := t.decisions.get(id); d.State == collab.ApprovalPending {
			due(collab.ParseTime(d.ExpiresAt))
		}
	}
	for _, e := range t.Endpoints {
		if e.Status == collab.StatusOnline {
			due(collab.ParseTime(e.LastHeartbeatAt).Add(t.opts.EndpointTimeout))
		}
	}
	return next
}

// dropOld cancels best-effort deliveries that nobody took, and all deliveries older than the
// retention.
func (t *tx) dropOld() {
	for _, d := range (deliveryHandler{t}).open() {
		switch age := t.now.Sub(collab.ParseTime(d.CreatedAt)); {
		case d.Policy == collab.PolicyBestEffort && d.Status == collab.DeliveryPending &&
			t.now.Sub(collab.ParseTime(d.UpdatedAt)) >= t.opts.StaleAfter:
			deliveryHandler{t}.cancel(d, "best effort: nobody took it")
		case t.opts.Keep > 0 && age >= t.opts.Keep:
			deliveryHandler{t}.cancel(d, "nobody took it within the retention of events")
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
