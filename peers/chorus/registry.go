package chorus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/netguard"
	"hubbub/peers/store"
)

// Errors of the registry of inboxes and agents.
var (
	ErrExists   = errors.New("it already exists")
	ErrNotFound = errors.New("it does not exist")
)

// An Inbox is an address to which Chorus services POST for our agents.
type Inbox struct {
	Name      InboxName `json:"name"`
	Revoked   bool      `json:"revoked"`
	Channels  int       `json:"channels"`
	CreatedAt time.Time `json:"createdAt"`
	ChangedAt time.Time `json:"changedAt"` // created, rotated or revoked
}

// CreateInbox makes an inbox and returns its secret, which is not stored. A revoked inbox is
// restored with a new secret. Otherwise, an existing name is ErrExists.
func (s *Store) CreateInbox(ctx context.Context, name InboxName) (secret string, err error) {
	if err := CheckInboxName(string(name)); err != nil {
		return "", err
	}
	secret = newSecret(inboxPrefix)
	return secret, s.change(ctx, fmt.Sprintf("creating the inbox %s", name), ErrExists,
		`INSERT INTO inbox (name, secret_sha256, created_at, changed_at) VALUES (?1, ?2, ?3, ?3)
		ON CONFLICT (name) DO UPDATE SET secret_sha256 = excluded.secret_sha256, changed_at = excluded.changed_at
		WHERE secret_sha256 IS NULL`, name, hashSecret(secret), micros(s.now()))
}

// RotateInbox gives an inbox a new secret. The old one is invalid when it returns.
func (s *Store) RotateInbox(ctx context.Context, name InboxName) (secret string, err error) {
	secret = newSecret(inboxPrefix)
	return secret, s.change(
		ctx,
		fmt.Sprintf("rotating the inbox %s", name),
		ErrNotFound,
		`UPDATE inbox SET secret_sha256 = ?, changed_at = ? WHERE name = ? AND secret_sha256 IS NOT NULL`,
		hashSecret(secret),
		micros(s.now()),
		name,
	)
}

// RevokeInbox closes an inbox. Its secret is invalid when it returns. Accepted messages are still
// answered.
func (s *Store) RevokeInbox(ctx context.Context, name InboxName) error {
	return s.change(
		ctx,
		fmt.Sprintf("revoking the inbox %s", name),
		ErrNotFound,
		`UPDATE inbox SET secret_sha256 = NULL, changed_at = ? WHERE name = ? AND secret_sha256 IS NOT NULL`,
		micros(s.now()),
		name,
	)
}

// Inboxes lists the inboxes by name, including revoked ones.
func (s *Store) Inboxes(ctx context.Context) ([]Inbox, error) {
	list, err := store.ReadAll(ctx, s.db, func(in *Inbox) []any {
		return []any{&in.Name, &in.Revoked, store.Micros{Time: &in.CreatedAt}, store.Micros{Time: &in.ChangedAt},
			&in.Channels}
	}, `SELECT name, secret_sha256 IS NULL, created_at, changed_at,
		(SELECT count(*) FROM channel WHERE channel.inbox = inbox.name) FROM inbox ORDER BY name`)
	return append([]Inbox{}, list...), err // never null in JSON
}

// inboxOf returns the inbox of a secret. Unknown, wrong, rotated and revoked secrets take the
// same path: one hash and one failed lookup, which is errUnknownSecret.
func (s *Store) inboxOf(ctx context.Context, secret string) (InboxName, error) {
	return readOne(ctx, s.db,
		errUnknownSecret,
		store.Scalar[InboxName],
		`SELECT name FROM inbox WHERE secret_sha256 = ?`,
		hashSecret(secret))
}

// ConnectionString returns what an owner gives to a Chorus service.
func ConnectionString(publicURL, secret string) string {
	return strings.TrimRight(publicURL, "/") + inboxPath + secret
}

// AgentSettings configure the attention layer of an external agent and the format of its POSTs.
type AgentSettings struct {
	Roles   []string `json:"roles,omitempty"`   // reached by mentions such as @backend-agents
	Aliases []string `json:"aliases,omitempty"` // other names in mentions
	Streams []string `json:"streams,omitempty"` // streams that it owns
	Knocks  bool     `json:"knocks,omitempty"`  // knocks are also POSTed, without content
	MCPList bool     `json:"mcpList,omitempty"` // "mcp" is sent as an array of one object
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

// AddAgent adds an external agent with its connection string. It fails with ErrExists if the name
// is in use.
func (s *Store) AddAgent(ctx context.Context, name AgentName, connection string, settings AgentSettings) error {
	connection, err := checkConnection(name, connection)
	if err != nil {
		return err
	}
	adding := fmt.Sprintf("adding the agent %s", name)
	raw, err := json.Marshal(settings)
	if err != nil {
		return fmt.Errorf("%s: %w", adding, err)
	}
	return s.change(
		ctx,
		adding,
		ErrExists,
		`INSERT INTO agent (name, connection, settings, added_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		name,
		s.seal.seal(connectionLabel(name), connection),
		string(raw),
		micros(s.now()),
	)
}

// ReplaceConnection gives an external agent another connection string, which is also used for
// waiting deliveries. It fails with ErrNotFound if there is no such agent.
func (s *Store) ReplaceConnection(ctx context.Context, name AgentName, connection string) error {
	connection, err := checkConnection(name, connection)
	if err != nil {
		return err
	}
	return s.change(ctx, fmt.Sprintf("replacing the connection string of the agent %s", name), ErrNotFound,
		`UPDATE agent SET connection = ? WHERE name = ?`, s.seal.seal(connectionLabel(name), connection), name)
}

// checkConnection validates a connection string and trims spaces. Addresses are checked when they
// are dialed: only the gateway knows which are allowed.
func checkConnection(name AgentName, connection string) (string, error) {
	if err := CheckAgentName(string(name)); err != nil {
		return "", err
	}
	connection = strings.TrimSpace(connection)
	if err := netguard.New(netguard.AllAddresses).CheckURL(connection); err != nil {
		return "", fmt.Errorf("the connection string of %s: %w", name, err)
	}
	return connection, nil
}

func connectionLabel(name AgentName) string { return "connection:" + string(name) }

// RemoveAgent removes an external agent. Its callbacks and tools are invalid when it returns. The
// gateway then disconnects it and deletes its data.
func (s *Store) RemoveAgent(ctx context.Context, name AgentName) error {
	return s.change(
		ctx,
		fmt.Sprintf("removing the agent %s", name),
		ErrNotFound,
		`DELETE FROM agent WHERE name = ?`,
		name,
	)
}

// Agents lists the external agents by name.
func (s *Store) Agents(ctx context.Context) ([]ExternalAgent, error) { return s.agents(ctx, "") }

// agent returns an external agent. It fails with ErrNotFound if there is none.
func (s *Store) agent(ctx context.Context, name AgentName) (ExternalAgent, error) {
	list, err := s.agents(ctx, "WHERE name = ?", name)
	if err != nil || len(list) == 0 {
		return ExternalAgent{}, cmp.Or(err, ErrNotFound)
	}
	return list[0], nil
}

func (s *Store) agents(ctx context.Context, where string, args ...any) (all []ExternalAgent, err error) {
	type row struct {
		ExternalAgent
		settings, sealed []byte
	}
	rows, err := store.ReadAll(ctx, s.db, func(r *row) []any {
		return []any{&r.Name, &r.sealed, &r.settings, &r.Trouble, store.Micros{Time: &r.AddedAt}}
	}, `SELECT name, connection, settings, trouble, added_at FROM agent `+where+` ORDER BY name`, args...)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		if err := json.Unmarshal(r.settings, &r.Settings); err != nil {
			return nil, fmt.Errorf("the settings of %s: %w", r.Name, err)
		}
		if r.connection, err = s.seal.open(connectionLabel(r.Name), r.sealed); err != nil {
			return nil, fmt.Errorf("the connection string of %s: %w", r.Name, err)
		}
		r.Peer, r.Host = string(r.Name.ID()), netguard.HostForLog(r.connection)
		all = append(all, r.ExternalAgent)
	}
	return all, nil
}

// recordTrouble stores why an external agent is not on the bus, or "" if it is.
func (g *Gateway) recordTrouble(ctx context.Context, name AgentName, trouble string) {
	err := store.Exec(ctx, g.store.db,
		`UPDATE agent SET trouble = ?1 WHERE name = ?2 AND trouble <> ?1`, trouble, name)
	if err != nil && ctx.Err() == nil {
		g.opts.Log.Error().Err(err).Msg("state of an agent not stored")
	}
}
