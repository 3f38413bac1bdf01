package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/retry"
)

const (
	maxCalls    = 32       // tool calls of one answer; more are refused
	maxTokens   = 4096     // output tokens of one request
	resultBytes = 32 << 10 // of one tool result
)

// imagesRefused finds the words in which endpoints say, with any status, that their model
// does not see.
var imagesRefused = regexp.MustCompile(`(?i)\b(images?|image_url|vision|multimodal|mmproj)\b`)

// imagesOmitted tells a model that refused its images.
const imagesOmitted = "\nThe images of this message could not be shown to you: your model does not take them. Say so if they matter."

// retryBackoff are the waits before a request is sent again.
var retryBackoff = retry.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// A execution is one turn in progress.
type execution struct {
	h        *Harness
	turn     *harness.Turn
	tools    *toolset
	history  []message // of earlier turns
	messages []message // in this turn, the prompt first
	usage    harness.Usage
}

// iterate asks and answers until the model calls no more tools.
func (r *execution) iterate(ctx context.Context) (*reply, error) {
	opts := r.h.opts
	paused := ""
	for r.usage.Iterations < opts.MaxIterations {
		last := r.usage.Iterations == opts.MaxIterations-1
		reply, err := r.request(ctx, last)
		if err != nil {
			return nil, err
		}
		sanitizeNames(reply.Calls)
		if reply.Truncated && reply.Text == "" {
			return nil, fmt.Errorf("%w: its answer was cut at %d tokens before it said anything", harness.ErrBudget, maxTokens)
		}
		if reply.Filtered && reply.Text == "" && len(reply.Calls) == 0 {
			return nil, &harness.UserError{Message: userFiltered, Err: errors.New("the provider of the model withheld the answer (its filter of content)")}
		}
		if reply.Text != "" || len(reply.Calls) > 0 {
			r.messages = append(r.messages, message{Role: roleAssistant, Text: reply.Text, Calls: reply.Calls})
		}
		if reply.Paused {
			paused += reply.Text
			continue
		}
		if len(reply.Calls) == 0 || last {
			r.dropCalls(reply)
			reply.Text = paused + reply.Text
			return reply, nil
		}
		paused = ""
		r.messages = append(r.messages, message{Role: roleTool, Results: r.runTools(ctx, reply.Calls)})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if used := r.usage.InputTokens + r.usage.OutputTokens; used >= opts.TokenBudget {
			return nil, fmt.Errorf("%w: it used %d of %d tokens", harness.ErrBudget, used, opts.TokenBudget)
		}
	}
	return nil, fmt.Errorf("%w: the model did not end it in %d requests", harness.ErrBudget, opts.MaxIterations)
}

// sanitizeNames gives calls names that every API takes back: models make some up
// (functions.x), or write a tool's name as their prompt has it. One that stayed
// in the history would have each later request of the conversation refused.
func sanitizeNames(calls []call) {
	for i := range calls {
		if calls[i].Name = wireName(calls[i].Name); calls[i].Name == "" {
			calls[i].Name = "unnamed"
		}
	}
}

// dropCalls takes back calls that nobody will run: APIs refuse a history with
// calls that have no answer.
func (r *execution) dropCalls(reply *reply) {
	if len(reply.Calls) == 0 {
		return
	}
	last := &r.messages[len(r.messages)-1]
	last.Calls = nil
	if last.Text == "" {
		r.messages = r.messages[:len(r.messages)-1]
	}
}

// request sends one request, as often as it takes and is allowed.
func (r *execution) request(ctx context.Context, noTools bool) (*reply, error) {
	r.usage.Iterations++
	for try := 1; ; try++ {
		request := &request{
			System: r.turn.System + r.tools.nameHint(), Tools: r.tools.List(), NoTools: noTools, MaxTokens: maxTokens,
			Messages: slices.Concat(r.history, r.messages),
		}
		reply, err := r.h.complete(ctx, request, func(piece string) {
			r.report(harness.Progress{Kind: harness.ProgressText, Message: piece})
		})
		if err == nil {
			r.addUsage(request, reply)
			return reply, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.report(harness.Progress{Kind: harness.ProgressText}) // what came of it is void
		var failed *requestError
		if !errors.As(err, &failed) {
			return nil, err
		}
		if len(r.messages[0].Images) > 0 && (failed.TooLong || failed.Rejected || imagesRefused.MatchString(err.Error())) {
			r.noteFailure("the model does not take the images of this turn, which are left out", err)
			r.messages[0].Images = nil
			r.messages[0].Text += imagesOmitted
			continue
		}
		if (failed.TooLong || failed.Rejected) && len(r.history) > 0 {
			r.noteFailure("the model does not take the past of the conversation, which is left out", err)
			r.history = nil
			continue
		}
		if !failed.Retry || try > r.h.opts.Retries {
			return nil, err
		}
		wait := max(failed.RetryAfter, retryBackoff.After(try))
		if deadline, ok := ctx.Deadline(); ok && time.Now().Add(wait).After(deadline) {
			return nil, fmt.Errorf("the model can be asked again only in %s: %w", wait.Round(time.Second), err)
		}
		r.noteFailure(fmt.Sprintf("asking the model again in %s", wait.Round(100*time.Millisecond)), err)
		if !retry.Sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// addUsage adds up what a request cost; four bytes are taken for a token where
// the API does not tell.
func (r *execution) addUsage(request *request, reply *reply) {
	if reply.InputTokens == 0 && reply.OutputTokens == 0 {
		raw, _ := json.Marshal(request) //nolint:errcheck // an estimate
		reply.InputTokens = int64(len(raw) / 4)
		reply.OutputTokens = int64(len(reply.Text) / 4)
	}
	r.usage.InputTokens += reply.InputTokens
	r.usage.CachedTokens += reply.CachedTokens
	r.usage.OutputTokens += reply.OutputTokens
	r.usage.USD += reply.USD
}

// runTools runs the calls of one answer in order. Calls that the turn's end
// leaves over are answered as cancelled, so that the history stays whole.
func (r *execution) runTools(ctx context.Context, calls []call) []callResult {
	results := make([]callResult, 0, len(calls))
	for i, c := range calls {
		var result harness.Result
		switch {
		case ctx.Err() != nil:
			result = harness.ErrorResult("the turn was cancelled before this tool was called", nil)
		case i >= maxCalls:
			result = harness.ErrorResult(fmt.Sprintf("at most %d tools can be called at once; call it again", maxCalls), nil)
		default:
			r.usage.ToolCalls++
			arguments := json.RawMessage(c.Arguments)
			if !json.Valid(arguments) {
				arguments = json.RawMessage("null")
			}
			r.reportTool(harness.ProgressToolCall, c, arguments)
			result = r.runTool(ctx, c)
			raw, _ := json.Marshal(result) //nolint:errcheck // strings and valid JSON
			r.reportTool(harness.ProgressToolResult, c, raw)
		}
		results = append(results, callResult{ID: c.ID, Text: resultText(result, resultBytes), IsError: result.IsError})
	}
	return results
}

// runTool runs a tool, if it is sensitive once a person has allowed it.
func (r *execution) runTool(ctx context.Context, c call) harness.Result {
	name := r.tools.SourceName(c.Name)
	if server, tool, ok := strings.Cut(name, "__"); ok {
		name = "mcp:" + server + "." + tool
	}
	if a := r.turn.Approver; a != nil && a.Sensitive(name) {
		if err := a.Approve(ctx, name, json.RawMessage(c.Arguments)); err != nil {
			return harness.ErrorResult("A person decides about this tool: "+err.Error()+". Do not call it again for this.", nil)
		}
	}
	return r.tools.callTool(ctx, c)
}

// reportTool reports a call, or its result.
func (r *execution) reportTool(kind harness.ProgressKind, c call, content json.RawMessage) {
	r.report(harness.Progress{Kind: kind, Tool: r.tools.SourceName(c.Name), CallID: c.ID, Content: content})
}

// noteFailure tells what is done about a failed request. Why it failed stays here: it names the
// address of the endpoint, and a status may reach those who do not run it.
func (r *execution) noteFailure(text string, failed error) {
	r.h.opts.Log.Warn().Err(failed).Str("turn", r.turn.ID).Msg(text)
	r.report(harness.Progress{Kind: harness.ProgressStatus, Message: text})
}

func (r *execution) report(p harness.Progress) {
	p.TurnID = r.turn.ID
	r.h.Report(p)
}
