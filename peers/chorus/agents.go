package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// AgentSettings say how an external agent is seen by the attention layer and
// what its POSTs look like.
type AgentSettings struct {
	Roles   []string `json:"roles,omitempty"`   // mentions such as @backend-agents reach it
	Streams []string `json:"streams,omitempty"` // streams that it owns
	Knocks  bool     `json:"knocks,omitempty"`  // knocks are POSTed to it too, without content
	MCPList bool     `json:"mcpList,omitempty"` // "mcp" is sent as an array of one
}

// An ExternalAgent is an HTTP agent that the gateway puts on the bus.
type ExternalAgent struct {
	Name     AgentName     `json:"name"`
	Peer     string        `json:"peer"` // its identity on the bus
	Host     string        `json:"host"` // of its connection string; the rest is secret
	Settings AgentSettings `json:"settings"`
	Trouble  string        `json:"trouble,omitempty"` // why it is not on the bus
	AddedAt  time.Time     `json:"addedAt"`
}

// AddAgent puts an external agent on the bus, reached by its connection string.
// ErrExists where the name is taken: remove it first.
func (s *Store) AddAgent(ctx context.Context, name AgentName, connection string, settings AgentSettings) error {
	if err := CheckAgentName(string(name)); err != nil {
		return err
	}
	connection = strings.TrimSpace(connection)
	// Addresses are judged when they are dialled: only the gateway knows what is allowed.
	if err := NewGuard(everywhere).CheckURL(connection); err != nil {
		return fmt.Errorf("the connection string of %s: %w", name, err)
	}
	raw, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("adding the agent %s: %w", name, err)
	}
	res, err := s.db.ExecContext(ctx, `INSERT INTO agent (name, connection, settings, added_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		name, s.seal.seal(connectionLabel(name), []byte(connection)), string(raw), micros(s.now()))
	if err := changedOne(res, err, ErrExists); err != nil {
		return fmt.Errorf("adding the agent %s: %w", name, err)
	}
	return nil
}

var everywhere = prefixes("0.0.0.0/0", "::/0")

func connectionLabel(name AgentName) string { return "connection:" + string(name) }

// RemoveAgent takes an external agent off the bus, with everything that was
// kept for it. Its callbacks and tools are dead when it returns.
func (s *Store) RemoveAgent(ctx context.Context, name AgentName) error {
	res, err := s.db.ExecContext(ctx, `DELETE FROM agent WHERE name = ?`, name)
	if err := changedOne(res, err, ErrNotFound); err != nil {
		return fmt.Errorf("removing the agent %s: %w", name, err)
	}
	return nil
}

// Agents lists the external agents by name.
func (s *Store) Agents(ctx context.Context) ([]ExternalAgent, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT name, connection, settings, trouble, added_at FROM agent ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("listing agents: %w", err)
	}
	defer rows.Close()
	list := []ExternalAgent{}
	for rows.Next() {
		var a ExternalAgent
		var sealed []byte
		var settings string
		var added int64
		if err := rows.Scan(&a.Name, &sealed, &settings, &a.Trouble, &added); err != nil {
			return nil, fmt.Errorf("listing agents: %w", err)
		}
		if err := json.Unmarshal([]byte(settings), &a.Settings); err != nil {
			return nil, fmt.Errorf("reading the settings of %s: %w", a.Name, err)
		}
		connection, err := s.seal.open(connectionLabel(a.Name), sealed)
		if err != nil {
			return nil, fmt.Errorf("reading the connection string of %s: %w", a.Name, err)
		}
		a.Peer, a.Host, a.AddedAt = string(a.Name.ID()), hostOf(string(connection)), time.UnixMicro(added).UTC()
		list = append(list, a)
	}
	return list, rows.Err()
}

// agent returns the settings of one external agent.
func (s *Store) agent(ctx context.Context, name AgentName) (AgentSettings, error) {
	var raw string
	var settings AgentSettings
	err := s.db.QueryRowContext(ctx, `SELECT settings FROM agent WHERE name = ?`, name).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return settings, ErrNotFound
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &settings)
	}
	if err != nil {
		return settings, fmt.Errorf("reading the agent %s: %w", name, err)
	}
	return settings, nil
}

// connection returns the connection string of one external agent.
func (s *Store) connection(ctx context.Context, name AgentName) (string, error) {
	var sealed []byte
	err := s.db.QueryRowContext(ctx, `SELECT connection FROM agent WHERE name = ?`, name).Scan(&sealed)
	if errors.Is(err, sql.ErrNoRows) {
		return "", ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("reading the connection string of %s: %w", name, err)
	}
	connection, err := s.seal.open(connectionLabel(name), sealed)
	return string(connection), err
}

// setTrouble records why an external agent is not on the bus; empty when it is.
func (s *Store) setTrouble(ctx context.Context, name AgentName, trouble string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE agent SET trouble = ?1 WHERE name = ?2 AND trouble != ?1`, trouble, name)
	if err != nil {
		return fmt.Errorf("recording the state of %s: %w", name, err)
	}
	return nil
}
