package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// Marker ends every text that this harness sends.
const Marker = "(scripted agent, no language model)"

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	Pace time.Duration // how long "work on X" works between its steps; default 0
}

// Harness follows the rules of the package documentation.
type Harness struct {
	harness.InTurn
	opts Options
}

var _ harness.Harness = (*Harness)(nil)

// New makes a scripted harness.
func New(opts *Options) *Harness {
	return &Harness{opts: defaults.Of(opts)}
}

// Run waits for ctx: rules need nothing else.
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.Attach(host)
	<-ctx.Done()
	return nil
}

// Capabilities answers at once: every injection mode, progress, cancellation.
func (h *Harness) Capabilities(context.Context) (harness.Capabilities, error) {
	return harness.Capabilities{Injection: harness.AllInjection, Progress: true, Cancellation: true}, nil
}

// Turn applies the rules and carries out the action.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	outcome, err := h.Begin(ctx, t)
	if err != nil {
		return outcome, err
	}
	p := &play{h: h, turn: t, tools: tools}
	d := decide(&t.Event)
	if d.act == actDefer && t.Deferrals > 0 {
		d = decision{actSay, "It is later now: “" + quoted(textOf(&t.Event), 300) + "”", "what was deferred came back"}
	}
	p.progress(0, 0, "rule: "+d.rule)
	outcome.FinalText, err = p.perform(ctx, d)
	outcome.Usage = harness.Usage{Model: "scripted", ToolCalls: p.calls}
	return outcome, err
}

// play is the performance of one turn.
type play struct {
	h     *Harness
	turn  *harness.Turn
	tools harness.Tools
	calls int
}

// perform carries out a decision. The text that it returns is for the agent to
// send where it has no send_message tool.
func (p *play) perform(ctx context.Context, d decision) (string, error) {
	switch d.act {
	case actNothing:
		return "", nil
	case actReact:
		p.react(ctx, d.arg)
	case actPull:
		p.pull(ctx)
	case actWork:
		return "", p.work(ctx, d.arg)
	case actDefer:
		p.call(ctx, "chat.defer", map[string]any{"eventId": p.turn.Event.EventID, "reason": d.arg, "eta": "later"})
	case actClarify:
		p.react(ctx, "unclear")
		return p.say(ctx, "Which one do you mean?"), nil
	case actCatchUp:
		return p.say(ctx, p.catchUp(ctx)), nil
	case actRecap:
		return p.say(ctx, p.recap(ctx)), nil
	case actSay:
		return p.say(ctx, d.arg), nil
	}
	return "", context.Cause(ctx)
}

// say sends one message, and returns it where there is no tool to send with.
func (p *play) say(ctx context.Context, text string) string {
	e := &p.turn.Event
	text += "\n" + Marker
	if !p.has("chat.send_message") {
		return text
	}
	visibility := e.Conversation.Kind
	if visibility != "dm" && visibility != "thread" {
		visibility = "channel"
	}
	p.call(ctx, "chat.send_message", map[string]any{
		"target": e.Conversation.ID, "inReplyTo": e.EventID, "text": text,
		"idempotencyKey": e.EventID + ":reply", "visibility": visibility, "directedness": "ambient",
	})
	return ""
}

func (p *play) react(ctx context.Context, signal string) {
	p.call(ctx, "chat.react", map[string]any{"inReplyTo": p.turn.Event.EventID, "signal": signal})
}

// work reacts, works for the pace in two steps, and reacts again.
func (p *play) work(ctx context.Context, what string) error {
	p.react(ctx, "working")
	for step := 1; step <= 2; step++ {
		if !retry.Sleep(ctx, p.h.opts.Pace) {
			return context.Cause(ctx)
		}
		p.progress(float64(step), 2, "working on "+quoted(what, 60))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	p.react(ctx, "done")
	return nil
}

// pull looks behind a knock and claims the event if it asks for something.
func (p *play) pull(ctx context.Context) {
	e := &p.turn.Event
	text, found := p.body(p.read(ctx))
	if found && !asks(text) || !found && !strings.Contains(e.Reason, "role") {
		return
	}
	p.call(ctx, "chat.claim", map[string]any{"eventId": e.EventID, "ttlMs": 300000})
}

// message is what the rules read of chat.read_thread and chat.list_events.
type message struct {
	EventID string          `json:"eventId"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
	Author  json.RawMessage `json:"author"`
	Open    bool            `json:"open"`
}

func (p *play) read(ctx context.Context) []message {
	c := p.turn.Event.Conversation
	args := map[string]any{"conversation": c.ID, "limit": 20}
	if c.ThreadID != "" {
		args["threadId"] = c.ThreadID
	}
	var answer struct{ Messages []message }
	p.decode(p.call(ctx, "chat.read_thread", args), &answer)
	return answer.Messages
}

// body finds the text of this turn's event.
func (p *play) body(messages []message) (string, bool) {
	for _, m := range messages {
		if m.EventID != p.turn.Event.EventID {
			continue
		}
		if m.Text != "" {
			return m.Text, true
		}
		var whole string
		var parts []harness.Part
		if json.Unmarshal(m.Content, &whole) == nil {
			return whole, true
		}
		if json.Unmarshal(m.Content, &parts) == nil {
			return textOf(&harness.Event{Said: harness.Said{Content: parts}}), true
		}
	}
	return "", false
}

func (p *play) recap(ctx context.Context) string {
	messages := p.read(ctx)
	authors := map[string]bool{}
	for _, m := range messages {
		authors[string(m.Author)] = true
	}
	return fmt.Sprintf("I read %s by %s.", text.Count(len(messages), "message"), text.Count(len(authors), "author"))
}

func (p *play) catchUp(ctx context.Context) string {
	var all, open struct{ Events []message }
	p.decode(p.call(ctx, "chat.list_events", map[string]any{"conversation": p.turn.Event.Conversation.ID, "limit": 50}), &all)
	p.decode(p.call(ctx, "chat.list_events", map[string]any{"conversation": p.turn.Event.Conversation.ID, "open": true, "limit": 50}), &open)
	return fmt.Sprintf("I know %s here, %d still open.", text.Count(len(all.Events), "event"), len(open.Events))
}

// call runs one tool; a refusal is only reported, for rules have no second idea.
func (p *play) call(ctx context.Context, name string, args map[string]any) harness.Result {
	if ctx.Err() != nil {
		return harness.Refused("the turn was cancelled", nil)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return harness.Refused(err.Error(), nil)
	}
	p.calls++
	result := p.tools.Call(ctx, name, raw)
	if result.IsError {
		p.progress(0, 0, name+" was refused: "+quoted(result.Text(), 200))
	}
	return result
}

func (p *play) has(name string) bool {
	for _, t := range p.tools.List() {
		if t.Name == name {
			return true
		}
	}
	return false
}

func (p *play) decode(r harness.Result, into any) {
	if r.IsError {
		return
	}
	if err := json.Unmarshal(r.StructuredContent, into); err != nil {
		p.progress(0, 0, "a tool's answer could not be read: "+err.Error())
	}
}

func (p *play) progress(done, total float64, text string) {
	p.h.Report(harness.Progress{TurnID: p.turn.ID, Kind: harness.ProgressStatus, Progress: done, Total: total, Message: text})
}
