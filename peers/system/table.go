package system

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol"
)

// The states of an agent.
const (
	stateNew    = ""       // not stored yet
	stateWanted = "wanted" // it shall run
	stateIdle   = "idle"   // stopped, as nobody talked to it
	stateFailed = "failed" // given up
)

// An agentRow is one agent as it is stored.
type agentRow struct {
	name    AgentName
	profile string
	derived protocol.Topic // the topic whose own agent this is
	state   string
	handle  string // of its running instance
	online  bool   // that instance has said so
}

// A querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (s *Spawner) inTx(ctx context.Context, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func loadAgent(ctx context.Context, q querier, name AgentName) (agentRow, error) {
	a := agentRow{name: name}
	err := q.QueryRowContext(ctx, `SELECT profile, derived, state, handle, online FROM agents WHERE name = ?`, name).
		Scan(&a.profile, &a.derived, &a.state, &a.handle, &a.online)
	if err != nil {
		return a, fmt.Errorf("reading the agent %s: %w", name, err)
	}
	return a, nil
}

func agentExists(ctx context.Context, q querier, name AgentName) (exists bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM agents WHERE name = ?)`, name).Scan(&exists)
	return exists, err
}

// ownAgent returns the agent that a topic has when a request names none: the one
// derived from it, else the first that it was given. It is empty when it has none.
func ownAgent(ctx context.Context, q querier, topic protocol.Topic) (name AgentName, err error) {
	err = q.QueryRowContext(ctx, `SELECT name FROM (
		SELECT name, 0 AS rank, 0 AS since FROM agents WHERE derived = ?1
		UNION ALL SELECT agent, 1, since FROM assignments WHERE topic = ?1)
		ORDER BY rank, since, name LIMIT 1`, topic).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return name, err
}

// wantAgent stores that an agent shall run.
func wantAgent(ctx context.Context, q querier, a agentRow) error {
	_, err := q.ExecContext(ctx, `INSERT INTO agents (name, profile, derived, state, created_at) VALUES (?, ?, ?, 'wanted', ?)
		ON CONFLICT (name) DO UPDATE SET state = 'wanted', online = 0, error = ''`,
		a.name, a.profile, a.derived, time.Now().UnixMicro())
	if err != nil {
		return fmt.Errorf("storing the agent %s: %w", a.name, err)
	}
	return nil
}

// assign adds a chat to an agent. restart says that a running instance cannot
// serve it.
func assign(ctx context.Context, q querier, agent AgentName, topic protocol.Topic, restart bool) error {
	_, err := q.ExecContext(ctx, `INSERT INTO assignments (topic, agent, since) VALUES (?, ?, ?)`, topic, agent, time.Now().UnixMicro())
	if err == nil && restart {
		_, err = q.ExecContext(ctx, `UPDATE agents SET online = 0 WHERE name = ?`, agent)
	}
	if err != nil {
		return fmt.Errorf("assigning %s to %s: %w", agent, topic, err)
	}
	return nil
}

func topicsOf(ctx context.Context, q querier, agent AgentName) ([]protocol.Topic, error) {
	return column[protocol.Topic](ctx, q, `SELECT topic FROM assignments WHERE agent = ? ORDER BY since, topic`, agent)
}

// agentsToKeep returns the agents that shall run, and those that perhaps still
// do although they shall not.
func (s *Spawner) agentsToKeep(ctx context.Context) ([]AgentName, error) {
	return column[AgentName](ctx, s.db, `SELECT name FROM agents WHERE state = 'wanted' OR handle <> '' ORDER BY created_at, name`)
}

// column reads a query's only column.
func column[T any](ctx context.Context, q querier, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading the spawner's tables: %w", err)
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		var v T
		if err := rows.Scan(&v); err != nil {
			return nil, fmt.Errorf("reading the spawner's tables: %w", err)
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// exec changes the spawner's tables.
func (s *Spawner) exec(ctx context.Context, query string, args ...any) error {
	if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("writing the spawner's tables: %w", err)
	}
	return nil
}

// A waiting is what is stored of a request.
type waiting struct {
	request
	agent     AgentName
	answering int // answers on their way
}

// repeated returns what is stored of a request that came before.
func (s *Spawner) repeated(ctx context.Context, q querier, r request) (waiting, error) {
	w := waiting{request: r}
	err := q.QueryRowContext(ctx, `SELECT agent, answering FROM requests WHERE requester = ? AND id = ? AND topic = ?`, r.requester, r.id, r.topic).
		Scan(&w.agent, &w.answering)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return w, fmt.Errorf("looking for the same request: %w", err)
	}
	return w, nil
}

func storeRequest(ctx context.Context, q querier, r request, agent AgentName) error {
	_, err := q.ExecContext(ctx, `INSERT INTO requests (requester, id, echo, message, topic, agent, arrived_at, traceparent)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
		ON CONFLICT (requester, id, topic) DO UPDATE SET message = ?4, agent = ?6, traceparent = ?8`,
		r.requester, r.id, r.echo, r.message, r.topic, agent, time.Now().UnixMicro(), r.trace)
	if err != nil {
		return fmt.Errorf("storing a request: %w", err)
	}
	return nil
}

// waitingFor returns the requests that wait for an agent.
func waitingFor(ctx context.Context, q querier, agent AgentName) ([]request, error) {
	rows, err := q.QueryContext(ctx, `SELECT requester, id, echo, message, topic, traceparent FROM requests
		WHERE agent = ? AND answering = 0 ORDER BY arrived_at`, agent)
	if err != nil {
		return nil, fmt.Errorf("looking for requests: %w", err)
	}
	defer rows.Close()
	var all []request
	for rows.Next() {
		var r request
		if err := rows.Scan(&r.requester, &r.id, &r.echo, &r.message, &r.topic, &r.trace); err != nil {
			return nil, fmt.Errorf("reading a request: %w", err)
		}
		all = append(all, r)
	}
	return all, rows.Err()
}
