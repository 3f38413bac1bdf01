package acp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"hubbub/peers/agent/harness"

	acpsdk "github.com/coder/acp-go-sdk"
)

// maxText bounds the text that is kept of one turn.
const maxText = 256 << 10

// A collector gathers what the program does in one turn.
type collector struct {
	turnID string
	report func(harness.Progress)

	mu     sync.Mutex
	pieces []string // texts between tool calls; the last one grows
	size   int
	calls  int
	usage  *acpsdk.Usage
	stop   acpsdk.StopReason
}

// fill writes what was gathered into the outcome of the turn.
func (c *collector) fill(o *harness.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.pieces) - 1; i >= 0 && o.FinalText == ""; i-- {
		o.FinalText = strings.TrimSpace(c.pieces[i])
	}
	o.Truncated = c.stop == acpsdk.StopReasonMaxTokens
	o.Usage = harness.Usage{Model: "acp", Rounds: 1, ToolCalls: c.calls}
	if c.usage != nil {
		o.Usage.InputTokens, o.Usage.OutputTokens = int64(c.usage.InputTokens), int64(c.usage.OutputTokens)
	}
}

func (c *collector) text(piece string) {
	c.mu.Lock()
	if len(c.pieces) == 0 {
		c.pieces = []string{""}
	}
	if c.size += len(piece); c.size <= maxText {
		c.pieces[len(c.pieces)-1] += piece
	}
	c.mu.Unlock()
	c.report(harness.Progress{TurnID: c.turnID, Kind: harness.ProgressText, Message: piece})
}

func (c *collector) update(u *acpsdk.SessionUpdate) {
	switch {
	case u.AgentMessageChunk != nil:
		if u.AgentMessageChunk.Content.Text != nil {
			c.text(u.AgentMessageChunk.Content.Text.Text)
		}
	case u.ToolCall != nil:
		c.mu.Lock()
		c.calls++
		if n := len(c.pieces); n > 0 && c.pieces[n-1] != "" && n < 256 {
			c.pieces = append(c.pieces, "")
		}
		c.mu.Unlock()
		c.report(harness.Progress{
			TurnID: c.turnID, Kind: harness.ProgressToolCall, Tool: u.ToolCall.Title,
			CallID: string(u.ToolCall.ToolCallId), Content: raw(u.ToolCall.RawInput),
		})
	case u.ToolCallUpdate != nil && u.ToolCallUpdate.Status != nil:
		switch *u.ToolCallUpdate.Status {
		case acpsdk.ToolCallStatusCompleted, acpsdk.ToolCallStatusFailed:
			title := ""
			if u.ToolCallUpdate.Title != nil {
				title = *u.ToolCallUpdate.Title
			}
			c.report(harness.Progress{
				TurnID: c.turnID, Kind: harness.ProgressToolResult, Tool: title,
				CallID: string(u.ToolCallUpdate.ToolCallId), Content: raw(u.ToolCallUpdate.RawOutput),
			})
		}
	case u.Plan != nil:
		done := 0
		for _, e := range u.Plan.Entries {
			if e.Status == acpsdk.PlanEntryStatusCompleted {
				done++
			}
		}
		c.report(harness.Progress{TurnID: c.turnID, Kind: harness.ProgressStatus, Message: "plan", Progress: float64(done), Total: float64(len(u.Plan.Entries))})
	}
}

// raw writes what a program says of a tool's input or output, if it is small.
func raw(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil || len(out) > 64<<10 {
		return json.RawMessage("null")
	}
	return out
}

// client answers what the program asks of us.
type client struct{ p *program }

var _ acpsdk.Client = (*client)(nil)

// SessionUpdate hands an update to the turn of its session.
func (c *client) SessionUpdate(_ context.Context, n acpsdk.SessionNotification) error {
	if turn := c.p.running(n.SessionId); turn != nil {
		turn.update(&n.Update)
	}
	return nil
}

// RequestPermission answers by the policy.
func (c *client) RequestPermission(_ context.Context, r acpsdk.RequestPermissionRequest) (acpsdk.RequestPermissionResponse, error) {
	turn := c.p.running(r.SessionId)
	if turn == nil { // no turn, hence nothing to permit
		return acpsdk.RequestPermissionResponse{Outcome: acpsdk.RequestPermissionOutcome{Cancelled: &acpsdk.RequestPermissionOutcomeCancelled{}}}, nil
	}
	options, said := rejecting, "not permitted: "
	if permits(c.p.h.opts.Permission, &r.ToolCall) {
		options, said = allowing, "permitted: "
	}
	title := string(r.ToolCall.ToolCallId)
	if r.ToolCall.Title != nil {
		title = *r.ToolCall.Title
	}
	turn.report(harness.Progress{TurnID: turn.turnID, Kind: harness.ProgressStatus, Message: said + title})
	return acpsdk.RequestPermissionResponse{Outcome: choose(options, r.Options)}, nil
}

// The program was told that this side has no files and no terminals.

// ReadTextFile refuses.
func (c *client) ReadTextFile(context.Context, acpsdk.ReadTextFileRequest) (acpsdk.ReadTextFileResponse, error) {
	return acpsdk.ReadTextFileResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodFsReadTextFile)
}

// WriteTextFile refuses.
func (c *client) WriteTextFile(context.Context, acpsdk.WriteTextFileRequest) (acpsdk.WriteTextFileResponse, error) {
	return acpsdk.WriteTextFileResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodFsWriteTextFile)
}

// CreateTerminal refuses.
func (c *client) CreateTerminal(context.Context, acpsdk.CreateTerminalRequest) (acpsdk.CreateTerminalResponse, error) {
	return acpsdk.CreateTerminalResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodTerminalCreate)
}

// KillTerminal refuses.
func (c *client) KillTerminal(context.Context, acpsdk.KillTerminalRequest) (acpsdk.KillTerminalResponse, error) {
	return acpsdk.KillTerminalResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodTerminalKill)
}

// TerminalOutput refuses.
func (c *client) TerminalOutput(context.Context, acpsdk.TerminalOutputRequest) (acpsdk.TerminalOutputResponse, error) {
	return acpsdk.TerminalOutputResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodTerminalOutput)
}

// ReleaseTerminal refuses.
func (c *client) ReleaseTerminal(context.Context, acpsdk.ReleaseTerminalRequest) (acpsdk.ReleaseTerminalResponse, error) {
	return acpsdk.ReleaseTerminalResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodTerminalRelease)
}

// WaitForTerminalExit refuses.
func (c *client) WaitForTerminalExit(context.Context, acpsdk.WaitForTerminalExitRequest) (acpsdk.WaitForTerminalExitResponse, error) {
	return acpsdk.WaitForTerminalExitResponse{}, acpsdk.NewMethodNotFound(acpsdk.ClientMethodTerminalWaitForExit)
}
