package model

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/defaults"
	"hubbub/protocol/http1"

	"github.com/rs/zerolog"
)

// The environment variables with the keys.
const (
	OpenAIKey    = "OPENAI_API_KEY"
	AnthropicKey = "ANTHROPIC_API_KEY"
)

// An Endpoint is the address and the model that a harness uses.
type Endpoint struct {
	KeyName string // environment variable of the key
	BaseURL string // including the version
	Model   string
}

// An API is a model API that this package supports.
type API struct {
	KeyName      string // environment variable of the key
	DefaultModel string
	New          func(*Options) *Harness
}

// APIs holds the APIs by the names of their harnesses.
var APIs = map[string]API{
	"openai":    {OpenAIKey, openaiModel, OpenAI},
	"anthropic": {AnthropicKey, anthropicModel, Anthropic},
}

// The models that are used if no other is named.
const (
	openaiModel    = "gpt-5-mini"
	anthropicModel = "claude-sonnet-4-5"
)

// A provider describes an API and its default endpoint.
type provider struct {
	endpoint    Endpoint
	path        string // of requests
	answerField string // the member with the model's text in an answer in one piece
}

// official reports whether an address is the provider's default.
func (p provider) official(baseURL string) bool {
	return strings.TrimRight(baseURL, "/") == p.endpoint.BaseURL
}

// A Harness runs the turns of one model behind one endpoint.
type Harness struct {
	harness.Synchronous
	provider
	dialect dialect
	opts    Options
}

var _ harness.Harness = (*Harness)(nil)

// OpenAI makes a harness for an endpoint of the chat completions API. It does no I/O.
func OpenAI(opts *Options) *Harness {
	p := provider{
		endpoint:    Endpoint{OpenAIKey, "https://api.openai.com/v1", openaiModel},
		path:        "/chat/completions",
		answerField: "choices",
	}
	h := newHarness(p, opts)
	o := &openai{official: p.official(h.opts.BaseURL), quirks: quirks{limitName: "max_tokens"}}
	if o.official {
		o.quirks.limitName = "max_completion_tokens"
	}
	h.dialect = o
	return h
}

// Anthropic makes a harness for an endpoint of the Messages API. It does no I/O.
func Anthropic(opts *Options) *Harness {
	h := newHarness(
		provider{
			endpoint:    Endpoint{AnthropicKey, "https://api.anthropic.com/v1", anthropicModel},
			path:        "/messages",
			answerField: "content",
		},
		opts,
	)
	h.dialect = anthropic{}
	return h
}

func newHarness(p provider, opts *Options) *Harness {
	return &Harness{provider: p, opts: opts.withDefaults(p)}
}

// Run keeps the connections to MCP servers until ctx ends. It fails immediately with
// harness.ErrPermanent if the model cannot be called.
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	if _, err := h.Capabilities(ctx); err != nil {
		return err
	}
	h.Attach(host)
	if h.opts.Servers == nil {
		<-ctx.Done()
		return nil
	}
	return h.opts.Servers.Run(ctx)
}

// Capabilities returns immediately, with every injection mode. It fails with harness.ErrPermanent
// if the model cannot be called.
func (h *Harness) Capabilities(context.Context) (harness.Capabilities, error) {
	if err := h.validate(); err != nil {
		return harness.Capabilities{UsesSystemPrompt: true}, fmt.Errorf("%w: %w", harness.ErrPermanent, err)
	}
	return harness.Capabilities{Injection: harness.AllInjection, Images: true, UsesSystemPrompt: true}, nil
}

// Turn sends requests to the model and runs its tools until it ends its turn.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	if _, err := h.Capabilities(ctx); err != nil {
		return harness.Outcome{State: harness.Finished, Attempt: t.Attempt}, err
	}
	outcome, err := h.Begin(ctx, t)
	if err != nil {
		return outcome, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.opts.Timeout,
		fmt.Errorf("%w: it took longer than %s", harness.ErrTimeout, h.opts.Timeout))
	defer cancel()

	conversation := t.ConversationKey()
	past := h.loadHistory(ctx, conversation)
	run := &execution{
		h:        h,
		turn:     t,
		tools:    h.collectTools(ctx, t, tools),
		messages: []message{{Role: roleUser, Text: t.Prompt, Images: t.Images}},
	}
	for _, messages := range past.Turns {
		run.history = append(run.history, messages...)
	}
	final, err := run.iterate(ctx)
	if err == nil || run.usage.ToolCalls > 0 {
		if run.history == nil { // the model did not accept the history
			past = historyDocument{}
		}
		h.saveHistory(ctx, conversation, past, run.messages)
	}
	outcome.Usage = run.usage
	outcome.Usage.Model = h.opts.Model
	if err != nil {
		return outcome, classifyError(ctx, err)
	}
	outcome.Tools = run.tools.names()
	outcome.FinalText, outcome.Truncated = strings.TrimSpace(final.Text), final.Truncated
	return outcome, nil
}

// classifyError decides whether a failed turn may be run again.
func classifyError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed *requestError
	switch {
	case !errors.As(err, &failed):
		return err
	case failed.Retry:
		return &harness.RetryLaterError{After: failed.RetryAfter, Err: err}
	default:
		return fmt.Errorf("%w: %w", harness.ErrPermanent, err)
	}
}

// collectTools combines the agent's tools and those of the turn's MCP servers. An unreachable
// server is reported and left out.
func (h *Harness) collectTools(ctx context.Context, t *harness.Turn, tools harness.Tools) *toolset {
	if h.opts.Servers == nil || len(t.MCP) == 0 {
		return newToolset(tools)
	}
	more, failures := h.opts.Servers.Tools(ctx, t.MCP, t.Approver)
	for _, err := range failures {
		h.opts.Log.Warn().Err(err).Str("turn", t.ID).Msg("MCP server unreachable; the turn runs without it")
		h.Report(
			harness.Progress{
				TurnID:  t.ID,
				Kind:    harness.ProgressStatus,
				Message: "an MCP server is unreachable; the turn continues without it",
			},
		) // without its address
	}
	merged := newToolset(tools, more)
	if merged.Omitted > 0 {
		h.opts.Log.Warn().Int("tools", merged.Omitted).Str("turn", t.ID).
			Msg("too many tools of MCP servers; the turn runs without the last of them")
	}
	return merged
}

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	BaseURL     string                 // including the version, such as https://host/v1; default the provider's
	Model       string                 // default the provider's default model
	Key         func() (string, error) // called for each request; "" sends no key; default none
	Servers     Servers                // connects to MCP servers; default none, so turns have only the agent's tools
	IdleTimeout time.Duration          `positive:"90s"` // maximum silence of a stream
	Client      *http.Client           // default: a client that follows no redirects; its Timeout must be 0

	MaxIterations int           `positive:"16"`     // requests in one turn
	TokenBudget   int64         `positive:"400000"` // input and output tokens of one turn
	Timeout       time.Duration `positive:"5m"`     // of one turn
	MaxTokens     int           `positive:"4096"`   // output tokens of one answer
	Retries       int           `positive:"5"`      // of one request
	HistoryTurns  int           `positive:"20"`     // remembered of one conversation
	HistoryBytes  int           `positive:"64<<10"` // of these turns as JSON
	History       *History      // default: nothing is remembered
	Log           *zerolog.Logger
}

// Servers connects to MCP servers. *mcptools.Pool implements it.
type Servers interface {
	// Run keeps connections until ctx ends, and then closes them.
	Run(ctx context.Context) error
	// Tools returns the tools of the reachable servers, and an error for each other server. If a
	// server asks something while a tool runs, the approver decides; without one, the question is
	// canceled.
	Tools(ctx context.Context, servers []harness.MCPServer, people harness.Approver) (harness.Tools, []error)
}

func (o *Options) withDefaults(p provider) Options {
	out := defaults.Of(o)
	defaults.Set(&out.BaseURL, p.endpoint.BaseURL)
	defaults.Set(&out.Model, p.endpoint.Model)
	defaults.Set(&out.Key, func() (string, error) { return "", nil })
	defaults.Set(&out.Client, newClient())
	defaults.Log(&out.Log)
	return out
}

// newClient makes a client that sends keys to no other place.
func newClient() *http.Client {
	return &http.Client{
		Transport:     http1.NewTransport(90 * time.Second),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
