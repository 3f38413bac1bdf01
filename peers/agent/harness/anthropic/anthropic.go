package anthropic

import (
	"context"
	"net/http"

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

var api = modelapi.API{
	KeyName: KeyName, BaseURL: DefaultBaseURL, Model: DefaultModel, Path: "/messages",
	Sign: func(h http.Header, key string) {
		h.Set("Anthropic-Version", apiVersion)
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	},
}

// New makes the harness. It does no I/O.
func New(opts *modelapi.Options) *turnloop.Loop {
	m := &model{modelapi.NewEndpoint(api, opts)}
	return m.Loop(m)
}

// model is one model behind one endpoint.
type model struct{ *modelapi.Endpoint }

// Stream asks once.
func (m *model) Stream(ctx context.Context, r *turnloop.Request, onText func(string)) (*turnloop.Reply, error) {
	return m.Ask(ctx, m.request(r), &answer{blocks: map[int]*gathered{}}, onText)
}
