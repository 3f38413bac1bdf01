package system

import (
	"context"
	"fmt"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// The states of an agent. Its row also has the running instance (the handle) and whether that
// instance is online.
const (
	stateWanted = "wanted" // should be running
	stateIdle   = "idle"   // stopped while nobody used it
	stateFailed = "failed" // not restarted until the next request
)

// Changes of an agent's row:
//
//	statement    from               to         made by
//	toWanted     none, idle, failed wanted     a request
//	toWanted     idle               wanted     a delivery of the broker that waits for it
//	toStarted    wanted             + handle   its supervisor, after it started an instance
//	toAdopted    any                + handle   its supervisor, after it found a running instance
//	toOnline     wanted             + online   the agent's announcement
//	toRestarting any                - online   a request for a further chat
//	toAbsent     any                - instance its supervisor, while there is no instance
//	toIdle       wanted             idle       its supervisor, unless a request is waiting
//	toFailed     wanted             failed     its supervisor, after too many failures
//	toForgotten  idle, failed       - instance its supervisor, after the instance has ended
//
// The first parameter of each statement is the agent's name.
const (
	toWanted = `INSERT INTO agents (name, profile, derived, state, created_at) VALUES (?, ?, ?, 'wanted', ?)
		ON CONFLICT (name) DO UPDATE SET state = 'wanted', online = 0, error = ''`
	toStarted = `UPDATE agents SET handle = ?2 WHERE name = ?1`
	// The start of the instance was not recorded. Its online state is correct nevertheless, since
	// that is cleared before every start.
	toAdopted    = `UPDATE agents SET online = CASE handle WHEN '' THEN online ELSE 0 END, handle = ?2 WHERE name = ?1`
	toOnline     = `UPDATE agents SET online = 1 WHERE name = ? AND state = 'wanted'`
	toRestarting = `UPDATE agents SET online = 0 WHERE name = ?`
	toAbsent     = `UPDATE agents SET online = 0, handle = '' WHERE name = ?`
	toIdle       = `UPDATE agents SET state = 'idle', online = 0 WHERE name = ? AND state = 'wanted'
		AND NOT EXISTS (SELECT 1 FROM requests WHERE agent = agents.name)`
	toFailed    = `UPDATE agents SET state = 'failed', online = 0, handle = '', error = ?2 WHERE name = ?1`
	toForgotten = `UPDATE agents SET online = 0, handle = '' WHERE name = ? AND state <> 'wanted'`
)

// An agentRow is a stored agent.
type agentRow struct {
	name    AgentName
	profile string
	derived protocol.Topic // the topic that the agent was derived for
	state   string         // empty if not stored yet
	handle  string         // of the running instance
	online  bool           // the running instance has announced itself
}

// findAgent returns an agent. The state of an agent that is not stored is empty.
func findAgent(tx *store.Tx, name AgentName) agentRow {
	a, _ := store.One(tx, func(a *agentRow) []any {
		return []any{&a.profile, &a.derived, &a.state, &a.handle,
			&a.online}
	},
		`SELECT profile, derived, state, handle, online FROM agents WHERE name = ?`, name)
	a.name = name
	return a
}

// agent returns the supervised agent.
func (k *supervisor) agent(ctx context.Context) (agentRow, error) {
	return store.Read(ctx, k.db, func(tx *store.Tx) agentRow { return findAgent(tx, k.name) })
}

// change executes a statement outside of any transaction.
func (s *Spawner) change(ctx context.Context, statement string, args ...any) error {
	return store.Exec(ctx, s.db, statement, args...)
}

// ownAgent returns the agent of a topic for requests that name none: the one derived from the
// topic, else the first one assigned to it, else "".
func ownAgent(tx *store.Tx, topic protocol.Topic) AgentName {
	return store.Value[AgentName](tx, `SELECT name FROM (
		SELECT name, 0 AS rank, 0 AS since FROM agents WHERE derived = ?1
		UNION ALL SELECT agent, 1, since FROM assignments WHERE topic = ?1)
		ORDER BY rank, since, name LIMIT 1`, topic)
}

// assign assigns a chat to an agent. widen means that the agent must restart because its
// credential is too narrow.
func assign(tx *store.Tx, agent AgentName, topic protocol.Topic, widen bool) {
	tx.Annotate(fmt.Sprintf("assigning %s to %s", agent, topic), func() {
		tx.Exec(`INSERT INTO assignments (topic, agent, since) VALUES (?, ?, ?)`, topic, agent, time.Now().UnixMicro())
		if widen {
			tx.Exec(toRestarting, agent)
		}
	})
}

func topicsOf(tx *store.Tx, agent AgentName) []protocol.Topic {
	return store.All(tx, store.Scalar[protocol.Topic],
		`SELECT topic FROM assignments WHERE agent = ? ORDER BY since, topic`, agent)
}

// A DownAgent is an agent that has failed or is not online yet.
type DownAgent struct {
	Agent protocol.PeerID
	Name  AgentName
	Error string // how it ended the last time
}

// AgentsDown reads from the database of a spawner, which may be running, the agents that have
// failed and those that should be running but are not online, ordered by name.
func AgentsDown(ctx context.Context, path string) (failed, coming []DownAgent, err error) {
	db, err := store.OpenExisting(path)
	if err != nil {
		return nil, nil, err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	err = store.Autocommit(ctx, db, func(tx *store.Tx) {
		offline := func(state string) []DownAgent {
			return store.All(tx, func(g *DownAgent) []any { return []any{&g.Agent, &g.Name, &g.Error} },
				`SELECT 'agent:' || name, name, error FROM agents WHERE state = ? AND online = 0 ORDER BY name`, state)
		}
		failed, coming = offline(stateFailed), offline(stateWanted)
	})
	return failed, coming, err
}

// HandleOf reads the handle of an agent's running instance from the database of a spawner, which
// may be running.
func HandleOf(ctx context.Context, path string, name AgentName) (string, error) {
	db, err := store.OpenExisting(path)
	if err != nil {
		return "", err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	return store.ReadValue[string](ctx, db, `SELECT handle FROM agents WHERE name = ?`, name)
}
