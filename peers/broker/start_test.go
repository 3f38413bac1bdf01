package broker

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/store"
)

// BenchmarkStart rebuilds the state from a log of 1,000,000 events: nine of ten
// are heartbeats of a hundred agents, as in a quiet house, the others messages.
func BenchmarkStart(b *testing.B) {
	db, err := store.Open(filepath.Join(b.TempDir(), "broker.db"), Schema)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	const endpoint = `json_object('logicalAgentId', 'agent-' || (n % 100), 'endpointId', 'endpoint-' || (n % 100), 'identity', 'agent:agent-' || (n % 100),
		'harnessType', 'scripted', 'projectPath', '/home/agent/project', 'roles', json('["backend-agents"]'), 'wakePolicy', 'auto', 'status', 'online',
		'announcedAt', '2026-06-02T12:00:00.000000Z', 'lastHeartbeatAt', '2026-06-02T12:00:00.000000Z')`
	for _, statement := range []string{
		fmt.Sprintf(`INSERT INTO events WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < 1000000)
			SELECT n, 'evt-' || n, CASE WHEN n <= 100 THEN 'collab.agent.online' WHEN n %% 10 > 0 THEN 'collab.agent.heartbeat' ELSE 'collab.message.posted' END,
				'agent:agent-' || (n %% 100), 'agent:agent-' || (n %% 100),
				CASE WHEN n <= 100 OR n %% 10 > 0 THEN %s ELSE json_object('id', 'm-' || n, 'conversationId', 'c-' || (n %% 7), 'authorId', 'agent-1', 'text',
					'a message of usual length, about something that happened today') END,
				CASE WHEN n > 100 AND n %% 10 = 0 THEN '{"mentions":[],"targetAgents":[],"wake":{"rule":"none","outcome":"none"},"digest":"0123456789abcdef0123456789abcdef"}' END,
				'2026-06-02T12:00:00.000000Z' FROM s`, endpoint),
	} {
		if _, err := db.Exec(statement); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		s, err := load(b.Context(), db, time.Now())
		if err != nil || s.seq != 1_000_000 || len(s.endpoints) != 100 {
			b.Fatalf("%v, %+v", err, s)
		}
	}
}
