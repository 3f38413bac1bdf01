package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"hubbub/peers/agent/harness"
	"hubbub/peers/netguard"
	"hubbub/protocol/retry"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// An exchange is one turn: a message and its results. Only one goroutine uses it, except for
// started.
type exchange struct {
	h    *Harness
	a    *remoteAgent
	turn *harness.Turn

	started   atomic.Bool // the task has an ID
	task      sdk.TaskInfo
	state     sdk.TaskState
	message   *sdk.Message    // the answer, if it is not a task
	status    *sdk.Message    // of the task
	artifacts []*sdk.Artifact // of the task, in the order of arrival
	places    map[sdk.ArtifactID]int
	replaced  int // artifacts that were replaced
	err       error
}

// maxReplaced limits how often the whole answer is reported while the task runs.
const maxReplaced = 1000

// run sends the message and handles the events. It reports whether the message must be sent again
// because the remote agent no longer knows the conversation.
func (x *exchange) run(ctx context.Context) (again bool) {
	x.err = nil
	key := x.turn.ConversationKey()
	past, known := x.h.conversations.Get(key)
	request := &sdk.SendMessageRequest{
		Message: x.newMessage(past),
		Config:  &sdk.SendMessageConfig{ReturnImmediately: !x.a.streams},
	}
	streamCtx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		if x.started.Load() {
			end()
		} else {
			time.AfterFunc(x.h.opts.CancelTimeout, end) // without an ID, the task cannot be canceled
		}
	})
	defer stop()
	for event, err := range x.a.client.SendStreamingMessage(streamCtx, request) {
		if err != nil {
			x.err = err
			break
		}
		x.handleEvent(event)
		if x.started.Store(x.task.TaskID != ""); x.finished() || x.started.Load() && ctx.Err() != nil {
			break
		}
	}
	if known && ctx.Err() == nil && x.contextUnknown() {
		x.h.conversations.Remove(key)
		return true
	}
	if x.task.TaskID != "" && !x.finished() {
		x.poll(ctx)
	}
	if next := (conversation{context: x.task.ContextID, rules: x.turn.System}); x.finished() && next.context != "" {
		if x.state == sdk.TaskStateInputRequired {
			next.task = x.task.TaskID
		}
		x.h.conversations.Add(key, next)
	}
	return false
}

// noTools tells a remote agent how its answer reaches the chat.
const noTools = "You have none of the chat tools that these rules name: what you answer to this message is sent to the " +
	"chat as it is. To stay silent, answer with nothing."

// newMessage makes the message of the turn: the prompt, preceded by the standing rules if
// the conversation begins or the rules have changed.
func (x *exchange) newMessage(past conversation) *sdk.Message {
	words, id := x.turn.Prompt, x.turn.Event.IdempotencyKey
	if past.rules != x.turn.System { // its context does not have them yet
		words = x.turn.System + "\n\n" + noTools + "\n\n" + words
	}
	if hint := x.turn.Correction; hint != "" { // the agent recognizes a message by its ID, and must answer again
		words, id = words+"\n("+hint+")", id+"~again"
	}
	m := &sdk.Message{
		ID:        id,
		Role:      sdk.MessageRoleUser,
		ContextID: past.context,
		TaskID:    past.task,
		Parts:     sdk.ContentParts{sdk.NewTextPart(words)},
	}
	for _, i := range x.turn.Images {
		if x.a.images {
			part := sdk.NewRawPart(i.Data)
			part.MediaType = i.MimeType
			m.Parts = append(m.Parts, part)
		}
	}
	return m
}

// contextUnknown reports whether the remote agent refused the message and did not begin a task.
func (x *exchange) contextUnknown() bool {
	if x.task.TaskID != "" {
		return false
	}
	for _, refusal := range []error{sdk.ErrTaskNotFound, sdk.ErrInvalidParams, sdk.ErrInvalidRequest,
		sdk.ErrUnsupportedOperation} {
		if errors.Is(x.err, refusal) {
			return true
		}
	}
	return false
}

// finished reports whether the remote agent will send nothing more.
func (x *exchange) finished() bool {
	return x.message != nil || x.state.Terminal() || x.state == sdk.TaskStateInputRequired ||
		x.state == sdk.TaskStateAuthRequired
}

// poll polls a task until it has ended. If ctx ends first, poll cancels the task.
func (x *exchange) poll(ctx context.Context) {
	for tries := 1; !x.finished(); tries++ {
		if retry.Sleep(ctx, x.h.opts.PollBackoff.After(tries)); ctx.Err() != nil {
			x.cancel(ctx)
			return
		}
		task, err := x.a.client.GetTask(ctx, &sdk.GetTaskRequest{ID: x.task.TaskID})
		switch {
		case err == nil:
			x.handleEvent(task)
		case errors.Is(err, sdk.ErrTaskNotFound):
			x.err = err
			return
		}
	}
	x.err = nil
}

// cancel tells the remote agent to stop.
func (x *exchange) cancel(ctx context.Context) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), x.h.opts.CancelTimeout)
	defer end()
	if _, err := x.a.client.CancelTask(ctx, &sdk.CancelTaskRequest{ID: x.task.TaskID}); err != nil {
		x.h.opts.Log.Info().
			Err(x.h.describeError(err)).
			Msg("task of a remote agent not canceled; its results are ignored")
	}
}

// handleEvent handles one event.
func (x *exchange) handleEvent(event sdk.Event) {
	if info := event.TaskInfo(); info.TaskID != "" || info.ContextID != "" {
		x.task = info
	}
	switch e := event.(type) {
	case *sdk.Message:
		x.message = e
		x.report(harness.ProgressText, textOf(e.Parts))
	case *sdk.Task:
		x.artifacts, x.places = nil, nil
		for _, a := range e.Artifacts {
			x.addArtifact(a, false)
		}
		x.handleEvent(&sdk.TaskStatusUpdateEvent{TaskID: e.ID, ContextID: e.ContextID, Status: e.Status})
	case *sdk.TaskStatusUpdateEvent:
		x.state, x.status = e.Status.State, e.Status.Message
		if e.Status.Message != nil && !x.finished() {
			x.report(harness.ProgressStatus, textOf(e.Status.Message.Parts))
		}
	case *sdk.TaskArtifactUpdateEvent:
		x.addArtifact(e.Artifact, e.Append)
	}
}

// addArtifact adds an artifact, or appends to one.
func (x *exchange) addArtifact(a *sdk.Artifact, more bool) {
	if a == nil {
		return
	}
	place, known := x.places[a.ID]
	if !more && strings.ContainsRune(string(a.ID), utf8.RuneError) {
		known = false // JSON decoders make ids with unpaired surrogates equal
	}
	switch {
	case known && !more:
		x.artifacts[place] = a
		x.report(harness.ProgressText, "") // voids the text so far
		if x.replaced++; x.replaced <= maxReplaced {
			x.report(harness.ProgressText, x.answer())
		}
		return
	case known:
		old := x.artifacts[place]
		old.Parts = append(old.Parts, a.Parts...)
	default:
		if x.places == nil {
			x.places = map[sdk.ArtifactID]int{}
		}
		x.places[a.ID] = len(x.artifacts)
		x.artifacts = append(x.artifacts, a)
	}
	x.report(harness.ProgressText, textOf(a.Parts))
}

func (x *exchange) report(kind harness.ProgressKind, words string) {
	if words != "" || kind == harness.ProgressText {
		x.h.Report(harness.Progress{TurnID: x.turn.ID, Kind: kind, Message: words})
	}
}

// answer returns what the remote agent said: its message, or the artifacts and the status message
// of its task.
func (x *exchange) answer() string {
	if x.message != nil {
		return textOf(x.message.Parts)
	}
	var all []string
	for _, a := range x.artifacts {
		if words := strings.TrimSpace(textOf(a.Parts)); words != "" {
			all = append(all, words)
		}
	}
	if x.status != nil && (len(all) == 0 || x.state == sdk.TaskStateInputRequired) {
		all = append(all, strings.TrimSpace(textOf(x.status.Parts)))
	}
	return strings.Join(all, "\n\n")
}

// textOf joins the text of parts. A file is represented by its name.
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

// result returns the error of the turn, or nil.
func (x *exchange) result(ctx context.Context) error {
	if x.err == nil && x.finished() {
		return x.finalError()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := x.err
	if err == nil {
		err = errors.New("it ended its answer without any text")
	}
	described := x.h.describeError(err)
	if verdict := classifyStatus(err, described); verdict != nil {
		return verdict
	}
	var refusal *sdk.Error
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return permanentError(userMoved,
			fmt.Errorf("%w (its card contains an address that is not public; --allow-target permits one)", described))
	case errors.Is(err, sdk.ErrUnauthenticated), errors.Is(err, sdk.ErrUnauthorized):
		return permanentError(userBadKey, described)
	case x.task.TaskID != "", errors.Is(err, errTooLong): // the task has begun and may have acted
		return described
	case errors.Is(err, sdk.ErrInternalError), errors.Is(err, sdk.ErrServerError):
		return fmt.Errorf("%w: %w", harness.ErrTemporary, described)
	case errors.As(err, &refusal):
		return &harness.UserError{Message: userRejected, Err: described}
	}
	select {
	case x.a.disconnected <- err: // the card is read again
	default:
	}
	return fmt.Errorf("%w: %w", harness.ErrTemporary, described)
}

// finalError returns the error for the final state of the task. A failed task is not run again,
// since it may have acted.
func (x *exchange) finalError() error {
	words := x.answer()
	switch x.state {
	case sdk.TaskStateFailed, sdk.TaskStateCanceled:
		return x.h.describeError(
			fmt.Errorf("its task ended as %s: %s", strings.ToLower(strings.TrimPrefix(string(x.state), "TASK_STATE_")),
				words),
		)
	case sdk.TaskStateRejected:
		if words == "" {
			return &harness.UserError{Message: userRejected, Err: x.h.describeError(errors.New("it rejected the task"))}
		}
	case sdk.TaskStateAuthRequired:
		return &harness.UserError{
			Message: userLogin,
			Err:     x.h.describeError(errors.New("its task waits for somebody to log in")),
		}
	}
	return nil
}
