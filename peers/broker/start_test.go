package broker

import (
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
)

// BenchmarkStart loads the state of 100 endpoints and 1,000,000 messages.
func BenchmarkStart(b *testing.B) {
	db, err := store.Open(filepath.Join(b.TempDir(), "broker.db"), Schema)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	const endpoint = `json_object('Endpoint', json_object('logicalAgentId', 'agent-' || n, 'endpointId', 'endpoint-' || n,
		'identity', 'agent:agent-' || n, 'agentIdentity', 'agent:agent-' || n, 'wakePolicy', 'auto', 'status', 'online'))`
	if err := storetest.Exec(db, `INSERT INTO entities (kind, id, ref, open, seq, body)
		WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < 1000100)
		SELECT iif(n <= 100, 'party', 'message'), n, '', n <= 100, n, iif(n <= 100, `+endpoint+`, '{}') FROM s`); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := load(b.Context(), db, time.Now())
		if err != nil || len(s.Endpoints) != 100 {
			b.Fatalf("%v, %+v", err, s)
		}
	}
}
