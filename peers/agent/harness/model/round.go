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

// refusesImages finds the words in which endpoints say, with any status, that their model
// does not see.
var refusesImages = regexp.MustCompile(`(?i)\b(images?|image_url|vision|multimodal|mmproj)\b`)

// unseen tells a model that refused its images.
const unseen = "\nThe images of this message could not be shown to you: your model does not take them. Say so if they matter."

// pauses are the waits before a request is sent again.
var pauses = retry.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// A run is one turn in progress.
type run struct {
	h     *Harness
	turn  *harness.Turn
	tools *toolset
	past  []message // of earlier turns
	said  []message // in this turn, the prompt first
	usage harness.Usage
}

// rounds asks and answers until the model calls no more tools.
func (r *run) rounds(ctx context.Context) (*reply, error) {
	opts := r.h.opts
	paused := ""
	for r.usage.Iterations < opts.MaxIterations {
		last := r.usage.Iterations == opts.MaxIterations-1
		reply, err := r.ask(ctx, last)
		if err != nil {
			return nil, err
		}
		presentable(reply.Calls)
		if reply.Truncated && reply.Text == "" {
			return nil, fmt.Errorf("%w: its answer was cut at %d tokens before it said anything", harness.ErrBudget, maxTokens)
		}
		if reply.Withheld && reply.Text == "" && len(reply.Calls) == 0 {
			return nil, &harness.UserError{Message: toldWithheld, Err: errors.New("the provider of the model withheld the answer (its filter of content)")}
		}
		if reply.Text != "" || len(reply.Calls) > 0 {
			r.said = append(r.said, message{Role: roleAssistant, Text: reply.Text, Calls: reply.Calls})
		}
		if reply.Paused {
			paused += reply.Text
			continue
		}
		if len(reply.Calls) == 0 || last {
			r.unanswered(reply)
			reply.Text = paused + reply.Text
			return reply, nil
		}
		paused = ""
		r.said = append(r.said, message{Role: roleTool, Results: r.answer(ctx, reply.Calls)})
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if used := r.usage.InputTokens + r.usage.OutputTokens; used >= opts.TokenBudget {
			return nil, fmt.Errorf("%w: it used %d of %d tokens", harness.ErrBudget, used, opts.TokenBudget)
		}
	}
	return nil, fmt.Errorf("%w: the model did not end it in %d requests", harness.ErrBudget, opts.MaxIterations)
}

// presentable gives calls names that every API takes back: models make some up
// (functions.x), or write a tool's name as their prompt has it. One that stayed
// in the history would have each later request of the conversation refused.
func presentable(calls []call) {
	for i := range calls {
		if calls[i].Name = wireName(calls[i].Name); calls[i].Name == "" {
			calls[i].Name = "unnamed"
		}
	}
}

// unanswered takes back calls that nobody will run: APIs refuse a history with
// calls that have no answer.
func (r *run) unanswered(reply *reply) {
	if len(reply.Calls) == 0 {
		return
	}
	last := &r.said[len(r.said)-1]
	last.Calls = nil
	if last.Text == "" {
		r.said = r.said[:len(r.said)-1]
	}
}

// ask sends one request, as often as it takes and is allowed.
func (r *run) ask(ctx context.Context, noTools bool) (*reply, error) {
	r.usage.Iterations++
	for try := 1; ; try++ {
		request := &request{
			System: r.turn.System + r.tools.hint(), Tools: r.tools.List(), NoTools: noTools, MaxTokens: maxTokens,
			Messages: slices.Concat(r.past, r.said),
		}
		reply, err := r.h.ask(ctx, request, func(piece string) {
			r.report(harness.Progress{Kind: harness.ProgressText, Message: piece})
		})
		if err == nil {
			r.count(request, reply)
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
		if len(r.said[0].Images) > 0 && (failed.TooLong || failed.Refused || refusesImages.MatchString(err.Error())) {
			r.goOn("the model does not take the images of this turn, which are left out", err)
			r.said[0].Images = nil
			r.said[0].Text += unseen
			continue
		}
		if (failed.TooLong || failed.Refused) && len(r.past) > 0 {
			r.goOn("the model does not take the past of the conversation, which is left out", err)
			r.past = nil
			continue
		}
		if !failed.Retry || try > r.h.opts.Retries {
			return nil, err
		}
		wait := max(failed.After, pauses.After(try))
		if deadline, ok := ctx.Deadline(); ok && time.Now().Add(wait).After(deadline) {
			return nil, fmt.Errorf("the model can be asked again only in %s: %w", wait.Round(time.Second), err)
		}
		r.goOn(fmt.Sprintf("asking the model again in %s", wait.Round(100*time.Millisecond)), err)
		if !retry.Sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// count adds up what a request cost; four bytes are taken for a token where
// the API does not tell.
func (r *run) count(request *request, reply *reply) {
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

// answer runs the calls of one answer in order. Calls that the turn's end
// leaves over are answered as cancelled, so that the history stays whole.
func (r *run) answer(ctx context.Context, calls []call) []callResult {
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
			r.tool(harness.ProgressToolCall, c, arguments)
			result = r.approved(ctx, c)
			raw, _ := json.Marshal(result) //nolint:errcheck // strings and valid JSON
			r.tool(harness.ProgressToolResult, c, raw)
		}
		results = append(results, callResult{ID: c.ID, Text: resultText(result, resultBytes), IsError: result.IsError})
	}
	return results
}

// approved runs a tool, if it is sensitive once a person has allowed it.
func (r *run) approved(ctx context.Context, c call) harness.Result {
	name := r.tools.SourceName(c.Name)
	if server, tool, ok := strings.Cut(name, "__"); ok {
		name = "mcp:" + server + "." + tool
	}
	if a := r.turn.Approver; a != nil && a.Sensitive(name) {
		if err := a.Approve(ctx, name, json.RawMessage(c.Arguments)); err != nil {
			return harness.ErrorResult("A person decides about this tool: "+err.Error()+". Do not call it again for this.", nil)
		}
	}
	return r.tools.run(ctx, c)
}

// tool reports a call, or its result.
func (r *run) tool(kind harness.ProgressKind, c call, content json.RawMessage) {
	r.report(harness.Progress{Kind: kind, Tool: r.tools.SourceName(c.Name), CallID: c.ID, Content: content})
}

// goOn tells what is done about a failed request. Why it failed stays here: it names the
// address of the endpoint, and a status may reach those who do not run it.
func (r *run) goOn(text string, failed error) {
	r.h.opts.Log.Warn().Err(failed).Str("turn", r.turn.ID).Msg(text)
	r.report(harness.Progress{Kind: harness.ProgressStatus, Message: text})
}

func (r *run) report(p harness.Progress) {
	p.TurnID = r.turn.ID
	r.h.Report(p)
}
