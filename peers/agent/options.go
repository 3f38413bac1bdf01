package agent

import (
	"crypto/rand"
	"net/http"
	"time"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol/defaults"
	"hubbub/protocol/redact"

	"github.com/rs/zerolog"
)

// Options are the optional settings of an Agent. Nil is valid.
type Options struct {
	Peer *peer.Options // how to reach the bus; OnConnect is called as well

	Version       attention.Version          `default:"2026-06-02"` // draft of C2A
	Aliases       []string                   `flag:"alias" usage:"other name by which messages mention it, such as one that a Chorus service gives it (repeatable)"`
	Roles         []string                   `flag:"role" usage:"role that the agent has, such as backend-agents (repeatable)"`
	Streams       []string                   `flag:"stream" usage:"stream that the agent owns (repeatable)"`
	Words         *attention.Words           // default attention.DefaultWords
	Zone          *time.Location             // of chats that do not say theirs; default time.Local
	ComposeWindow time.Duration              `flag:"compose-window" default:"2s" usage:"wait after a message for more from its author"`
	ComposeCap    time.Duration              `flag:"compose-cap" default:"30s" usage:"longest time over which messages are merged"`
	Deadline      time.Duration              `flag:"deadline" positive:"5m" usage:"longest time for an answer"`
	DigestEvery   time.Duration              `flag:"digest-every" default:"0" usage:"time between digests; 0 for none"`
	Budget        *attention.Budget          // default attention.DefaultBudget
	Returns       *attention.ReturnIntervals // how often an open obligation returns; default attention.DefaultReturns
	// who is asked about events that the agent cannot answer; 10m per level by default
	Escalation attention.EscalationPolicy
	DeferFor   time.Duration `flag:"defer-for" positive:"15m" usage:"time until a deferred event comes back, doubled each time"`

	Approve []string `flag:"approve" usage:"pattern of tools that need a person's decision in the chat, such as shell or mcp:deploy.* (repeatable)"`

	SystemPrompt string // the operator's text; response rules are added
	Workspace    string `flag:"workspace" usage:"folder in which the harness may work"`
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
	HarnessType string `default:"scripted"` // announced to the collaboration broker
	WorkspaceID string `flag:"workspace-id" usage:"name of its workspace, for mentions such as @NAME.WORKSPACE at the collaboration broker (the name of the --workspace folder works, too)"`
	ModelName   string // by which @name?model means the agent; may differ from Model
	Node        string `flag:"node" usage:"name of its machine, for mentions such as @NAME.node:NODE at the broker (default the host's name)"`
	WakePolicy  string `flag:"wake-policy" default:"auto" usage:"auto or manual: whether the collaboration broker may wake it"`

	Parallel    int           `positive:"8"`    // turns at once; half of them in one chat
	MaxOpen     int           `positive:"1000"` // open events of one chat
	MaxAttempts int           `positive:"3"`    // of a turn with temporary failures
	Retention   time.Duration `positive:"720h"` // of closed events
	ClaimTTL    time.Duration `positive:"5m"`   // of a claim without a duration
	StopGrace   time.Duration `positive:"1s"`   // for running turns when Run ends
	FirstRetry  time.Duration `positive:"2s"`   // before a failed turn runs again, doubling

	OnReady   func()          // called once, when connected, subscribed and announced
	OnIdle    func()          // called some seconds after the last event or turn, to return memory to the system
	Fence     func() string   // returns the fence of a turn's prompt; default 16 random characters
	Log       *zerolog.Logger // default: no log
	failpoint func(step string)
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.Budget, &attention.DefaultBudget)
	defaults.Set(&d.Returns, &attention.DefaultReturnIntervals)
	defaults.Set(&d.Zone, time.Local)
	defaults.Set(&d.Words, new(attention.DefaultWords()))
	defaults.Set(&d.Fence, func() string { return attention.Fence(rand.Text()) })
	defaults.Set(&d.OnReady, func() {})
	defaults.Set(&d.OnIdle, func() {})
	defaults.Set(&d.failpoint, func(string) {})
	defaults.Log(&d.Log)
	return d
}
