package chorus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/text"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	sdklog "github.com/a2aproject/a2a-go/v2/log"
)

// The paths of the A2A endpoints.
const (
	a2aPath  = "/a2a"      // JSON-RPC
	restPath = "/a2a/rest" // HTTP+JSON
	bearerID = "inbox"     // the security scheme
)

const (
	maxTaskWait = 10 * time.Minute // of a call that waits for the end of a task
	keepAlive   = 15 * time.Second // between keep-alive messages on a stream
)

// restStep identifies calls by HTTP+JSON. Their clients understand errors only in the format of
// that binding.
const restStep = "a2a-rest"

var restStatus = map[int]string{
	http.StatusUnauthorized:        "UNAUTHENTICATED",
	http.StatusServiceUnavailable:  "UNAVAILABLE",
	http.StatusInternalServerError: "INTERNAL",
}

var errInboxSecret = newHTTPError(
	http.StatusUnauthorized,
	"send the secret of an inbox as a bearer token: the part of its connection string after /inbox/",
)

// serveCard serves the card of our agents. It names no inbox: the token selects one.
func (g *Gateway) serveCard(w http.ResponseWriter, r *http.Request) error {
	a2asrv.NewStaticAgentCardHandler(&sdk.AgentCard{
		Name:        "Hubbub",
		Description: "The agent of an inbox, in a separate chat for each context.",
		Version:     g.opts.Version,
		SupportedInterfaces: []*sdk.AgentInterface{
			sdk.NewAgentInterface(g.opts.PublicURL+a2aPath, sdk.TransportProtocolJSONRPC),
			sdk.NewAgentInterface(g.opts.PublicURL+restPath, sdk.TransportProtocolHTTPJSON),
		},
		Capabilities:       sdk.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills: []sdk.AgentSkill{
			{ID: "chat", Name: "Chat", Description: "Answers a message.", Tags: []string{"chat"}},
		},
		SecuritySchemes: sdk.NamedSecuritySchemes{
			bearerID: sdk.HTTPAuthSecurityScheme{Scheme: "Bearer", Description: "The secret of an inbox."},
		},
		SecurityRequirements: sdk.SecurityRequirementsOptions{{bearerID: nil}},
	}).ServeHTTP(w, r)
	return nil
}

// serveA2A serves one JSON-RPC call of a remote agent.
func (g *Gateway) serveA2A(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return newHTTPError(http.StatusMethodNotAllowed, "POST requests here")
	}
	return g.serveTasks(w, r, a2asrv.NewJSONRPCHandler)
}

// serveA2ARest serves one HTTP+JSON call of a remote agent.
func (g *Gateway) serveA2ARest(w http.ResponseWriter, r *http.Request) error {
	return g.serveTasks(w, r, func(h a2asrv.RequestHandler, opts ...a2asrv.TransportOption) http.Handler {
		return http.StripPrefix(restPath, a2asrv.NewRESTHandler(h, opts...))
	})
}

// serveTasks serves a call in one of the protocol's bindings, if it shows the secret of an inbox.
func (g *Gateway) serveTasks(
	w http.ResponseWriter,
	r *http.Request,
	binding func(a2asrv.RequestHandler, ...a2asrv.TransportOption) http.Handler,
) error {
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	inbox, err := g.store.inboxOf(r.Context(), secret)
	if errors.Is(err, errUnknownSecret) {
		return errInboxSecret
	}
	if err != nil {
		return err
	}
	leave, err := g.limiters.taskCalls.acquire(r.Context(), string(inbox), false)
	if err != nil {
		return err
	}
	defer leave()
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	ctx := sdklog.AttachLogger(r.Context(), slog.New(slog.DiscardHandler)) // the log would contain messages
	binding(taskAPI{unsupported, g, inbox}, a2asrv.WithTransportKeepAlive(keepAlive)).ServeHTTP(w, r.WithContext(ctx))
	return nil
}

// A taskAPI implements A2A for a remote agent with the secret of one inbox.
type taskAPI struct {
	a2asrv.RequestHandler // for the methods that our card does not offer
	g                     *Gateway
	inbox                 InboxName
}

// unsupported implements the methods that our card does not offer.
var unsupported = a2asrv.NewHandler(nil, a2asrv.WithLogger(slog.New(slog.DiscardHandler)))

// submit stores a message as a task.
func (c taskAPI) submit(ctx context.Context, r *sdk.SendMessageRequest) (string, error) {
	m := r.Message
	switch {
	case m == nil || m.ID == "" || len(m.ID) > maxID || len(m.ContextID) > maxID ||
		!text.IsCleanName(m.ID) || !text.IsCleanName(m.ContextID):
		return "", sdk.NewError(sdk.ErrInvalidParams,
			"a message needs a messageId; it and the contextId have at most 1024 bytes and must be "+text.NameRule)
	case r.Config != nil && r.Config.PushConfig != nil:
		return "", sdk.ErrPushNotificationNotSupported
	}
	words, err := messageText(m)
	if err != nil {
		return "", err
	}
	contextID := m.ContextID
	if m.TaskID != "" {
		previous, err := c.task(ctx, string(m.TaskID))
		if err != nil {
			return "", err
		}
		if contextID = previous.Context; m.ContextID != "" && m.ContextID != contextID {
			return "", sdk.NewError(sdk.ErrInvalidParams, "this task belongs to another context")
		}
	}
	if strings.TrimSpace(words) == "" {
		return "", sdk.NewError(sdk.ErrInvalidParams, "the message is empty")
	}
	p := &InboxMessage{
		ChannelID: ChannelID(contextID),
		MessageID: hashSecret(m.ID),
		Sender:    "a2a:" + string(c.inbox),
		Content:   words,
		Callback:  taskCallback,
		Service:   "A2A",
		Context:   "A direct conversation with a remote agent or program.",
	}
	if p.ChannelID == "" { // repeating the message must yield the same ID
		p.ChannelID = ChannelID("ctx-" + hashSecret(m.ID)[:32])
	}
	in, err := c.g.newInbound(c.inbox, p)
	if err != nil {
		return "", a2aError(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	id, err := c.g.tasks.submit(ctx, in, string(m.TaskID))
	return id, a2aError(err)
}

// a2aError converts an HTTP error for A2A.
func a2aError(err error) error {
	if r, ok := errors.AsType[*httpError](err); ok {
		if r.status == http.StatusServiceUnavailable {
			return sdk.NewError(sdk.ErrServerError, r.text)
		}
		return sdk.NewError(sdk.ErrInvalidParams, r.text)
	}
	return err
}

// task returns the current state of a task.
func (c taskAPI) task(ctx context.Context, id string) (*task, error) {
	return store.Read(ctx, c.g.store.db, func(tx *store.Tx) *task { return loadTask(tx, c.inbox, id) })
}

// watch yields the current state of a task and its changes, until stop reports true.
func (c taskAPI) watch(ctx context.Context, id string, stop func(*task) bool) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		var last *task
		for {
			changed := c.g.tasks.changed.C()
			t, err := c.task(ctx, id)
			if err != nil {
				yield(nil, err)
				return
			}
			if last == nil {
				if !yield(t.toA2A(), nil) {
					return
				}
				last = t
			}
			for n := len(last.Messages); n < len(t.Messages); n++ {
				if !yield(
					&sdk.TaskArtifactUpdateEvent{
						TaskID:    sdk.TaskID(t.ID),
						ContextID: t.Context,
						Artifact:  t.artifact(n),
						LastChunk: true,
					},
					nil,
				) {
					return
				}
			}
			if last.State != t.State || last.Text != t.Text {
				if !yield(
					&sdk.TaskStatusUpdateEvent{TaskID: sdk.TaskID(t.ID), ContextID: t.Context, Status: t.status()},
					nil,
				) {
					return
				}
			}
			if last = t; stop(t) {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// SendMessage implements a2asrv.RequestHandler. It waits for the end of the task, unless the
// caller asks it not to or the wait takes too long.
func (c taskAPI) SendMessage(ctx context.Context, r *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	id, err := c.submit(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.Config == nil || !r.Config.ReturnImmediately {
		waiting, cancel := context.WithTimeout(ctx, maxTaskWait)
		defer cancel()
		for _, err := range c.watch(waiting, id, (*task).awaitsSender) {
			if err != nil && waiting.Err() == nil {
				return nil, err
			}
		}
	}
	t, err := c.task(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.toA2A(), nil
}

// SendStreamingMessage implements a2asrv.RequestHandler.
func (c taskAPI) SendStreamingMessage(ctx context.Context, r *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		id, err := c.submit(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		c.watch(ctx, id, (*task).awaitsSender)(yield)
	}
}

// SubscribeToTask implements a2asrv.RequestHandler.
func (c taskAPI) SubscribeToTask(ctx context.Context, r *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return c.watch(ctx, string(r.ID), (*task).isFinal)
}

// GetTask implements a2asrv.RequestHandler.
func (c taskAPI) GetTask(ctx context.Context, r *sdk.GetTaskRequest) (*sdk.Task, error) {
	t, err := c.task(ctx, string(r.ID))
	if err != nil {
		return nil, err
	}
	return t.toA2A(), nil
}

// CancelTask implements a2asrv.RequestHandler.
func (c taskAPI) CancelTask(ctx context.Context, r *sdk.CancelTaskRequest) (*sdk.Task, error) {
	if err := c.g.tasks.cancel(ctx, c.inbox, string(r.ID)); err != nil {
		return nil, err
	}
	return c.GetTask(ctx, &sdk.GetTaskRequest{ID: r.ID})
}

// maxTasks is the maximum length of a list of tasks.
const maxTasks = 100

// ListTasks implements a2asrv.RequestHandler. It lists the newest tasks first, of one context if
// the request names one.
func (c taskAPI) ListTasks(ctx context.Context, r *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	size := r.PageSize
	if size <= 0 || size > maxTasks {
		size = maxTasks / 2
	}
	var before int64 = 1 << 62
	if _, err := fmt.Sscan(r.PageToken, &before); r.PageToken != "" && err != nil {
		return nil, sdk.NewError(sdk.ErrInvalidParams, "this pageToken is invalid")
	}
	state := strings.ToLower(strings.TrimPrefix(string(r.Status), "TASK_STATE_"))
	const which = `WHERE inbox = ?1 AND (?2 = '' OR context = ?2) AND (?3 = '' OR state = ?3)`
	list := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, PageSize: size}
	err := store.Autocommit(ctx, c.g.store.db, func(tx *store.Tx) {
		list.TotalSize = store.Value[int](tx, `SELECT count(*) FROM task `+which, c.inbox, r.ContextID, state)
		tasks := store.All(tx, (*task).columns, taskColumns+which+` AND inbound < ?4 ORDER BY inbound DESC LIMIT ?5`,
			c.inbox, r.ContextID, state, before, size)
		for _, t := range tasks {
			if r.IncludeArtifacts {
				t = *loadTask(tx, c.inbox, t.ID)
			}
			list.Tasks = append(list.Tasks, t.toA2A())
			list.NextPageToken = fmt.Sprint(t.Inbound)
		}
	})
	if err != nil {
		return nil, err
	}
	if len(list.Tasks) < size {
		list.NextPageToken = ""
	}
	return list, nil
}
