package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// maxArguments bounds the recorded bytes of a call's arguments.
const maxArguments = 4 << 10

// A ToolCall is a call of one of the agent's own tools, or of a tool of its program.
type ToolCall struct {
	TurnID    string // empty outside of a turn
	Tool      string
	Arguments json.RawMessage
	Result    json.RawMessage // empty if unknown
	Failed    bool
}

// RecordCall records a tool call about an event, which may be nil. Calls are recorded the same
// way for all harnesses.
func (k *Provider) RecordCall(tx *mailbox.Tx, e *mailbox.Entry, u ToolCall) {
	c := protocol.ToolCall{Event: protocol.RecordTool, Agent: k.Mailbox.ID(), TurnID: u.TurnID,
		// some programs put a command line into the name
		Tool:      text.Prefix(string(k.Redact.Arguments([]byte(u.Tool))), maxID),
		Arguments: k.Redact.Arguments(u.Arguments), ResultBytes: len(u.Result), Failed: u.Failed}
	if e != nil {
		c.EventID = e.EventID
	}
	if !json.Valid(c.Arguments) || len(c.Arguments) > maxArguments {
		c.ArgumentsBytes = len(c.Arguments)
		c.Arguments, _ = json.Marshal(text.Prefix(string(c.Arguments), maxArguments)) // strings can always be encoded
	}
	if len(u.Result) > 0 {
		sum := sha256.Sum256(u.Result)
		c.ResultSHA256 = hex.EncodeToString(sum[:])
	}
	tx.Record(mailbox.UniqueKey("tool", time.Now().UnixMicro()), e, c)
}

// recordCall records a call of one of the agent's own tools.
func (b *Toolset) recordCall(ctx context.Context, name string, arguments json.RawMessage, result harness.Result) {
	raw, _ := json.Marshal(result) // strings and valid JSON can always be encoded
	var named eventRef
	_ = json.Unmarshal(arguments, &named)                           // invalid arguments name no event
	ctx = context.WithoutCancel(ctx)                                // record the call even if the turn has ended
	_ = b.provider.Mailbox.InTxUnsynced(ctx, func(tx *mailbox.Tx) { // a failing mailbox shows in the next turn
		var turnID string
		var e *mailbox.Entry
		if t := b.callingTurn(&tx.View); t != nil {
			turnID, e = t.ID, tx.Entry(t.EventID)
		}
		if id := named.id(); id != "" && (e == nil || e.EventID != id) {
			if other := tx.Current(id); other != nil && (b.chat == "" || other.Chat == b.chat) {
				e = other
			}
		}
		b.provider.RecordCall(tx, e, ToolCall{TurnID: turnID, Tool: name, Arguments: arguments, Result: raw,
			Failed: result.IsError})
	})
}

// IsOwn reports whether a program's name for a tool means one of the agent's own tools.
func (b *Toolset) IsOwn(name string) bool {
	for _, r := range b.rows() {
		if harness.IsToolName(name, r.tool.Name) {
			return true
		}
	}
	return false
}
