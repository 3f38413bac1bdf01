package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/netguard"
	"hubbub/protocol/retry"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// An exchange is one turn: a message, and what comes of it. One goroutine uses it, but for begun.
type exchange struct {
	h    *Harness
	a    *agent
	turn *harness.Turn

	begun   atomic.Bool // the task has an id
	task    sdk.TaskInfo
	state   sdk.TaskState
	message *sdk.Message    // the answer, if it is no task
	status  *sdk.Message    // of the task
	pieces  []*sdk.Artifact // of the task, in the order in which they came
	err     error
}

// run sends the message and takes what comes. It reports whether the message has to be sent
// anew: the agent elsewhere knows the conversation no more.
func (x *exchange) run(ctx context.Context) (anew bool) {
	x.err = nil
	key := x.turn.ConversationKey()
	past, known := x.h.talks.Get(key)
	request := &sdk.SendMessageRequest{Message: x.said(past), Config: &sdk.SendMessageConfig{ReturnImmediately: !x.a.streams}}
	hearing, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		if x.begun.Load() {
			end()
		} else {
			time.AfterFunc(x.h.opts.CancelTimeout, end) // what has no id cannot be cancelled
		}
	})
	defer stop()
	for event, err := range x.a.client.SendStreamingMessage(hearing, request) {
		if err != nil {
			x.err = err
			break
		}
		x.take(event)
		if x.begun.Store(x.task.TaskID != ""); x.over() || x.begun.Load() && ctx.Err() != nil {
			break
		}
	}
	if known && ctx.Err() == nil && x.forgotten() {
		x.h.talks.Take(key)
		return true
	}
	if x.task.TaskID != "" && !x.over() {
		x.follow(ctx)
	}
	if next := (talk{context: x.task.ContextID}); x.over() && next.context != "" {
		if x.state == sdk.TaskStateInputRequired {
			next.task = x.task.TaskID
		}
		x.h.talks.Put(key, next)
	}
	return false
}

// said is the message of the turn.
func (x *exchange) said(past talk) *sdk.Message {
	e := &x.turn.Event
	words := e.Text()
	if e.Conversation.Kind != "dm" {
		words = e.Author.Name() + ": " + words
	}
	id := e.IdempotencyKey
	if hint := x.turn.Correction; hint != "" { // it is to answer anew, and knows a message by its id
		words, id = words+"\n\n("+hint+")", id+"~again"
	}
	m := &sdk.Message{ID: id, Role: sdk.MessageRoleUser, ContextID: past.context, TaskID: past.task, Parts: sdk.ContentParts{sdk.NewTextPart(words)}}
	for _, i := range x.turn.Images {
		if x.a.images {
			part := sdk.NewRawPart(i.Data)
			part.MediaType = i.MimeType
			m.Parts = append(m.Parts, part)
		}
	}
	return m
}

// forgotten reports whether the agent elsewhere refused the message, and did not begin.
func (x *exchange) forgotten() bool {
	if x.task.TaskID != "" {
		return false
	}
	for _, refusal := range []error{sdk.ErrTaskNotFound, sdk.ErrInvalidParams, sdk.ErrInvalidRequest, sdk.ErrUnsupportedOperation} {
		if errors.Is(x.err, refusal) {
			return true
		}
	}
	return false
}

// over reports whether the agent elsewhere says no more.
func (x *exchange) over() bool {
	return x.message != nil || x.state.Terminal() || x.state == sdk.TaskStateInputRequired || x.state == sdk.TaskStateAuthRequired
}

// follow asks for a task until it is over, or ctx ends, and then cancels it.
func (x *exchange) follow(ctx context.Context) {
	for tries := 1; !x.over(); tries++ {
		if retry.Sleep(ctx, x.h.opts.PollBackoff.After(tries)); ctx.Err() != nil {
			x.cancel(ctx)
			return
		}
		task, err := x.a.client.GetTask(ctx, &sdk.GetTaskRequest{ID: x.task.TaskID})
		switch {
		case err == nil:
			x.take(task)
		case errors.Is(err, sdk.ErrTaskNotFound):
			x.err = err
			return
		}
	}
	x.err = nil
}

// cancel tells the agent elsewhere to stop.
func (x *exchange) cancel(ctx context.Context) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), x.h.opts.CancelTimeout)
	defer end()
	if _, err := x.a.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: x.task.TaskID}); err != nil {
		x.h.opts.Log.Info().Err(x.h.words(err)).Msg("task of an agent elsewhere not cancelled; what comes of it is not taken")
	}
}

// take adds one thing that came.
func (x *exchange) take(event sdk.Event) {
	if info := event.TaskInfo(); info.TaskID != "" || info.ContextID != "" {
		x.task = info
	}
	switch e := event.(type) {
	case *sdk.Message:
		x.message = e
		x.report(harness.ProgressText, textOf(e.Parts))
	case *sdk.Task:
		x.pieces = nil
		for _, a := range e.Artifacts {
			x.add(a, false)
		}
		x.take(&sdk.TaskStatusUpdateEvent{TaskID: e.ID, ContextID: e.ContextID, Status: e.Status})
	case *sdk.TaskStatusUpdateEvent:
		x.state, x.status = e.Status.State, e.Status.Message
		if e.Status.Message != nil && !x.over() {
			x.report(harness.ProgressStatus, textOf(e.Status.Message.Parts))
		}
	case *sdk.TaskArtifactUpdateEvent:
		x.add(e.Artifact, e.Append)
	}
}

// add adds an artifact, or a piece to one.
func (x *exchange) add(a *sdk.Artifact, more bool) {
	if a == nil {
		return
	}
	for i, old := range x.pieces {
		if old.ID != a.ID {
			continue
		}
		if !more {
			x.pieces[i] = a
			x.report(harness.ProgressText, "") // what came of it is void
			x.report(harness.ProgressText, x.answer())
			return
		}
		old.Parts = append(old.Parts, a.Parts...)
		x.report(harness.ProgressText, textOf(a.Parts))
		return
	}
	x.pieces = append(x.pieces, a)
	x.report(harness.ProgressText, textOf(a.Parts))
}

func (x *exchange) report(kind harness.ProgressKind, words string) {
	if words != "" || kind == harness.ProgressText {
		x.h.Report(harness.Progress{TurnID: x.turn.ID, Kind: kind, Message: words})
	}
}

// answer is what the agent elsewhere said: its message, what its task made, or with which
// words the task stands as it does.
func (x *exchange) answer() string {
	if x.message != nil {
		return textOf(x.message.Parts)
	}
	var all []string
	for _, a := range x.pieces {
		if words := strings.TrimSpace(textOf(a.Parts)); words != "" {
			all = append(all, words)
		}
	}
	if x.status != nil && (len(all) == 0 || x.state == sdk.TaskStateInputRequired) {
		all = append(all, strings.TrimSpace(textOf(x.status.Parts)))
	}
	return strings.Join(all, "\n\n")
}

// textOf joins what parts say. A file is its name.
func textOf(parts sdk.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		if p == nil {
			continue
		}
		switch content := p.Content.(type) {
		case sdk.Text:
			b.WriteString(string(content))
		case sdk.URL:
			fmt.Fprintf(&b, "\n%s\n", content)
		case sdk.Data:
			raw, _ := json.MarshalIndent(content.Value, "", "  ") //nolint:errcheck // it was JSON
			fmt.Fprintf(&b, "\n```json\n%s\n```\n", raw)
		case sdk.Raw:
			fmt.Fprintf(&b, "\n(a file: %s %s)\n", p.Filename, p.MediaType)
		}
	}
	return b.String()
}

// verdict says how the turn ended.
func (x *exchange) verdict(ctx context.Context) error {
	if x.err == nil && x.over() {
		return x.ended()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := x.err
	if err == nil {
		err = errors.New("it ended its answer without a word")
	}
	shown := x.h.words(err)
	if verdict := statusVerdict(err, shown); verdict != nil {
		return verdict
	}
	var refusal *sdk.Error
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return permanent(toldMoved, fmt.Errorf("%w (its card names an address that is not public; --allow-target permits one)", shown))
	case errors.Is(err, sdk.ErrUnauthenticated), errors.Is(err, sdk.ErrUnauthorized):
		return permanent(toldKey, shown)
	case x.task.TaskID != "", errors.Is(err, errTooLong): // it has begun, and may have acted
		return shown
	case errors.Is(err, sdk.ErrInternalError), errors.Is(err, sdk.ErrServerError):
		return fmt.Errorf("%w: %w", harness.ErrTemporary, shown)
	case errors.As(err, &refusal):
		return &harness.UserError{Message: toldRefused, Err: shown}
	}
	select {
	case x.a.lost <- err: // the card is asked for anew
	default:
	}
	return fmt.Errorf("%w: %w", harness.ErrTemporary, shown)
}

// ended says what the state means in which the task stands. A task that failed is not tried
// again: it may have acted.
func (x *exchange) ended() error {
	words := x.answer()
	switch x.state {
	case sdk.TaskStateFailed, sdk.TaskStateCanceled:
		return x.h.words(fmt.Errorf("its task ended as %s: %s", strings.ToLower(strings.TrimPrefix(string(x.state), "TASK_STATE_")), words))
	case sdk.TaskStateRejected:
		if words == "" {
			return &harness.UserError{Message: toldRefused, Err: x.h.words(errors.New("it rejected the task"))}
		}
	case sdk.TaskStateAuthRequired:
		return &harness.UserError{Message: toldLogin, Err: x.h.words(errors.New("its task waits for somebody to log in there"))}
	}
	return nil
}
