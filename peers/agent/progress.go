package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Timings of the typing indicator: the delay before it shows, since a quick answer needs none; the
// interval of updates; and its maximum duration.
const (
	typingAfter = 300 * time.Millisecond
	typingEvery = 4 * time.Second
	typingFor   = 5 * time.Minute
)

// Bounds of a program's reports, in bytes.
const (
	maxToken = 200
	maxError = 500 // of an error that is stored
)

// typingSigns are the events whose chats show a typing indicator, by thread.
type typingSigns map[string]*mailbox.Entry

// typingLoop announces in chats when work on an answer starts, and when it ends without one.
// Bridges renew the indicator, and an answer ends it. Nothing is stored. After a reconnection the
// indicators are announced again.
func (a *Agent) typingLoop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	shown := typingSigns{}
	a.recallDrafts(ctx)
	var grown <-chan time.Time // set while a text has grown
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.connected.C():
			clear(shown)
			timer.Reset(typingAfter)
		case <-a.turnStarted.C():
			timer.Reset(typingAfter)
		case <-a.drafts.grown.C():
			if grown == nil {
				grown = time.After(draftEvery)
			}
		case <-grown:
			grown = nil
			more, err := a.showDrafts(ctx)
			if more {
				grown = time.After(draftEvery)
			}
			if err != nil && ctx.Err() == nil {
				a.opts.Log.Debug().Err(err).Msg("draft not sent")
			}
		case <-timer.C:
			if err := a.showTyping(ctx, shown); err != nil && ctx.Err() == nil {
				a.opts.Log.Debug().Err(err).Msg("typing indicator not sent")
			}
			if len(shown) > 0 {
				timer.Reset(typingEvery)
			}
		}
	}
}

// showTyping announces the signs that have started or ended since the last call. A failed
// announcement is repeated by the next call.
func (a *Agent) showTyping(ctx context.Context, shown typingSigns) error {
	v := a.mailbox.View(ctx)
	now := typingEvents(v)
	for place, e := range shown {
		if e = v.Entry(e.EventID); e == nil || e.State == mailbox.Answered || e.State == mailbox.Responded {
			delete(shown, place) // the answer ends the sign
		}
	}
	if v.Err() != nil {
		return v.Err()
	}
	var errs []error
	for place, e := range now {
		if shown[place] == nil {
			shown[place] = e // even if it fails: its end will be announced
			errs = append(errs, a.sendTyping(ctx, e, true, ""))
		}
	}
	for place, e := range shown {
		if now[place] != nil {
			continue
		}
		err := a.sendTyping(ctx, e, false, "")
		if errs = append(errs, err); err == nil {
			delete(shown, place)
		}
	}
	return errors.Join(errs...)
}

// typingEvents returns one event for each thread in which a running turn owes an answer. No sign
// is shown for events that need no answer, since silence is a good outcome.
func typingEvents(v *mailbox.View) typingSigns {
	places := typingSigns{}
	for _, e := range v.InProgress(time.Now().Add(-typingFor)) {
		expected := e.Decision.Policy == attention.PolicyMustRespond || e.Decision.Reason == "claim_granted"
		if expected && places[e.ThreadKey()] == nil && protocol.IsIdentity(e.Chat) && !e.FromBroker() {
			places[e.ThreadKey()] = e
		}
	}
	return places
}

// sendTyping announces the start or end of a typing indicator, with the draft of the answer.
func (a *Agent) sendTyping(ctx context.Context, e *mailbox.Entry, begins bool, draft string) error {
	content := struct {
		Typing    bool   `json:"typing"`
		InReplyTo string `json:"inReplyTo"`
		ThreadID  string `json:"threadId,omitempty"`
		Draft     string `json:"draft,omitempty"`
	}{begins, e.SourceID, e.Content.Chat.ThreadID, draft}
	once, cancel := context.WithTimeout(ctx, typingEvery)
	defer cancel()
	_, err := a.peer.Send(once, e.Chat, a.mailbox.MessageFor(e, mailbox.ReplyType(e.Chat), content))
	return err
}

// An activityEvent tells a Chorus channel what happens during a turn.
type activityEvent struct {
	Event     string          `json:"event"` // status, tool_call, tool_result or error
	InReplyTo string          `json:"inReplyTo"`
	Agent     protocol.PeerID `json:"agent,omitempty"` // for programs elsewhere
	Status    string          `json:"status,omitempty"`
	Name      string          `json:"name,omitempty"`
	ID        string          `json:"id,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	Progress  float64         `json:"progress,omitempty"`
	Total     float64         `json:"total,omitempty"`
	Message   string          `json:"message,omitempty"`
	Code      string          `json:"code,omitempty"`
}

// progress passes on what happens during a turn. It never blocks: reports wait in a bounded
// queue, and are dropped when it is full, since nothing depends on them.
func (a *Agent) progress(p harness.Progress) {
	if a.drafts.add(p) {
		a.drafts.grown.Notify()
	}
	if p.Kind != harness.ProgressText {
		a.queueReport(report{Progress: p})
	}
}

// A report is queued progress of a turn.
type report struct {
	harness.Progress
	recordOnly bool // the chat is informed in another way
}

func (a *Agent) queueReport(r report) {
	select {
	case a.reports <- r:
	default:
	}
}

// maxOpenCalls bounds the tool calls that are remembered until their results arrive. Some never
// have a result, for example those of turns that were stopped.
const maxOpenCalls = 1000

// openCalls are the latest calls of programs' own tools, by turn and call.
type openCalls = *lru.Cache[[2]string, harness.Progress]

// recordTool records a call of a program's own tool when its result arrives. Calls of the agent's
// tools are recorded elsewhere.
func (a *Agent) recordTool(ctx context.Context, open openCalls, p harness.Progress, e *mailbox.Entry) error {
	call := [2]string{p.TurnID, p.CallID}
	switch p.Kind {
	case harness.ProgressToolCall:
		open.Add(call, p)
	case harness.ProgressToolResult:
		began, _ := open.Peek(call)
		open.Remove(call)
		use := tools.ToolCall{TurnID: p.TurnID, Tool: cmp.Or(began.Tool, p.Tool), Arguments: began.Content,
			Result: p.Content}
		if use.Tool == "" || a.tools.ForChat("").IsOwn(use.Tool) { // a repeated report, or a tool of the agent
			return nil
		}
		return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { a.tools.RecordCall(tx, e, use) })
	}
	return nil
}

// reportLoop sends reports: activity to the Chorus channel of the turn, and the progress that
// programs report to system:attention.
func (a *Agent) reportLoop(ctx context.Context) error {
	open := harness.NewCache[[2]string, harness.Progress](maxOpenCalls)
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-a.reports:
			if err := a.report(ctx, open, p); err != nil && ctx.Err() == nil {
				a.opts.Log.Debug().Err(err).Msg("progress report not sent")
			}
		}
	}
}

func (a *Agent) report(ctx context.Context, open openCalls, r report) error {
	p := r.Progress
	var e *mailbox.Entry
	v := a.mailbox.View(ctx)
	if t := v.Turn(p.TurnID); t != nil {
		e = v.Entry(t.EventID)
	}
	if err := v.Err(); err != nil {
		return err
	}
	if err := a.recordTool(ctx, open, p, e); err != nil || r.recordOnly {
		return err
	}
	if e != nil && protocol.PeerID(e.Chat).Family() == "chorus" {
		_, err := a.peer.Send(ctx, e.Chat, a.mailbox.MessageFor(e, protocol.TypeAgentEvent, a.activityOf(e, p)))
		return err
	}
	if p.Kind != harness.ProgressStatus {
		return nil
	}
	content := protocol.ProgressRecord{
		Agent:         a.id,
		Event:         protocol.RecordProgress,
		Message:       attention.HeaderValue(a.opts.Redact.String(p.Message)),
		Progress:      p.Progress,
		ProgressToken: text.Prefix(p.Token, maxToken),
		Total:         p.Total,
		TurnID:        p.TurnID,
	}
	if e != nil {
		content.EventID = e.EventID
	}
	_, err := a.peer.Send(ctx, protocol.TopicAttention, a.peer.NewMessage(protocol.TypeAgentEvent, content))
	return err
}

// activityOf returns the activity event for a chat. Arguments and results of tools are redacted,
// since nobody meant to publish them.
func (a *Agent) activityOf(e *mailbox.Entry, p harness.Progress) activityEvent {
	p.Message = a.opts.Redact.String(attention.VisibleText(p.Message))
	if p.Kind == harness.ProgressToolCall {
		p.Content = a.opts.Redact.Arguments(p.Content)
		p.Tool = string(a.opts.Redact.Arguments([]byte(p.Tool)))
	} else {
		p.Content = a.opts.Redact.Bytes(p.Content)
	}
	event := activityEvent{Event: "status", InReplyTo: e.SourceID, Status: p.Message, Progress: p.Progress,
		Total: p.Total}
	switch p.Kind {
	case harness.ProgressError:
		event = activityEvent{Event: "error", InReplyTo: e.SourceID, Message: p.Message, Code: p.Code}
	case harness.ProgressToolCall:
		event = activityEvent{Event: "tool_call", InReplyTo: e.SourceID, Name: toolName(p.Tool), ID: p.CallID,
			Args: p.Content}
	case harness.ProgressToolResult:
		event = activityEvent{Event: "tool_result", InReplyTo: e.SourceID, Name: toolName(p.Tool), ID: p.CallID,
			Content: resultText(p.Content)}
	}
	return event
}

// toolName returns the name of a tool as the service of a channel knows it, without the prefix of
// the channel's MCP server.
func toolName(tool string) string {
	tool = strings.TrimPrefix(tool, "mcp__") // prefix of Claude Code
	return strings.TrimPrefix(tool, channelServerName+"__")
}

// resultText returns the text of a tool result as JSON. Other content is returned unchanged.
func resultText(content json.RawMessage) json.RawMessage {
	var result harness.Result
	if json.Unmarshal(content, &result) != nil || len(result.Content) == 0 {
		return content
	}
	raw, _ := json.Marshal(result.Text()) //nolint:errcheck // a string always can be
	return raw
}

// output stores what a program sends or reports for a turn that it has accepted. See
// harness.Host.
func (a *Agent) output(ctx context.Context, o harness.Output) error {
	v := a.mailbox.View(ctx)
	t := v.Turn(o.TurnID)
	switch {
	case v.Err() != nil:
		return v.Err()
	case t == nil:
		return &harness.RefusedError{Reason: "unknown_turn", Advice: "This turn no longer exists. Send nothing for it."}
	case o.Report == nil:
		return a.tools.SendOutput(ctx, t, o)
	}
	return a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { a.storeReport(tx, o) })
}

// storeReport queues a report for the chat of its turn, behind earlier output. For events from
// the broker, it is sent as progress instead. An error becomes the reason if the turn ends
// without more output, and an author who waits for an answer is notified at once.
func (a *Agent) storeReport(tx *mailbox.Tx, o harness.Output) {
	t := tx.Turn(o.TurnID)
	if t == nil {
		return
	}
	if o.Report.Kind == harness.ProgressError && !t.Ended() {
		t.Body = text.Prefix(o.Report.Message, maxError)
		tx.SaveTurn(t)
	}
	e := tx.Entry(t.EventID)
	// a Chorus callback reports the error
	if o.Report.Kind == harness.ProgressError && e != nil && !e.Settled() &&
		protocol.PeerID(e.Chat).Family() != "chorus" {
		failed := a.id.Name() + " says that it failed: " +
			text.Prefix(attention.HeaderValue(a.opts.Redact.String(attention.VisibleText(o.Report.Message))), maxError)
		if !lifecycle.Escalate(tx, e, failed, failed) {
			lifecycle.NotifyFailure(tx, e, failed)
		}
	}
	if e == nil || e.FromBroker() {
		report := *o.Report
		report.TurnID = t.ID
		a.progress(report)
		return
	}
	copied := *o.Report
	copied.TurnID = t.ID
	a.queueReport(report{copied, true})
	activity := a.activityOf(e, *o.Report)
	activity.Agent = a.id
	tx.Enqueue(e.Chat, o.Key, a.mailbox.MessageFor(e, protocol.TypeAgentEvent, activity))
}
