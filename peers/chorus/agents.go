package chorus

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/store"
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

	connection string // secret
}

// AddAgent adds an external agent, which is reached by its connection string. It
// fails with ErrExists if there is one of that name.
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
	err = changedOne(ctx, s.db, ErrExists, `INSERT INTO agent (name, connection, settings, added_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		name, s.seal.seal(connectionLabel(name), []byte(connection)), string(raw), micros(s.now()))
	if err != nil {
		return fmt.Errorf("adding the agent %s: %w", name, err)
	}
	return nil
}

var everywhere = prefixes("0.0.0.0/0", "::/0")

func connectionLabel(name AgentName) string { return "connection:" + string(name) }

// RemoveAgent removes an external agent. Its callbacks and tools are dead when it
// returns; the gateway takes it off the bus and removes what was kept for it.
func (s *Store) RemoveAgent(ctx context.Context, name AgentName) error {
	if err := changedOne(ctx, s.db, ErrNotFound, `DELETE FROM agent WHERE name = ?`, name); err != nil {
		return fmt.Errorf("removing the agent %s: %w", name, err)
	}
	return nil
}

// Agents lists the external agents by name.
func (s *Store) Agents(ctx context.Context) ([]ExternalAgent, error) {
	return store.All(ctx, s.db, s.scanAgent, `SELECT name, connection, settings, trouble, added_at FROM agent ORDER BY name`)
}

func (s *Store) scanAgent(row store.Row) (a ExternalAgent, err error) {
	var sealed, settings []byte
	var added int64
	if err := row.Scan(&a.Name, &sealed, &settings, &a.Trouble, &added); err != nil {
		return a, err
	}
	if err := json.Unmarshal(settings, &a.Settings); err != nil {
		return a, fmt.Errorf("the settings of %s: %w", a.Name, err)
	}
	connection, err := s.seal.open(connectionLabel(a.Name), sealed)
	if err != nil {
		return a, fmt.Errorf("the connection string of %s: %w", a.Name, err)
	}
	a.Peer, a.Host, a.AddedAt, a.connection = string(a.Name.ID()), hostOf(string(connection)), time.UnixMicro(added).UTC(), string(connection)
	return a, nil
}

// agent returns an external agent. It fails with ErrNotFound if there is none.
func (s *Store) agent(ctx context.Context, name AgentName) (ExternalAgent, error) {
	a, found, err := store.One(ctx, s.db, s.scanAgent, `SELECT name, connection, settings, trouble, added_at FROM agent WHERE name = ?`, name)
	if err == nil && !found {
		err = ErrNotFound
	}
	return a, err
}

// setTrouble records why an external agent is not on the bus. It is empty if the
// agent is.
func (s *Store) setTrouble(ctx context.Context, name AgentName, trouble string) error {
	return store.Exec(ctx, s.db, `UPDATE agent SET trouble = ?1 WHERE name = ?2 AND trouble <> ?1`, trouble, name)
}
