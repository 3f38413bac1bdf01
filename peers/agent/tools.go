package agent

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A toolbox is the agent's tools as one turn has them, or, without a turn, as
// a program that names its events itself. It enforces policy: what a model
// asks for is carried out only as far as its event allows.
type toolbox struct {
	a      *Agent
	turnID string         // empty: not bound to one turn
	chat   protocol.Topic // to which it belongs (reach.go); empty: to none

	mu      sync.Mutex
	attempt int
	pending string // signal that acknowledges the event unless a message follows
}

var _ harness.Tools = (*toolbox)(nil)

// hostTools are the tools outside of any turn.
func (a *Agent) hostTools() harness.Tools { return &toolbox{a: a} }

// Tools returns the agent's tools for callers outside of a turn, such as an
// MCP server. They may be used while Run runs. They reach into all chats, so they
// are for whoever answers for all of them; ToolsOf is for one chat.
func (a *Agent) Tools() harness.Tools { return a.hostTools() }

// A toolFunc runs one tool with its arguments, a JSON object.
type toolFunc func(b *toolbox, ctx context.Context, arguments json.RawMessage) harness.Result

type toolRow struct {
	tool harness.Tool
	call toolFunc
}

// toolTable lists the tools in the order in which models see them. The broker's
// tools follow where there is one.
var toolTable = []toolRow{
	{listEventsTool, (*toolbox).listEvents},
	{readThreadTool, (*toolbox).readThread},
	{sendMessageTool, (*toolbox).sendMessage},
	{reactTool, (*toolbox).react},
	{claimTool, (*toolbox).claim},
	{deferTool, (*toolbox).deferEvent},
	{resolveTool, (*toolbox).resolve},
}

// List returns the tools.
func (b *toolbox) List() []harness.Tool {
	var tools []harness.Tool
	for _, row := range b.table() {
		tools = append(tools, row.tool)
	}
	return tools
}

func (b *toolbox) table() []toolRow {
	if !b.a.brokerKnown() {
		return toolTable
	}
	return append(toolTable[:len(toolTable):len(toolTable)], workTable...)
}

// Call runs one tool.
func (b *toolbox) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	for _, row := range b.table() {
		if row.tool.Name == name {
			result := row.call(b, ctx, arguments)
			if !row.tool.ReadOnly {
				b.a.poke()
			}
			return result
		}
	}
	return harness.Refused(fmt.Sprintf("There is no tool %q. Use one of those of tools/list.", name), nil)
}

func (b *toolbox) setAttempt(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.attempt = n
}

func (b *toolbox) setPending(signal string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending = signal
}

func (b *toolbox) pendingSignal() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending
}

// decode reads a tool's arguments; the sentence says what is wrong with them.
func decode(arguments json.RawMessage, into any) (problem string) {
	if err := json.Unmarshal(arguments, into); err != nil {
		return "The arguments are not what the tool takes: " + err.Error() + ". See its input schema."
	}
	return ""
}

func broken(err error) harness.Result {
	return harness.Refused("The agent could not store this: "+err.Error()+". Try once more.", nil)
}

// An attempt to act on an event: the event, and why it is refused.
type attempt struct {
	entry   *entry
	turn    *turn
	refusal attention.Refusal
}

// look finds the event that a tool call is about and checks that its turn is
// still the one that calls. An empty id means the event of the turn.
func (b *toolbox) look(ctx context.Context, tx *sql.Tx, id string) (attempt, error) {
	var at attempt
	if b.turnID != "" {
		t, err := turnByID(ctx, tx, b.turnID)
		if err != nil {
			return at, err
		}
		if t == nil || t.State != turnRunning || t.Attempt > b.attemptNow() {
			at.refusal = cancelledRefusal
			return at, nil
		}
		if id == "" {
			id = t.EventID
		}
	}
	if id == "" && b.chat != "" {
		var err error
		if id, at.refusal, err = b.onlyOpen(ctx, tx); err != nil || at.refusal.Refused() {
			return at, err
		}
	}
	e, err := currentEntry(ctx, tx, id)
	if err != nil || e == nil {
		return at, err
	}
	if e.TurnID != "" {
		if at.turn, err = turnByID(ctx, tx, e.TurnID); err != nil {
			return at, err
		}
	}
	if b.chat != "" && e.Chat != b.chat && (at.turn == nil || at.turn.chatOf() != b.chat) {
		return attempt{refusal: otherChatRefusal}, nil
	}
	at.entry = e
	if at.turn != nil && e.open() && (at.turn.State == turnWithdrawn || at.turn.State == turnCancelled) {
		at.refusal = cancelledRefusal
	}
	return at, nil
}

// onlyOpen returns the id of the one event of the toolbox's chat that may be
// answered and was not, for a call that names none.
func (b *toolbox) onlyOpen(ctx context.Context, tx *sql.Tx) (string, attention.Refusal, error) {
	ids, err := store.All(ctx, tx, store.Column[string], `SELECT event_id FROM events WHERE chat = ? AND merged_into = '' AND replied = 0
		AND policy IN ('must_respond', 'may_respond') AND disposition IN ('', 'claimed', 'deferred') ORDER BY seq DESC LIMIT 20`, b.chat)
	switch {
	case err != nil:
		return "", attention.Refusal{}, err
	case len(ids) == 1:
		return ids[0], attention.Refusal{}, nil
	case len(ids) == 0:
		return "", attention.Refusal{Reason: "unknown_event", Advice: "No event of this chat waits for you. Name the one that you mean; chat.list_events shows them."}, nil
	}
	return "", attention.Refusal{
		Reason: "which_event", Advice: "Several events of this chat wait for you. Name the one that you mean: " + strings.Join(ids, ", ") + ".",
	}, nil
}

func (b *toolbox) attemptNow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempt
}

var cancelledRefusal = attention.Refusal{
	Reason: "cancelled",
	Advice: "This turn was cancelled because its message changed or was withdrawn. Stop now; what is left will come to you as a new turn.",
}

// standing reads what the records say about an event at this moment.
func (a *Agent) standing(ctx context.Context, tx *sql.Tx, e *entry, text string) (attention.Standing, error) {
	if e == nil {
		return attention.Standing{}, nil
	}
	s := attention.Standing{Known: true, Policy: e.Decision.Policy, Disposition: e.Disposition, Replied: e.Replied}
	if e.Stage == stageStored {
		s.Policy = attention.PolicyMustNotRespond // nothing was decided yet
	}
	if err := a.standingPlace(ctx, tx, e, &s); err != nil {
		return s, err
	}
	if err := a.standingClaim(ctx, tx, e, &s); err != nil {
		return s, err
	}
	if e.Content.Author.Kind != "agent" {
		return s, nil
	}
	x, err := a.exchange(ctx, tx, e.Content.Chat.ID, e.Content.Author.ID)
	if err != nil {
		return s, err
	}
	s.Exchange = x.Weigh(time.Now())
	earlier, err := recentTexts(ctx, tx, e.Content.Chat.ID)
	s.Repeats = attention.AddsNothing(text, earlier)
	return s, err
}

func (a *Agent) standingPlace(ctx context.Context, tx *sql.Tx, e *entry, s *attention.Standing) error {
	var left, chatLeft, joined int64
	var leaveEvent, chatLeaveEvent string
	err := tx.QueryRowContext(ctx, `SELECT
		coalesce((SELECT left_at FROM places WHERE conversation = ?1 AND thread = ?2), 0),
		coalesce((SELECT leave_event FROM places WHERE conversation = ?1 AND thread = ?2), ''),
		coalesce((SELECT joined_at FROM places WHERE conversation = ?1 AND thread = ?2), 0),
		coalesce((SELECT left_at FROM places WHERE conversation = ?1 AND thread = ''), 0),
		coalesce((SELECT leave_event FROM places WHERE conversation = ?1 AND thread = ''), '')`,
		e.Content.Chat.ID, e.Content.Chat.ThreadID).Scan(&left, &leaveEvent, &joined, &chatLeft, &chatLeaveEvent)
	if err != nil {
		return fmt.Errorf("looking up where the agent takes part: %w", err)
	}
	s.Left = left > 0 || chatLeft > joined
	s.LeaveEvent = e.EventID == leaveEvent || e.EventID == chatLeaveEvent
	return nil
}

// recentTexts are the agent's own last messages in a conversation.
func recentTexts(ctx context.Context, tx *sql.Tx, conversation string) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `SELECT text FROM sent WHERE conversation = ? AND kind = 'text' ORDER BY sent_at DESC LIMIT 10`, conversation)
	if err != nil {
		return nil, fmt.Errorf("reading what was said before: %w", err)
	}
	defer rows.Close()
	var texts []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// endAccepted ends the turn of an event that a program works on in its own
// time, once it has done what ends a turn.
func (a *Agent) endAccepted(ctx context.Context, tx *sql.Tx, at attempt) error {
	if at.turn == nil || at.turn.State != turnAccepted || !endsTurn(at.entry) {
		return nil
	}
	return a.finish(ctx, tx, at.turn, at.entry, "", nil)
}
