package harnesstest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/scripted"
)

// A Call is one recorded tool call.
type Call struct {
	Name      string
	Arguments map[string]any
}

// Tools records calls. Answer returns the result; if it is nil or returns false, the call
// succeeds with an empty object. Tools may be used from any goroutine; set its fields first.
type Tools struct {
	Names  []string // default: the seven chat tools
	Answer func(ctx context.Context, c Call) (harness.Result, bool)

	mu    sync.Mutex
	calls []Call
}

var chatTools = []string{
	"chat.list_events",
	"chat.read_thread",
	"chat.send_message",
	"chat.react",
	"chat.claim",
	"chat.defer",
	"chat.resolve",
}

// List returns a tool for each name.
func (t *Tools) List() []harness.Tool {
	names := t.Names
	if names == nil {
		names = chatTools
	}
	var tools []harness.Tool
	for _, name := range names {
		tools = append(tools, harness.Tool{
			Name: name, Description: "test tool " + name,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}}}`),
		})
	}
	return tools
}

// Call records a call and answers it.
func (t *Tools) Call(ctx context.Context, name string, arguments json.RawMessage) harness.Result {
	c := Call{Name: name, Arguments: map[string]any{}}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &c.Arguments); err != nil {
			return harness.ErrorResult("arguments are not a JSON object", nil)
		}
	}
	t.mu.Lock()
	t.calls = append(t.calls, c)
	t.mu.Unlock()
	if t.Answer != nil {
		if r, ok := t.Answer(ctx, c); ok {
			return r
		}
	}
	return harness.StructuredResult(map[string]any{})
}

// Calls returns the calls so far, in order.
func (t *Tools) Calls() []Call {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.calls)
}

// Called returns the names of the calls so far, in order.
func (t *Tools) Called() []string {
	var names []string
	for _, c := range t.Calls() {
		names = append(names, c.Name)
	}
	return names
}

// playScripted runs a scripted agent on an event, and returns the text that ends the turn. The event
// is a harness.Event or the params of chat/deliver.
func playScripted(ctx context.Context, event []byte, tools harness.Tools) string {
	var params struct {
		harness.Event
		Attention struct{ Policy, Reason string }
	}
	if err := json.Unmarshal(event, &params); err != nil {
		return err.Error()
	}
	turn := harness.Turn{Event: params.Event}
	turn.Event.Policy = cmp.Or(turn.Event.Policy, params.Attention.Policy)
	turn.Event.Reason = cmp.Or(turn.Event.Reason, params.Attention.Reason)
	outcome, err := scripted.New(nil).Turn(ctx, &turn, tools)
	if err != nil {
		return err.Error()
	}
	return outcome.FinalText
}

// Until polls a condition until it holds, or until the test's deadline is near. It is for
// conditions in another process; goroutines of the test should use channels.
func Until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline, bounded := t.Deadline()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if bounded && time.Until(deadline) < 5*time.Second {
			t.Fatalf("timeout: %s", what)
		}
		<-tick.C
	}
}
