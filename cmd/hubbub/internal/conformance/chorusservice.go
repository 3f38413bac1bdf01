package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/protocol/chorus"
	"hubbub/protocol/http1"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"
)

// A chorusAgent is an agent that the service knows.
type chorusAgent struct {
	name       string // in the channel
	connection string // its connection string, secret
}

// A chorusService is a Chorus service with channels for a run of the cases. It sends messages to
// agents, and records what comes to their callbacks.
type chorusService struct {
	url     string // where its callbacks are
	timeout time.Duration
	client  http.Client

	mu      sync.Mutex
	changed notify.Broadcast // at each event
	posts   int
	heard   []heardEvent
	faults  []string // events that the protocol does not have
	onHeard func(e *heardEvent)
}

// A heardEvent is an event that came to the callback of a post.
type heardEvent struct {
	agent string // its name
	post  int
	chorus.Event
	text string // of a message
}

// A chorusPost is a message from the service, as JSON.
type chorusPost struct {
	Channel  chorus.Channel `json:"channel"`
	Message  chorusMessage  `json:"message"`
	Callback string         `json:"callback,omitempty"`
}

type chorusMessage struct {
	ID         string `json:"id"`
	Sender     string `json:"sender"`
	SenderKind string `json:"senderKind,omitempty"`
	Content    string `json:"content"`
}

// maxCallback limits the body of a callback, in bytes.
const maxCallback = 4 << 20

// serveCallbacks serves the callbacks on a listener until ctx ends.
func (s *chorusService) serveCallbacks(ctx context.Context, listener net.Listener) {
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	_ = http1.Serve(ctx, listener, server, 0) // nothing is left to save
}

// ServeHTTP receives an event. Its path is /POST/AGENT.
func (s *chorusService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, agent, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	e := &heardEvent{agent: agent}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCallback))
	if err == nil {
		err = json.Unmarshal(body, &e.Event)
	}
	fault := eventFault(e, err)
	if r.Header.Get("Authorization") != "" {
		fault = "a callback needs no Authorization header: its URL is the credential"
	}
	_, unknown := fmt.Sscan(number, &e.post)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case unknown != nil || r.Method != http.MethodPost || e.post > s.posts:
		http.NotFound(w, r)
		return
	case e.Type == chorus.EventLifecycle: // an extension: a service may refuse it
		w.WriteHeader(http.StatusBadRequest)
		return
	case fault != "":
		s.faults = append(s.faults, agent+": "+fault)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.heard = append(s.heard, *e)
	s.changed.Notify()
	if s.onHeard != nil {
		s.onHeard(e)
	}
}

// eventFault says what is wrong with an event, or "". It sets the text of a message.
func eventFault(e *heardEvent, err error) string {
	missing := ""
	switch {
	case err != nil:
		return "a callback got a body that is not one JSON object: " + err.Error()
	case e.Type == chorus.EventMessage && (json.Unmarshal(e.Content, &e.text) != nil || e.text == ""):
		missing = "content"
	case e.Type == chorus.EventToolCall && e.Name == "":
		missing = "name"
	case e.Type == chorus.EventStatus && e.Status == "":
		missing = "status"
	case e.Type == chorus.EventError && e.Message == "":
		missing = "message"
	case !slices.Contains([]chorus.EventType{
		chorus.EventMessage, chorus.EventToolCall, chorus.EventToolResult, chorus.EventStatus, chorus.EventError,
		chorus.EventLifecycle,
	}, e.Type):
		return fmt.Sprintf("a callback got the type %q, which the protocol does not have", e.Type)
	}
	if missing == "" {
		return ""
	}
	return fmt.Sprintf("a callback got %s without %s", e.Type, missing)
}

// newPost numbers a post. Its callbacks belong to that number.
func (s *chorusService) newPost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts++
	return s.posts
}

// send POSTs a message to an agent. It returns the status of the answer.
func (s *chorusService) send(ctx context.Context, to *chorusAgent, post int, p chorusPost) (int, error) {
	p.Callback = fmt.Sprintf("%s/%d/%s", s.url, post, url.PathEscape(to.name))
	raw, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	return s.sendRaw(ctx, to.connection, raw)
}

// sendRaw POSTs a body to a connection string, and repeats the POST after a 5xx, as the protocol
// allows.
func (s *chorusService) sendRaw(ctx context.Context, connection string, body []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, connection, bytes.NewReader(body))
		if err != nil {
			return 0, withoutURL(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := s.client.Do(req)
		if err != nil {
			return 0, withoutURL(err)
		}
		resp.Body.Close() //nolint:errcheck // the body is ignored
		if resp.StatusCode < 500 || !retry.Sleep(ctx, time.Second) {
			return resp.StatusCode, nil
		}
	}
}

// messagesOf returns the messages that came to the callbacks of some posts.
func (s *chorusService) messagesOf(posts ...int) (list []heardEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.heard {
		if e.Type == chorus.EventMessage && slices.Contains(posts, e.post) {
			list = append(list, e)
		}
	}
	return list
}

// awaitMessage waits for a message at the callbacks of a post, by an agent ("" is any).
func (s *chorusService) awaitMessage(ctx context.Context, post int, agent string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no message within %s", s.timeout))
	defer cancel()
	for {
		s.mu.Lock()
		changed := s.changed.C()
		s.mu.Unlock()
		if slices.ContainsFunc(s.messagesOf(post), func(e heardEvent) bool { return agent == "" || e.agent == agent }) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitQuiet waits until no event has come for d.
func (s *chorusService) awaitQuiet(ctx context.Context, d time.Duration) {
	for {
		s.mu.Lock()
		changed := s.changed.C()
		s.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(d):
			return
		case <-ctx.Done():
			return
		}
	}
}
