package a2a

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/peers/attention"
	"hubbub/peers/netguard"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	sdklog "github.com/a2aproject/a2a-go/v2/log"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Harness. Nil is valid.
type Options struct {
	Token         func() (string, error) // returns the bearer token; "" means none; default none
	Transport     http.RoundTripper      // default: only public addresses
	InitTimeout   time.Duration          `positive:"30s"` // for reading the card
	CancelTimeout time.Duration          `positive:"5s"`  // for a canceled task to end
	Backoff       retry.Backoff          // between attempts to read the card; default 1 s to 60 s
	PollBackoff   retry.Backoff          // between polls of a task; default 1 s to 10 s
	Log           *zerolog.Logger
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Set(&out.Token, func() (string, error) { return "", nil })
	if out.Transport == nil {
		out.Transport = netguard.NewTransport(netguard.New(nil))
	}
	defaults.Set(&out.PollBackoff, retry.Backoff{Min: time.Second, Max: 10 * time.Second})
	defaults.Log(&out.Log)
	return out
}

// A Harness drives one remote agent.
type Harness struct {
	harness.Synchronous
	url           string
	opts          Options
	client        *http.Client
	supervisor    *subprocess.Supervisor[remoteAgent]
	conversations *lru.Cache[string, conversation] // keyed by Turn.ConversationKey
}

var _ harness.Harness = (*Harness)(nil)

// maxConversations is how many conversations are remembered.
const maxConversations = 1024

// A conversation is the remote agent's state of a conversation.
type conversation struct {
	context string
	rules   string     // the system prompt that the agent was given
	task    sdk.TaskID // the task that waits for an answer, if any
}

// A remoteAgent is the remote agent as its card describes it.
type remoteAgent struct {
	client       *a2aclient.Client
	images       bool
	streams      bool
	disconnected chan error // takes one error, after which the card is read again
}

// New makes a harness for the agent whose card is below address. It starts nothing.
func New(address string, opts *Options) *Harness {
	h := &Harness{
		url:           address,
		opts:          opts.withDefaults(),
		supervisor:    subprocess.NewSupervisor[remoteAgent](),
		conversations: harness.NewCache[string, conversation](maxConversations),
	}
	d := &transport{next: h.opts.Transport, token: h.opts.Token}
	if home, err := url.Parse(address); err == nil {
		d.origin = originOf(home)
	}
	h.client = &http.Client{
		Transport:     d,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return h
}

// Run reads the card, and reads it again whenever the connection to the agent is lost. It returns
// nil when ctx ends, and an error that wraps harness.ErrPermanent if the agent can never be
// reached.
func (h *Harness) Run(ctx context.Context, host harness.Host) error {
	h.Attach(host)
	return h.supervisor.Run(ctx, h.opts.Backoff, h.opts.Log, h.serve)
}

// serve reads the card and waits until the connection to the agent is lost.
func (h *Harness) serve(ctx context.Context) error {
	a, err := h.connect(withoutLogs(ctx))
	if err != nil {
		return h.describeError(err)
	}
	h.supervisor.SetCurrent(a)
	select {
	case err := <-a.disconnected:
		return h.describeError(err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// withoutLogs disables the library's log, which would contain messages.
func withoutLogs(ctx context.Context) context.Context {
	return sdklog.AttachLogger(ctx, slog.New(slog.DiscardHandler))
}

func (h *Harness) connect(ctx context.Context) (*remoteAgent, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.opts.InitTimeout,
		fmt.Errorf("its card did not arrive within %s", h.opts.InitTimeout))
	defer cancel()
	card, err := agentcard.NewResolver(h.client).Resolve(ctx, h.url)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("its card could not be read: %w", err)
	}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(),
		a2aclient.WithJSONRPCTransport(h.client), a2aclient.WithRESTTransport(h.client))
	if err != nil {
		return nil, fmt.Errorf("%w: its card has no address for A2A 1.0 by JSON-RPC or HTTP+JSON (%w)",
			harness.ErrPermanent, err)
	}
	sees := slices.ContainsFunc(
		card.DefaultInputModes,
		func(mode string) bool { return strings.HasPrefix(mode, "image/") },
	)
	return &remoteAgent{
		client:       client,
		images:       sees,
		streams:      card.Capabilities.Streaming,
		disconnected: make(chan error, 1),
	}, nil
}

// Capabilities waits for the card. Knocks and digests are not supported, since a remote agent has
// no tools.
func (h *Harness) Capabilities(ctx context.Context) (harness.Capabilities, error) {
	a, err := h.supervisor.Await(ctx)
	if err != nil {
		return harness.Capabilities{UsesSystemPrompt: true, OnlyEvent: true}, err
	}
	return harness.Capabilities{
		Injection: harness.Injection{
			Immediate:   true,
			Buffered:    true,
			ToolMailbox: true,
			Interrupt:   true,
		},
		Images:           a.images,
		UsesSystemPrompt: true,
		OnlyEvent:        true,
	}, nil
}

// Turn sends the event and waits until its task has ended. It uses no tools.
func (h *Harness) Turn(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
	a, err := h.supervisor.Await(ctx)
	if err != nil {
		return harness.Outcome{State: harness.Finished, Attempt: t.Attempt}, err
	}
	outcome, err := h.Begin(ctx, t)
	if err != nil || t.Event.Policy != string(attention.PolicyMustRespond) || t.Event.Knock != nil {
		return outcome, err
	}
	outcome.Usage = harness.Usage{Model: "a2a", Iterations: 1}
	x := &exchange{h: h, a: a, turn: t}
	for again := true; again; {
		again = x.run(withoutLogs(ctx))
	}
	outcome.FinalText = strings.TrimSpace(x.answer())
	return outcome, x.result(ctx)
}
