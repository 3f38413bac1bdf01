package system

import (
	"context"
	"time"

	"hubbub/peers/store"
)

// storeRequest stores that a request waits for an agent, with the number of its
// answers that are on their way; 0 means that it is not answered yet.
func storeRequest(ctx context.Context, q store.Querier, r request, agent AgentName, answering int) error {
	return store.Exec(ctx, q, `INSERT INTO requests (requester, id, echo, message, topic, agent, answering, arrived_at, traceparent)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
		ON CONFLICT (requester, id, topic) DO UPDATE SET message = ?4, agent = ?6, answering = ?7, traceparent = ?9`,
		r.requester, r.id, r.echo, r.message, r.topic, agent, answering, time.Now().UnixMicro(), r.trace)
}

// answering returns how many answers to a request are on their way.
func answering(ctx context.Context, q store.Querier, r request) (int, error) {
	n, _, err := store.One(ctx, q, store.Column[int], `SELECT answering FROM requests WHERE requester = ? AND id = ? AND topic = ?`,
		r.requester, r.id, r.topic)
	return n, err
}

// waitingFor returns the requests that wait for an agent.
func waitingFor(ctx context.Context, q store.Querier, agent AgentName) ([]request, error) {
	return store.All(ctx, q, func(row store.Row) (r request, err error) {
		err = row.Scan(&r.requester, &r.id, &r.echo, &r.message, &r.topic, &r.trace)
		return r, err
	}, `SELECT requester, id, echo, message, topic, traceparent FROM requests
		WHERE agent = ? AND answering = 0 ORDER BY arrived_at`, agent)
}

// settleRequest forgets a request when its last answer is no longer on its way.
func settleRequest(ctx context.Context, q store.Querier, a announcement) error {
	n, err := store.Changed(ctx, q, `UPDATE requests SET answering = answering - 1
		WHERE requester = ? AND id = ? AND topic = ? AND answering > 1`, a.Requester, a.ID, a.For)
	if err != nil || n > 0 {
		return err
	}
	return store.Exec(ctx, q, `DELETE FROM requests WHERE requester = ? AND id = ? AND topic = ? AND answering = 1`, a.Requester, a.ID, a.For)
}
