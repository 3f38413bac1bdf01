package agent

import (
	"crypto/rand"
	"net/http"
	"time"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/peers/collab"
	"hubbub/peers/peer"
	"hubbub/protocol/defaults"
	"hubbub/protocol/redact"

	"github.com/rs/zerolog"
)

// Options are the optional settings of an Agent. Nil is valid.
type Options struct {
	Peer *peer.Options // how to reach the bus; OnConnect is called as well

	Version       attention.Version // draft of C2A; default attention.Version0602
	Aliases       []string          // other names under which it is mentioned
	Roles         []string
	Streams       []string                   // streams that it owns
	Words         *attention.Words           // default attention.DefaultWords
	Zone          *time.Location             // of chats that do not say theirs; default time.Local
	ComposeWindow time.Duration              // after the last fragment; default 2s
	ComposeCap    time.Duration              // after the first fragment; default 30s
	Deadline      time.Duration              // for an answer; default 5m
	DigestEvery   time.Duration              // 0 disables digests
	Budget        *attention.Budget          // default attention.DefaultBudget
	Returns       *attention.ReturnIntervals // how often an open obligation returns; default attention.DefaultReturns
	// who is asked about events that the agent cannot answer; 10m per level by default
	Escalation attention.EscalationPolicy
	DeferFor   time.Duration // before a deferred event is redelivered, doubling; default 15m

	Approve []string // patterns of the tools that need a person's approval: "shell", "mcp:SERVER.TOOL"

	SystemPrompt string // the operator's text; response rules are added
	Workspace    string // folder for harnesses that use one
	// Fetch fetches the files of messages and restricts the addresses that it connects to. Nil
	// disables fetching.
	Fetch      *http.Client
	Transcribe files.Transcriber // for voice messages; may be nil
	ReadPDF    files.Transcriber // may be nil

	Redact *redact.Redactor // removes secrets from the results of the agent's tools; default none
	// ChatServer, if set, returns the agent's own MCP server for the turns of one chat.
	ChatServer func(chat string) harness.MCPServer
	MCP        []harness.MCPServer // the operator's MCP servers
	// GuardServer, if set, replaces an MCP server whose address comes from a message, and whose
	// headers hold a derived token. It restricts the addresses that are connected to.
	GuardServer func(harness.MCPServer) harness.MCPServer

	Model       string // name of the model; what is learned about drafts is stored under it
	HarnessType string // announced to the collaboration broker; default "scripted"
	WorkspaceID string // announced to the collaboration broker, as are ModelName and Node
	ModelName   string // by which @name?model means the agent; may differ from Model
	Node        string // machine
	WakePolicy  string // "auto" (default) or "manual"

	Parallel    int           // turns at once; half of them in one chat; default 8
	MaxOpen     int           // open events of one chat; default 1000
	MaxAttempts int           // of a turn with temporary failures; default 3
	Retention   time.Duration // of closed events; default 30 days
	ClaimTTL    time.Duration // of a claim without a duration; default 5m
	StopGrace   time.Duration // for running turns when Run ends; default 1s
	FirstRetry  time.Duration // before a failed turn runs again, doubling; default 2s

	OnReady   func()          // called once, when connected, subscribed and announced
	Fence     func() string   // returns the fence of a turn's prompt; default 16 random characters
	Log       *zerolog.Logger // default: no log
	failpoint func(step string)
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.Version, attention.Version0602)
	defaults.Set(&d.Budget, &attention.DefaultBudget)
	defaults.Set(&d.Returns, &attention.DefaultReturnIntervals)
	defaults.Set(&d.Zone, time.Local)
	defaults.Positive(&d.ComposeWindow, 2*time.Second)
	defaults.Positive(&d.ComposeCap, 30*time.Second)
	defaults.Positive(&d.Deadline, attention.DefaultDeadline)
	defaults.Positive(&d.Escalation.Timeout, attention.DefaultLevelTimeout)
	defaults.Positive(&d.DeferFor, 15*time.Minute)
	defaults.Set(&d.Words, new(attention.DefaultWords()))
	defaults.Positive(&d.Parallel, 8)
	defaults.Positive(&d.MaxOpen, 1000)
	defaults.Positive(&d.MaxAttempts, 3)
	defaults.Positive(&d.Retention, 30*24*time.Hour)
	defaults.Positive(&d.ClaimTTL, collab.ClaimTTL)
	defaults.Positive(&d.StopGrace, time.Second)
	defaults.Positive(&d.FirstRetry, 2*time.Second)
	defaults.Set(&d.HarnessType, "scripted")
	defaults.Set(&d.WakePolicy, "auto")
	defaults.Set(&d.Fence, func() string { return attention.Fence(rand.Text()) })
	defaults.Set(&d.OnReady, func() {})
	defaults.Set(&d.failpoint, func(string) {})
	defaults.Log(&d.Log)
	return d
}
