package system

import (
	"time"

	"hubbub/peers/store"
)

// storeRequest stores a request that waits for an agent. answering is the number of its queued
// answers; 0 means that it is not answered yet.
func storeRequest(tx *store.Tx, r request, agent AgentName, answering int) {
	tx.Exec(`INSERT INTO requests (requester, id, echo, message, topic, agent, answering, arrived_at, traceparent)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
		ON CONFLICT (requester, id, topic) DO UPDATE SET message = ?4, agent = ?6, answering = ?7, traceparent = ?9`,
		r.requester, r.id, r.requestID, r.message, r.topic, agent, answering, time.Now().UnixMicro(), r.trace)
}

// answering returns the number of queued answers to a request.
func answering(tx *store.Tx, r request) int {
	return store.Value[int](tx, `SELECT answering FROM requests WHERE requester = ? AND id = ? AND topic = ?`,
		r.requester, r.id, r.topic)
}

// pendingRequests returns the unanswered requests for an agent.
func pendingRequests(tx *store.Tx, agent AgentName) []request {
	return store.All(tx, func(r *request) []any {
		return []any{&r.requester, &r.id, &r.requestID, &r.message, &r.topic, &r.trace}
	}, `SELECT requester, id, echo, message, topic, traceparent FROM requests
		WHERE agent = ? AND answering = 0 ORDER BY arrived_at`, agent)
}

// settleRequest deletes a request when its last answer has left the queue.
func settleRequest(tx *store.Tx, a announcement) {
	n := tx.ExecCount(`UPDATE requests SET answering = answering - 1
		WHERE requester = ? AND id = ? AND topic = ? AND answering > 1`, a.Requester, a.ID, a.For)
	if n == 0 {
		tx.Exec(`DELETE FROM requests WHERE requester = ? AND id = ? AND topic = ? AND answering = 1`, a.Requester,
			a.ID, a.For)
	}
}
