package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"

	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

// The environment variable of the key, and the standard endpoint and model.
const (
	KeyName        = "OPENAI_API_KEY"
	DefaultBaseURL = "https://api.openai.com/v1"
	DefaultModel   = "gpt-5-mini"
)

var api = modelapi.API{
	KeyName: KeyName, BaseURL: DefaultBaseURL, Model: DefaultModel, Path: "/chat/completions",
	Sign: func(h http.Header, key string) {
		if key != "" {
			h.Set("Authorization", "Bearer "+key)
		}
	},
}

// New makes the harness. It does no I/O.
func New(opts *modelapi.Options) *turnloop.Loop {
	m := &model{Endpoint: modelapi.NewEndpoint(api, opts)}
	m.quirks.limitName = "max_tokens"
	if m.Official() {
		m.quirks.limitName = "max_completion_tokens"
	}
	return m.Loop(m)
}

// model is one model behind one endpoint.
type model struct {
	*modelapi.Endpoint

	mu     sync.Mutex
	quirks quirks
}

// quirks are what this endpoint turned out not to take.
type quirks struct {
	limitName       string // "max_tokens" or "max_completion_tokens"
	noStreamOptions bool
}

// Stream asks once; an endpoint that refuses a parameter by name is asked
// again without it.
func (m *model) Stream(ctx context.Context, r *turnloop.Request, onText func(string)) (*turnloop.Reply, error) {
	for {
		m.mu.Lock()
		q := m.quirks
		m.mu.Unlock()
		reply, err := m.Ask(ctx, m.request(r, q), &answer{byIndex: map[int]int{}}, onText)
		if err == nil || !m.learn(q, err) {
			return reply, err
		}
	}
}

// learn reports whether a refusal taught something about the endpoint, so that
// another request can succeed. Each lesson is learned once.
func (m *model) learn(used quirks, err error) bool {
	var refusal *turnloop.RequestError
	if !errors.As(err, &refusal) || refusal.Retry || refusal.TooLong {
		return false
	}
	said := refusal.Error()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !used.noStreamOptions && strings.Contains(said, "stream_options"):
		m.quirks.noStreamOptions = true
	case used.limitName == "max_tokens" && strings.Contains(said, "max_completion_tokens"):
		m.quirks.limitName = "max_completion_tokens"
	case used.limitName == "max_completion_tokens" && !m.Official() && strings.Contains(said, "max_completion_tokens"):
		m.quirks.limitName = "max_tokens"
	default:
		return false
	}
	return true
}
