package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/chorus"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	words "hubbub/protocol/chorus"
	"hubbub/protocol/datafolder"
	"hubbub/protocol/redact"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"
)

// A Spec describes a remote agent.
type Spec struct {
	Name           string
	Folder         string // for its database
	Roles, Streams []string
	Aliases        []string // other names in mentions
	Knocks         bool
	Post           func(ctx context.Context, turn, revision, chat string, p *words.Post) error // see chorus.PostFunc
	Peer           *peer.Options
	ComposeWindow  time.Duration
	ComposeCap     time.Duration
	Deadline       time.Duration // for an answer; the lifetime of a callback
	Version        string        // of the program, for MCP clients
	Log            *zerolog.Logger
	Redact         *redact.Redactor // removes secrets from the results of tools; default none
}

// An Agent is a remote agent. Its harness handles the events of callbacks.
type Agent struct {
	*chorus.Harness
	agent  *agent.Agent
	db     *store.DB
	server *mcp.Implementation
}

// Open opens the database of a remote agent, creating it if necessary.
func Open(s *Spec) (*Agent, error) {
	if err := datafolder.MkdirAll(s.Folder); err != nil {
		return nil, fmt.Errorf("creating the folder of %s: %w", s.Name, err)
	}
	db, err := agent.Open(filepath.Join(s.Folder, "agent-"+s.Name+".db"))
	if err != nil {
		return nil, err
	}
	x := &Agent{db: db, Harness: chorus.New(s.Post, s.Knocks)}
	x.server = &mcp.Implementation{Name: "hubbub-chorus", Title: "A chat on Hubbub", Version: s.Version}
	x.agent = agent.New(protocol.AgentID(s.Name), db, x.Harness, &agent.Options{
		Peer:          s.Peer,
		Roles:         s.Roles,
		Aliases:       s.Aliases,
		Streams:       s.Streams,
		HarnessType:   "chorus",
		ComposeWindow: max(s.ComposeWindow, 1),
		ComposeCap:    s.ComposeCap,
		Deadline:      s.Deadline,
		Log:           s.Log,
		Redact:        s.Redact,
	})
	return x, nil
}

// Run runs the agent and then closes its database. It returns nil when ctx ends, or an error when
// the bus refuses the agent. Call it once.
func (x *Agent) Run(ctx context.Context) error { return errors.Join(x.agent.Run(ctx), x.db.Close()) }

// Tools returns the MCP endpoint with the chat tools of one chat, for a caller that received this
// revision of a turn.
func (x *Agent) Tools(chat, turn, revision string) http.Handler {
	return mcptools.NewHandler(
		func(*http.Request) harness.Tools { return turnTools{x.agent.ToolsFor(chat), turn, revision} },
		x.server,
	)
}

// turnTools are the chat tools for a caller that was given a turn.
type turnTools struct {
	harness.Tools
	turn, revision string
}

// Call implements [harness.Tools]. It adds the turn and its revision to the context.
func (g turnTools) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	return g.Tools.Call(harness.WithRevision(ctx, g.turn, g.revision), name, arguments)
}
