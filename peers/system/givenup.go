package system

import (
	"context"
	"errors"
	"fmt"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// A GivenUp is an agent that is not started again until somebody asks for it.
type GivenUp struct {
	Agent protocol.PeerID
	Name  AgentName
	Error string // how it ended, the last time
}

// AgentsGivenUp reads from the database of a spawner, which may run meanwhile, the
// agents that it gave up, by name.
func AgentsGivenUp(ctx context.Context, path string) (list []GivenUp, err error) {
	db, err := store.Attach(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `SELECT name, error FROM agents WHERE state = ? ORDER BY name`, stateFailed)
	if err != nil {
		return nil, fmt.Errorf("reading which agents were given up: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var g GivenUp
		if err := rows.Scan(&g.Name, &g.Error); err != nil {
			return nil, fmt.Errorf("reading which agents were given up: %w", err)
		}
		g.Agent = g.Name.PeerID()
		list = append(list, g)
	}
	return list, rows.Err()
}
