package tools

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/collab"
	"hubbub/peers/outbox"
	"hubbub/protocol"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"
)

// Bounds of what a model writes, in bytes.
const (
	MaxReply  = 64 << 10 // of one message
	maxReason = 500
	maxETA    = 200
	maxID     = 400
	// of an idempotencyKey, like a key of the outbox; the agent's own keys consist of an id and a suffix
	maxKey = 512
)

// A Provider makes the toolsets of one agent.
type Provider struct {
	mailbox.Settings
	Mailbox   *mailbox.Mailbox
	Broker    *collab.Client
	ClaimTTL  time.Duration    // of a claim without a duration
	OnChange  func()           // called after each call that may have changed something
	Redact    *redact.Redactor // removes secrets from results; may be nil
	Files     *files.Cache     // that came with messages
	Workspace string           // folder of the files that may be sent; empty if none may
	MaxPosts  int              // per chat and day; 0 means no limit
}

// A Toolset has the agent's tools for one turn or, without a turn, for a program that names its
// events itself.
type Toolset struct {
	provider *Provider
	turnID   string         // empty if not bound to a turn
	chat     protocol.Topic // that it may reach; empty means all

	turnAttempt atomic.Int64
	pending     atomic.Value // attention.Signal; see Pending
}

var _ harness.Tools = (*Toolset)(nil)

// ForChat returns the tools with the reach of one chat, for callers outside of a turn. The empty
// chat reaches all chats.
func (k *Provider) ForChat(chat protocol.Topic) *Toolset { return &Toolset{provider: k, chat: chat} }

// ForTurn returns the tools of a running turn.
func (k *Provider) ForTurn(t *mailbox.Turn) *Toolset {
	b := &Toolset{provider: k, turnID: t.ID, chat: t.Scope()}
	b.SetAttempt(t.Attempt)
	return b
}

// SetAttempt notes that the turn is delivered again.
func (b *Toolset) SetAttempt(n int) { b.turnAttempt.Store(int64(n)) }

// Pending returns the signal that will acknowledge the event of the turn unless a message
// follows, or "".
func (b *Toolset) Pending() attention.Signal {
	s, _ := b.pending.Load().(attention.Signal)
	return s
}

// A toolFunc runs a tool. The arguments are a JSON object.
type toolFunc func(b *Toolset, ctx context.Context, arguments json.RawMessage) harness.Result

// An entry is one tool. Its schema is made when the tool is first listed, which most programs never do.
type entry struct {
	tool   harness.Tool // without InputSchema
	schema func() json.RawMessage
	call   toolFunc
}

// entryFor returns the entry of a tool that run implements. See schemaOf for hidden.
func entryFor[A any](tool harness.Tool, run func(b *Toolset, ctx context.Context, args *A) harness.Result,
	hidden ...reflect.Type) entry {
	return entry{tool, schemaOf[A](hidden...), decoding(run)}
}

// chatTools lists the tools in the order shown to models. The broker's tools follow if there is a
// broker.
var chatTools = []entry{
	entryFor(listEventsTool, (*Toolset).listEvents),
	entryFor(readThreadTool, (*Toolset).readThread),
	entryFor(readFileTool, (*Toolset).readFile),
	entryFor(sendMessageTool, (*Toolset).sendMessage, reflect.TypeFor[obligationArguments]()),
	entryFor(askChoiceTool, (*Toolset).askChoice),
	entryFor(sendFileTool, (*Toolset).sendFile),
	entryFor(postTool, (*Toolset).post),
	entryFor(remindTool, (*Toolset).remind),
	entryFor(reactTool, (*Toolset).react),
	entryFor(claimTool, (*Toolset).claim),
	entryFor(deferTool, (*Toolset).deferEvent),
	entryFor(resolveTool, (*Toolset).resolve),
}

// decoding returns a toolFunc that decodes the arguments and calls run.
func decoding[T any](run func(b *Toolset, ctx context.Context, args *T) harness.Result) toolFunc {
	return func(b *Toolset, ctx context.Context, arguments json.RawMessage) harness.Result {
		var args T
		err := json.Unmarshal(arguments, &args)
		if err == nil && reflect.ValueOf(&args).Elem().IsZero() && saysAnything(arguments) {
			err = errors.New("no argument has a name of the schema")
		}
		if err != nil {
			return harness.ErrorResult("The arguments are not valid for the tool: "+
				protocol.DescribeTypeError("arguments", err)+". See its input schema.", nil)
		}
		return run(b, ctx, &args)
	}
}

// saysAnything reports whether arguments have a value that is not empty.
func saysAnything(arguments json.RawMessage) bool {
	var given map[string]any
	if json.Unmarshal(arguments, &given) != nil {
		return false
	}
	for _, v := range given {
		if v != nil && !reflect.ValueOf(v).IsZero() {
			return true
		}
	}
	return false
}

// List returns the tools.
func (b *Toolset) List() []harness.Tool {
	var list []harness.Tool
	for _, r := range b.rows() {
		r.tool.InputSchema = r.schema()
		list = append(list, r.tool)
	}
	return list
}

// allNames are the names of all tools, including those that a turn does not have. They are copied in
// init, because functions in the tables use them: reading the tables there would be an initialization
// cycle.
var allNames []string

func init() {
	for _, table := range [][]entry{obligationTools, workTools} {
		for _, r := range table {
			allNames = append(allNames, r.tool.Name)
		}
	}
}

// VisibleText is attention.VisibleText, with line breaks that were escaped twice, for a model that has
// the agent's tools and perhaps others.
func VisibleText(text string, more ...string) string {
	return attention.WithLineBreaks(attention.VisibleText(text, slices.Concat(allNames, more)...))
}

func (b *Toolset) rows() []entry {
	list := chatTools
	if b.provider.Attention.Version == attention.Version0811 {
		list = obligationTools
	}
	if !b.provider.Broker.Known() {
		return list
	}
	return append(list[:len(list):len(list)], workTools...)
}

// Call implements [harness.Tools]. It records the call, redacts the result, and adds notices about
// undelivered messages of the turn.
func (b *Toolset) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	for _, r := range b.rows() {
		if r.tool.Name != name {
			continue
		}
		result := r.call(b, ctx, arguments)
		if !r.tool.ReadOnly {
			b.provider.OnChange()
		}
		result = b.appendUndelivered(ctx, result).Redacted(b.provider.Redact)
		b.recordCall(ctx, name, arguments, result)
		return result
	}
	return harness.ErrorResult(fmt.Sprintf("There is no tool %q. Use one of those of tools/list.", name), nil)
}

// appendUndelivered adds notices about undelivered messages of the turn to the result of a tool.
func (b *Toolset) appendUndelivered(ctx context.Context, result harness.Result) harness.Result {
	if b.turnID == "" || !mailbox.HasUndelivered(b.provider.Mailbox.View(ctx), b.turnID) {
		return result
	}
	err := b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		for _, told := range mailbox.TakeUndelivered(tx, b.turnID) {
			result.Content = append(result.Content, harness.Content{
				Type: "text", Text: told +
					"\nIf nothing of it was delivered and another message might be, such as a shorter one, answer " +
					"the event again.",
			})
		}
	})
	if err != nil && ctx.Err() == nil {
		b.provider.Log.Warn().Err(err).Str("turn",
			b.turnID).Msg("undelivered messages could not be reported to their turn")
	}
	return result
}

// An eventRef names the event of a tool call, with either of two arguments.
type eventRef struct {
	EventID   string `json:"eventId"`
	InReplyTo string `json:"inReplyTo"`
}

func (n *eventRef) id() string { return cmp.Or(n.EventID, n.InReplyTo) }

// A replyRef is an eventRef whose inReplyTo is shown to models.
type replyRef struct {
	EventID   string `json:"eventId"`
	InReplyTo string `json:"inReplyTo"`
}

func (n *replyRef) id() string { return (*eventRef)(n).id() }

// An attempt is an attempt of a tool call to act on an event. The event and its newest turn may
// be nil. An act that answers no event has the event and turn of its caller. refusal says why the
// attempt is refused, if it is.
type attempt struct {
	*mailbox.Tx
	event   *mailbox.Entry
	turn    *mailbox.Turn
	refusal attention.Refusal
}

// refuse refuses the attempt with r, unless r permits it or the attempt is already refused. It
// reports whether the attempt is refused.
func (t *attempt) refuse(r attention.Refusal) bool {
	if !t.refusal.Refused() {
		t.refusal = r
	}
	return t.refusal.Refused()
}

// A result is the result of the tools that act. Each tool uses some of the fields.
type result struct {
	MessageID   protocol.MessageID    `json:"messageId,omitempty"`
	Status      string                `json:"status,omitempty"` // sent, duplicate or refused
	Signal      attention.Signal      `json:"signal,omitempty"`
	Disposition attention.Disposition `json:"disposition,omitempty"`
	Granted     *bool                 `json:"granted,omitempty"`
	Owner       string                `json:"owner,omitempty"`
	Token       int64                 `json:"token,omitempty"`
	ExpiresAt   string                `json:"expiresAt,omitempty"`
	Reason      string                `json:"reason,omitempty"` // of a refusal
}

// act runs a tool that acts on an event. do returns the result of the tool. If do refuses, the
// result is refused, with the reason.
func (b *Toolset) act(ctx context.Context, tool harness.Tool, id string, refused result,
	do func(t *attempt) result) harness.Result {
	var given result
	refusal, err := b.attempt(ctx, tool.Name, id, func(t *attempt) { given = do(t) })
	return b.outcome(given, refused, refusal, err)
}

// outcome returns the result of an action that may have been refused, or have failed.
func (b *Toolset) outcome(given any, refused result, refusal attention.Refusal, err error) harness.Result {
	switch {
	case errors.Is(err, outbox.ErrFull):
		refused.Reason = "outbox_full"
		return harness.ErrorResult("Too many messages are waiting to be sent. Try again later.", refused)
	case err != nil:
		return storageError(err)
	}
	b.provider.Failpoint("acted")
	if refusal.Refused() {
		refused.Reason = refusal.Reason
		return harness.ErrorResult(refusal.Advice, refused)
	}
	return harness.StructuredResult(given)
}

// speakFirst calls do for an act that answers no event, such as a post. The act belongs to the event
// of the calling turn, if there is one.
func (b *Toolset) speakFirst(ctx context.Context, tool harness.Tool, do func(t *attempt) any) harness.Result {
	var given any
	var refusal attention.Refusal
	err := b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		t := &attempt{Tx: tx}
		b.bindTurn(t)
		given = do(t)
		if refusal = t.refusal; refusal.Refused() {
			tx.RecordRefusal(t.event, eventID(t.event), tool.Name, refusal.Reason)
		}
	})
	return b.outcome(given, result{Status: "refused"}, refusal, err)
}

// attempt acts on an event in one transaction, and records a refusal.
func (b *Toolset) attempt(ctx context.Context, tool, id string, do func(t *attempt)) (refusal attention.Refusal,
	err error) {
	err = b.provider.Mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		t := b.findEvent(tx, id)
		do(t)
		if refusal = t.refusal; !refusal.Refused() {
			return
		}
		if t.event != nil {
			id = t.event.EventID
		}
		tx.RecordRefusal(t.event, text.Prefix(id, maxID), tool, refusal.Reason)
	})
	return refusal, err
}

func storageError(err error) harness.Result {
	return harness.ErrorResult("The agent could not store this: "+err.Error()+". Try once more.", nil)
}

var (
	cancelled = attention.Refusal{
		Reason: "cancelled",
		Advice: "This turn was cancelled because its message changed or was withdrawn. Stop now; the rest will come " +
			"to you as a new turn.",
	}
	otherChat = attention.Refusal{
		Reason: "other_chat",
		Advice: "That event belongs to another chat. This turn acts in its own chat only; if the other event " +
			"concerns you, it gets a turn of its own.",
	}
)

// ambiguousEvent refuses a call without an event id when not exactly one event waits for an
// answer.
func ambiguousEvent(ids []string) attention.Refusal {
	if len(ids) == 0 {
		return attention.Refusal{Reason: "unknown_event",
			Advice: "No event of this chat is waiting for you. Name the one you mean; chat.list_events shows them."}
	}
	return attention.Refusal{
		Reason: "which_event", Advice: "Several events of this chat are waiting for you. Name the one you mean: " +
			strings.Join(ids, ", ") + ".",
	}
}

// findEvent finds the event of a tool call and checks that the calling turn is still the current
// one. An empty id means the event of the turn, or the only event of the chat that waits for an
// answer.
func (b *Toolset) findEvent(tx *mailbox.Tx, id string) *attempt {
	t := &attempt{Tx: tx}
	b.bindTurn(t)
	if t.refusal.Refused() {
		return t
	}
	if b.turnID != "" {
		id = cmp.Or(id, t.turn.EventID)
	}
	t.event, t.turn = nil, nil
	if id == "" && b.chat != "" {
		open := tx.Unanswered(b.chat)
		if len(open) != 1 {
			t.refuse(ambiguousEvent(open))
			return t
		}
		id = open[0]
	}
	e := tx.Current(id)
	if e == nil {
		return t
	}
	turn := tx.Turn(e.TurnID)
	if b.chat != "" && e.Chat != b.chat && (turn == nil || turn.Scope() != b.chat) {
		t.refuse(otherChat)
		return t
	}
	t.event, t.turn = e, turn
	if turn != nil && e.Open() && (turn.State == mailbox.TurnWithdrawn || turn.State == mailbox.TurnCancelled ||
		harness.IsStale(tx.Context()) || isStale(tx, turn)) {
		t.refuse(cancelled)
	}
	return t
}

// isStale reports whether the caller was shown another revision of the turn than the current one.
func isStale(tx *mailbox.Tx, turn *mailbox.Turn) bool {
	id, revision := harness.RevisionOf(tx.Context())
	if id != turn.ID || revision == "" {
		return false
	}
	parts := slices.DeleteFunc(tx.Fragments(turn), func(e *mailbox.Entry) bool { return e.Deleted })
	return Revision(parts, 0) != revision
}

// bindTurn sets the calling turn and its event, if the turn is known. It refuses the attempt if the
// turn of the toolset is not running.
func (b *Toolset) bindTurn(t *attempt) {
	mine := b.callingTurn(&t.View)
	if b.turnID != "" && (mine == nil || mine.State != mailbox.TurnRunning ||
		int64(mine.Attempt) > b.turnAttempt.Load()) {
		t.refuse(cancelled)
		return
	}
	if mine != nil {
		t.event, t.turn = t.Entry(mine.EventID), mine
	}
}

// callingTurn returns the turn from which the toolset is called, or nil if it is unknown. A program
// that reaches the tools over MCP names no turn: it calls from the turn that it was given or, in
// the toolset's chat, from the only one that is running.
func (b *Toolset) callingTurn(v *mailbox.View) *mailbox.Turn {
	given, _ := harness.RevisionOf(v.Context())
	if id := cmp.Or(b.turnID, given); id != "" {
		return v.Turn(id)
	}
	running := slices.DeleteFunc(v.TurnsIn(mailbox.TurnRunning),
		func(t *mailbox.Turn) bool { return t.Scope() != b.chat })
	if len(running) != 1 {
		return nil
	}
	return running[0]
}

// turnEvent returns the event of the calling turn, or nil.
func (b *Toolset) turnEvent(v *mailbox.View) *mailbox.Entry {
	if t := b.callingTurn(v); t != nil {
		return v.Entry(t.EventID)
	}
	return nil
}
