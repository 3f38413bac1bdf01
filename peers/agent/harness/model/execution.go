package model

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

const (
	maxCalls    = 32       // tool calls in one answer; further calls are refused
	resultBytes = 32 << 10 // of one tool result
)

// imagesRefused matches what endpoints say, with any status, if their model does not accept
// images.
var imagesRefused = text.Pattern(`(?i)\b(images?|image_url|vision|multimodal|mmproj)\b`)

// imagesOmitted informs a model that did not accept images.
const imagesOmitted = "\nThe images of this message could not be shown to you: your model does not support images. " +
	"Say so if they matter."

// retryBackoff is the wait before a request is sent again.
var retryBackoff = retry.Backoff{Min: 500 * time.Millisecond, Max: 30 * time.Second}

// An execution is one turn in progress.
type execution struct {
	h        *Harness
	turn     *harness.Turn
	tools    *toolset
	history  []message // of earlier turns
	messages []message // of this turn, beginning with the prompt
	usage    harness.Usage
	cuts     int    // answers that were cut
	cutText  string // the longest of these texts that is meant for people
}

// iterate sends requests and runs tools until the model calls no more tools.
func (r *execution) iterate(ctx context.Context) (*reply, error) {
	opts := r.h.opts
	paused := ""
	for r.usage.Iterations < opts.MaxIterations {
		last := r.usage.Iterations == opts.MaxIterations-1
		reply, err := r.request(ctx, last)
		if err != nil {
			return nil, err
		}
		r.tools.sanitizeNames(reply.Calls)
		if reply.Truncated = reply.Truncated || r.isCutCall(reply); reply.Truncated {
			final, err := r.handleCut(reply, last)
			if final != nil || err != nil {
				return final, err
			}
			continue
		}
		if reply.Filtered && reply.Text == "" && len(reply.Calls) == 0 {
			return nil, &harness.UserError{
				Message: userFiltered,
				Err:     errors.New("the model's provider withheld the answer (content filter)"),
			}
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
	return nil, fmt.Errorf("%w: the model did not end it within %d requests", harness.ErrBudget, opts.MaxIterations)
}

// isCutCall reports whether the token limit cut a call of a model whose endpoint does not say so.
func (r *execution) isCutCall(reply *reply) bool {
	n := len(reply.Calls)
	return n > 0 && reply.OutputTokens >= int64(r.h.opts.MaxTokens) && !json.Valid([]byte(reply.Calls[n-1].Arguments))
}

// hasImages reports whether a message of this turn has images.
func (r *execution) hasImages() bool {
	return slices.ContainsFunc(r.messages, func(m message) bool {
		return len(m.Images) > 0 || slices.ContainsFunc(m.Results, func(c callResult) bool { return len(c.Images) > 0 })
	})
}

// omitImages removes the images of this turn, and says so to the model.
func (r *execution) omitImages() {
	for i := range r.messages {
		m := &r.messages[i]
		if len(m.Images) > 0 {
			m.Images, m.Text = nil, m.Text+imagesOmitted
		}
		for j := range m.Results {
			if result := &m.Results[j]; len(result.Images) > 0 {
				result.Images, result.Text = nil, result.Text+imagesOmitted
			}
		}
	}
}

// sanitizeNames gives calls names that every API accepts. Models decorate names (functions.x), invent
// them, or use a tool's name from their prompt. An invalid name in the history would make the API refuse
// every later request of the conversation.
func (t *toolset) sanitizeNames(calls []call) {
	for i := range calls {
		name := calls[i].Name
		if calls[i].Name = wireName(name); !t.Has(calls[i].Name) {
			calls[i].Name = cmp.Or(attention.ToolMeant(name, t.names()), calls[i].Name, "unnamed")
		}
	}
}

// dropCalls removes calls that will not be run. APIs refuse a history with unanswered calls.
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

// request sends one request, with as many retries as needed and allowed.
func (r *execution) request(ctx context.Context, noTools bool) (*reply, error) {
	r.usage.Iterations++
	for try := 1; ; try++ {
		request := &request{
			System: r.turn.System + r.tools.nameHint(), Tools: r.tools.List(), NoTools: noTools,
			MaxTokens: r.h.opts.MaxTokens,
			Messages:  slices.Concat(r.history, r.messages),
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
		r.report(harness.Progress{Kind: harness.ProgressText}) // voids the text so far
		var failed *requestError
		if !errors.As(err, &failed) {
			return nil, err
		}
		if r.hasImages() &&
			(failed.TooLong || failed.Rejected || imagesRefused().MatchString(err.Error())) {
			r.noteFailure("leaving out the images of this turn, which the model does not accept", err)
			r.omitImages()
			continue
		}
		if (failed.TooLong || failed.Rejected) && len(r.history) > 0 {
			r.noteFailure("leaving out the history of the conversation, which the model does not accept", err)
			r.history = nil
			continue
		}
		if !failed.Retry || try > r.h.opts.Retries {
			return nil, err
		}
		wait := max(failed.RetryAfter, retryBackoff.After(try))
		if deadline, ok := ctx.Deadline(); ok && time.Now().Add(wait).After(deadline) {
			return nil, fmt.Errorf("the model cannot be asked again for %s: %w", wait.Round(time.Second), err)
		}
		r.noteFailure(fmt.Sprintf("asking the model again in %s", wait.Round(100*time.Millisecond)), err)
		if !retry.Sleep(ctx, wait) {
			return nil, context.Cause(ctx)
		}
	}
}

// addUsage adds the cost of a request. If the API does not report it, four bytes count as a
// token.
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

// runTools runs the calls of one answer in order. If the turn ends first, the remaining calls are
// answered as canceled, to keep the history complete.
func (r *execution) runTools(ctx context.Context, calls []call) []callResult {
	results := make([]callResult, 0, len(calls))
	for i, c := range calls {
		var result harness.Result
		switch {
		case ctx.Err() != nil:
			result = harness.ErrorResult("the turn was canceled before this tool was called", nil)
		case i >= maxCalls:
			result = harness.ErrorResult(fmt.Sprintf("at most %d tools can be called at once; call it again", maxCalls),
				nil)
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
		results = append(results, callResult{ID: c.ID, Text: resultText(result, resultBytes), IsError: result.IsError,
			Images: result.Images()})
	}
	return results
}

// runTool runs a tool. If the tool is sensitive, a person must allow it first.
func (r *execution) runTool(ctx context.Context, c call) harness.Result {
	name := r.tools.SourceName(c.Name)
	if server, tool, ok := strings.Cut(name, "__"); ok {
		name = "mcp:" + server + "." + tool
	}
	if a := r.turn.Approver; a != nil && a.Sensitive(name) {
		if err := a.Approve(ctx, name, json.RawMessage(c.Arguments)); err != nil {
			return harness.ErrorResult(
				"A person decides whether this tool may run: "+err.Error()+". Do not call it again for this.",
				nil,
			)
		}
	}
	return r.tools.callTool(ctx, c)
}

// reportTool reports a call or its result.
func (r *execution) reportTool(kind harness.ProgressKind, c call, content json.RawMessage) {
	r.report(harness.Progress{Kind: kind, Tool: r.tools.SourceName(c.Name), CallID: c.ID, Content: content})
}

// noteFailure reports how a failed request is handled. The error is only logged: it names the
// address of the endpoint, and people who do not run the agent may see a status.
func (r *execution) noteFailure(text string, failed error) {
	r.h.opts.Log.Warn().Err(failed).Str("turn", r.turn.ID).Msg(text)
	r.report(harness.Progress{Kind: harness.ProgressStatus, Message: text})
}

func (r *execution) report(p harness.Progress) {
	p.TurnID = r.turn.ID
	r.h.Report(p)
}
