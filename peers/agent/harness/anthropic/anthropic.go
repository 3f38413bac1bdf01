package anthropic

import (
	"context"
	"errors"
	"net/http"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

// The environment variable of the key, and the standard endpoint and model.
const (
	KeyName        = "ANTHROPIC_API_KEY"
	DefaultBaseURL = "https://api.anthropic.com/v1"
	DefaultModel   = "claude-sonnet-4-5"
)

// apiVersion is the version of the API whose answers this package reads.
const apiVersion = "2023-06-01"

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

type model struct {
	name     string
	endpoint modelapi.Endpoint
}

func newModel(o *Options) *model {
	m := &model{name: o.Model, endpoint: modelapi.Endpoint{
		BaseURL: o.BaseURL, Path: "/messages", Key: o.Key, KeyName: KeyName,
		Idle: o.Idle, Client: o.Client, Now: o.Loop.Clock.Now,
		Sign: func(h http.Header, key string) {
			h.Set("Anthropic-Version", apiVersion)
			if key != "" {
				h.Set("X-Api-Key", key)
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
	return m
}

// Name returns the model's name.
func (m *model) Name() string { return m.name }

// Check says why the model cannot be asked, or nil. Other endpoints than
// Anthropic's may need no key.
func (m *model) Check() error {
	if err := m.endpoint.Check(); err != nil {
		return err
	}
	key, err := m.endpoint.Key()
	if err != nil {
		return err
	}
	if key == "" && m.endpoint.BaseURL == DefaultBaseURL {
		return errors.New("no key: set " + KeyName + ", or " + KeyName + "_FILE to a file that holds it")
	}
	return nil
}

// Stream asks once.
func (m *model) Stream(ctx context.Context, r *turnloop.Request, onText func(string)) (*turnloop.Reply, error) {
	stream, err := m.endpoint.Post(ctx, m.request(r))
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	if stream.Whole {
		return readWhole(stream, onText)
	}
	return readStream(stream, onText)
}
