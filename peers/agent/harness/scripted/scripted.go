package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
	StepDelay time.Duration // between the steps of "work on X"; default 0
}

// A Harness follows the rules of the package documentation.
type Harness struct {
	harness.Synchronous
	opts Options
}

var _ harness.Harness = (*Harness)(nil)

// New makes a scripted harness.
func New(opts *Options) *Harness {
	return &Harness{opts: defaults.Of(opts)}
}

// Run waits for ctx to end.
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.Attach(host)
	<-ctx.Done()
	return nil
}

// Capabilities returns immediately, with every injection mode.
func (h *Harness) Capabilities(context.Context) (harness.Capabilities, error) {
	return harness.Capabilities{Injection: harness.AllInjection}, nil
}

// Turn applies the rules and carries out the action.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	outcome, err := h.Begin(ctx, t)
	if err != nil {
		return outcome, err
	}
	p := &execution{h: h, ctx: ctx, turn: t, tools: tools}
	do, arg := matchRule(t)
	if text := do(p, arg); text != "" {
		outcome.FinalText = p.send(text + "\n" + Marker)
	} else {
		err = context.Cause(ctx)
	}
	outcome.Usage = harness.Usage{Model: "scripted", ToolCalls: p.calls}
	return outcome, err
}

// An execution is one turn in progress. Its methods are the actions of rules.
type execution struct {
	h     *Harness
	ctx   context.Context
	turn  *harness.Turn
	tools harness.Tools
	calls int
}

// send sends one message. If there is no tool to send it, send returns it.
func (p *execution) send(text string) string {
	const tool = "chat.send_message"
	e := &p.turn.Event
	if !slices.ContainsFunc(p.tools.List(), func(t harness.Tool) bool { return t.Name == tool }) {
		return text
	}
	visibility := e.Conversation.Kind
	if visibility != "dm" && visibility != "thread" {
		visibility = "channel"
	}
	p.call(tool, object{
		"target": e.Conversation.ID, "inReplyTo": e.EventID, "text": text,
		"idempotencyKey": e.EventID + ":reply", "visibility": visibility, "directedness": "ambient",
	}, nil)
	return ""
}

func (p *execution) react(signal string) string {
	p.call("chat.react", object{"inReplyTo": p.turn.Event.EventID, "signal": signal}, nil)
	return ""
}

func (p *execution) clarify(string) string {
	p.react("unclear")
	return "Which one do you mean?"
}

func (p *execution) deferEvent(until string) string {
	p.call("chat.defer", object{"eventId": p.turn.Event.EventID, "reason": "asked for " + until}, nil)
	return ""
}

// work reacts, works in two steps, and reacts again.
func (p *execution) work(what string) string {
	p.react("working")
	for step := 1.0; step <= 2 && retry.Sleep(p.ctx, p.h.opts.StepDelay); step++ {
		p.progress(step, 2, "working on "+quote(what, 60))
	}
	return p.react("done") // does nothing if the turn has ended
}

// handleKnock reads the thread of a knock, and claims the event if it asks for something.
func (p *execution) handleKnock(string) string {
	e := &p.turn.Event
	text, found := p.eventText(p.readThread())
	if found && isRequest(text) || !found && strings.Contains(e.Reason, "role") {
		p.call("chat.claim", object{"eventId": e.EventID, "ttlMs": 300000}, nil)
	}
	return ""
}

// A message is what the rules read from chat.read_thread and chat.list_events.
type message struct {
	EventID string          `json:"eventId"`
	Text    string          `json:"text"`
	Content json.RawMessage `json:"content"`
	Author  json.RawMessage `json:"author"`
}

func (p *execution) readThread() []message {
	c := p.turn.Event.Conversation
	args := object{"conversation": c.ID, "limit": 20}
	if c.ThreadID != "" {
		args["threadId"] = c.ThreadID
	}
	var answer struct{ Messages []message }
	p.call("chat.read_thread", args, &answer)
	return answer.Messages
}

// eventText finds the text of this turn's event in messages.
func (p *execution) eventText(messages []message) (string, bool) {
	for _, m := range messages {
		if m.EventID != p.turn.Event.EventID {
			continue
		}
		if m.Text != "" {
			return m.Text, true
		}
		var whole string
		if json.Unmarshal(m.Content, &whole) == nil {
			return whole, true
		}
		var parts []harness.Part
		if json.Unmarshal(m.Content, &parts) == nil {
			return textOf(&harness.Event{ChatEvent: harness.ChatEvent{Content: parts}}), true
		}
	}
	return "", false
}

func (p *execution) recap(string) string {
	messages := p.readThread()
	authors := map[string]bool{}
	for _, m := range messages {
		authors[string(m.Author)] = true
	}
	return fmt.Sprintf("I read %s by %s.", text.Counted(len(messages), "message"), text.Counted(len(authors), "author"))
}

func (p *execution) catchUp(string) string {
	var all, open struct{ Events []message }
	conversation := p.turn.Event.Conversation.ID
	p.call("chat.list_events", object{"conversation": conversation, "limit": 50}, &all)
	p.call("chat.list_events", object{"conversation": conversation, "open": true, "limit": 50}, &open)
	return fmt.Sprintf("I know %s here, %d still open.", text.Counted(len(all.Events), "event"), len(open.Events))
}

// object is the arguments of a tool.
type object = map[string]any

// call runs one tool, unless the turn has ended, and decodes its answer into a pointer, which may
// be nil. A refusal is only reported.
func (p *execution) call(name string, args object, into any) {
	raw, err := json.Marshal(args)
	if err != nil || p.ctx.Err() != nil {
		return
	}
	p.calls++
	result := p.tools.Call(p.ctx, name, raw)
	if result.IsError {
		p.progress(0, 0, name+" was refused: "+quote(result.Text(), 200))
	} else if into != nil {
		if err := json.Unmarshal(result.StructuredContent, into); err != nil {
			p.progress(0, 0, "a tool's answer could not be read: "+err.Error())
		}
	}
}

func (p *execution) progress(done, total float64, text string) {
	p.h.Report(
		harness.Progress{TurnID: p.turn.ID, Kind: harness.ProgressStatus, Progress: done, Total: total, Message: text},
	)
}
