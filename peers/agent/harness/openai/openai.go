package openai

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

// The environment variable of the key, and the standard endpoint and model.
const (
	KeyName        = "OPENAI_API_KEY"
	DefaultBaseURL = "https://api.openai.com/v1"
	DefaultModel   = "gpt-5-mini"
)

// Options are the optional settings. Nil is valid.
type Options struct {
	BaseURL string                 // includes /v1; default DefaultBaseURL
	Model   string                 // default DefaultModel
	Key     func() (string, error) // default: harness.KeyFrom(KeyName)
	Servers turnloop.Servers       // for MCP servers; default none
	Loop    turnloop.Options
	Idle    time.Duration // longest silence of a stream; default 90 s
	Client  *http.Client  // default: one that follows no redirects
}

// New makes the harness. It does no I/O.
func New(opts *Options) *turnloop.Loop {
	var o Options
	if opts != nil {
		o = *opts
	}
	return turnloop.New(newModel(&o), o.Servers, &o.Loop)
}

// model is one model behind one endpoint.
type model struct {
	name     string
	endpoint modelapi.Endpoint

	mu     sync.Mutex
	quirks quirks
}

// quirks are what this endpoint turned out not to take.
type quirks struct {
	limitName       string // "max_tokens" or "max_completion_tokens"
	noStreamOptions bool
}

func newModel(o *Options) *model {
	m := &model{name: o.Model, endpoint: modelapi.Endpoint{
		BaseURL: o.BaseURL, Path: "/chat/completions", Key: o.Key, KeyName: KeyName,
		Idle: o.Idle, Client: o.Client, Now: o.Loop.Clock.Now,
		Sign: func(h http.Header, key string) {
			if key != "" {
				h.Set("Authorization", "Bearer "+key)
			}
		},
	}}
	if m.name == "" {
		m.name = DefaultModel
	}
	if m.endpoint.BaseURL == "" {
		m.endpoint.BaseURL = DefaultBaseURL
	}
	if m.endpoint.Key == nil {
		m.endpoint.Key = harness.KeyFrom(KeyName)
	}
	m.quirks.limitName = "max_tokens"
	if m.official() {
		m.quirks.limitName = "max_completion_tokens"
	}
	return m
}

func (m *model) official() bool {
	return strings.HasPrefix(m.endpoint.BaseURL, "https://api.openai.com/")
}

// Name returns the model's name.
func (m *model) Name() string { return m.name }

// Check says why the model cannot be asked, or nil. Other endpoints than
// OpenAI's may need no key.
func (m *model) Check() error {
	if err := m.endpoint.Check(); err != nil {
		return err
	}
	key, err := m.endpoint.Key()
	if err != nil {
		return err
	}
	if key == "" && m.official() {
		return errors.New("no key: set " + KeyName + ", or " + KeyName + "_FILE to a file that holds it, or --base-url to an endpoint that needs none")
	}
	return nil
}

// Stream asks once; an endpoint that refuses a parameter by name is asked
// again without it.
func (m *model) Stream(ctx context.Context, r *turnloop.Request, onText func(string)) (*turnloop.Reply, error) {
	for {
		m.mu.Lock()
		q := m.quirks
		m.mu.Unlock()
		stream, err := m.endpoint.Post(ctx, m.request(r, q))
		if err != nil {
			if m.learn(q, err) {
				continue
			}
			return nil, err
		}
		defer stream.Close()
		if stream.Whole {
			return readWhole(stream, onText)
		}
		return readStream(stream, onText)
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
	case used.limitName == "max_completion_tokens" && !m.official() && strings.Contains(said, "max_completion_tokens"):
		m.quirks.limitName = "max_tokens"
	default:
		return false
	}
	return true
}
