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
	Aliases       []string          // further names under which it is mentioned
	Roles         []string
	Streams       []string                   // streams that it owns
	Words         *attention.Words           // nil = attention.DefaultWords
	ComposeWindow time.Duration              // after the last fragment; default 2s
	ComposeCap    time.Duration              // after the first fragment; default 30s
	Deadline      time.Duration              // for an answer; default 5m
	DigestEvery   time.Duration              // 0 = no digests
	Budget        *attention.Budget          // default attention.DefaultBudget
	Returns       *attention.ReturnIntervals // how often what somebody waits for comes back; default attention.DefaultReturns
	Escalation    attention.EscalationPolicy // who answers what it cannot; each has 10m by default
	DeferFor      time.Duration              // before a deferred event comes back, doubling; default 15m

	Approve    []string // patterns of the tools about which a person decides: "shell", "mcp:SERVER.TOOL"
	AllowWords []string // that allow, as an answer to such a question; default yes, allow, approve
	DenyWords  []string // that deny; default no, deny

	SystemPrompt string // the operator's text; the response rules are added
	Workspace    string // folder for harnesses that work in one
	// Fetch fetches the files of messages, and guards what is dialled; nil: none are.
	Fetch      *http.Client
	Transcribe files.Transcriber // of voice messages; nil: none are
	ReadPDF    files.Transcriber // nil: none is read

	Redact *redact.Redactor // takes secrets out of what the agent's tools give a model; none
	// ChatServer, if set, is this agent's own MCP server as the turns of one chat
	// see it.
	ChatServer func(chat string) harness.MCPServer
	MCP        []harness.MCPServer // the operator's MCP servers
	// GuardServer, if set, stands in for a server whose address a message named, and whose
	// headers hold a pass of the agent's token: it guards what is dialled.
	GuardServer func(harness.MCPServer) harness.MCPServer

	Model       string // names what writes the answers; what was learned of it is kept under that name
	HarnessType string // told to the collaboration broker; default "scripted"
	WorkspaceID string // told to the collaboration broker
	WakePolicy  string // "auto" (default) or "manual"

	Parallel    int           // turns at once, half of them in one chat; default 8
	MaxOpen     int           // open events of one chat; default 1000
	MaxAttempts int           // of a turn that fails for now; default 3
	Retention   time.Duration // of closed events; default 30 days
	ClaimTTL    time.Duration // of a claim that names none; default 5m
	StopGrace   time.Duration // for running turns when Run ends; default 1s
	FirstRetry  time.Duration // before a failed turn runs again, doubling; default 2s

	OnReady   func()          // called once, when connected, subscribed and announced
	Fence     func() string   // draws the fence of a turn; default 16 random characters
	Log       *zerolog.Logger // default: no log
	failpoint func(step string)
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.Version, attention.Version0602)
	defaults.Set(&d.Budget, &attention.DefaultBudget)
	defaults.Set(&d.Returns, &attention.DefaultReturnIntervals)
	defaults.Positive(&d.ComposeWindow, 2*time.Second)
	defaults.Positive(&d.ComposeCap, 30*time.Second)
	defaults.Positive(&d.Deadline, attention.DefaultDeadline)
	defaults.Positive(&d.Escalation.Timeout, attention.DefaultLevelTimeout)
	defaults.Positive(&d.DeferFor, 15*time.Minute)
	if len(d.AllowWords) == 0 {
		d.AllowWords = []string{"yes", "allow", "approve"}
	}
	if len(d.DenyWords) == 0 {
		d.DenyWords = []string{"no", "deny"}
	}
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
