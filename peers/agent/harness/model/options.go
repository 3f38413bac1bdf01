package model

import (
	"context"
	"net/http"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/defaults"
	"hubbub/protocol/http1"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	BaseURL string                 // with the version, such as https://host/v1; default the provider's
	Model   string                 // default the provider's standard model
	Key     func() (string, error) // asked at each request, "" = send none; default none
	Servers Servers                // for MCP servers; default none: turns get no other tools than the agent's
	Idle    time.Duration          // longest silence of a stream; default 90 s
	Client  *http.Client           // default: one without redirects; its Timeout must be 0

	MaxRounds    int           // requests in one turn; default 16
	MaxTokens    int           // output tokens of one request; default 4096
	TokenBudget  int64         // input and output tokens of one turn; default 400,000
	Time         time.Duration // of one turn; default 5 m
	Retries      int           // repetitions of one request; default 5
	HistoryTurns int           // remembered of one conversation; default 20
	HistoryBytes int           // of them as JSON; default 64 KiB
	ResultBytes  int           // of one tool result; default 32 KiB
	History      *History      // default: nothing is remembered
	Log          *zerolog.Logger
}

// Servers connects to MCP servers; *mcptools.Pool does.
type Servers interface {
	// Run keeps connections until ctx ends, and closes them.
	Run(ctx context.Context) error
	// Tools returns the tools of those servers that can be reached, and an
	// error for each other one.
	Tools(ctx context.Context, servers []harness.MCPServer) (harness.Tools, []error)
}

func (o *Options) withDefaults(p provider) Options {
	out := defaults.Of(o)
	defaults.Set(&out.BaseURL, p.baseURL)
	defaults.Set(&out.Model, p.model)
	defaults.Set(&out.Key, func() (string, error) { return "", nil })
	defaults.Positive(&out.Idle, 90*time.Second)
	defaults.Set(&out.Client, newClient())
	defaults.Positive(&out.MaxRounds, 16)
	defaults.Positive(&out.MaxTokens, 4096)
	defaults.Positive(&out.TokenBudget, 400_000)
	defaults.Positive(&out.Time, 5*time.Minute)
	defaults.Positive(&out.Retries, 5)
	defaults.Positive(&out.HistoryTurns, 20)
	defaults.Positive(&out.HistoryBytes, 64<<10)
	defaults.Positive(&out.ResultBytes, 32<<10)
	defaults.Log(&out.Log)
	return out
}

// newClient makes a client that keeps keys from travelling to another place.
func newClient() *http.Client {
	return &http.Client{
		Transport:     http1.NewTransport(90 * time.Second),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
