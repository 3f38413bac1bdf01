package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/attention"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// Options are the optional settings of Program. Nil is valid.
type Options struct {
	Only     string              // run only cases whose name or title contains this
	Versions []attention.Version // default all drafts
	Timeout  time.Duration       `positive:"1m"` // for accepting a delivery and for a discharge
	Quiet    time.Duration       `positive:"2s"` // of inactivity before silence counts
	Env      map[string]string   // added to the program's environment
	Log      *zerolog.Logger     // takes the program's stderr
}

func (opts *Options) withDefaults() Options {
	o := defaults.Of(opts)
	if len(o.Versions) == 0 {
		o.Versions = Versions
	}
	return o
}

// Program checks a C2A program and reports each case. It fails only if the program cannot be
// checked at all.
func Program(ctx context.Context, argv []string, opts *Options, report func(Verdict)) error {
	o := opts.withDefaults()
	for _, version := range o.Versions {
		r := &checker{draft: draft{version, o, report}, argv: argv, chat: newChat(), runID: rand.Text()[:8]}
		if err := r.check(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A checker checks one draft.
type checker struct {
	draft
	argv  []string
	chat  *chatHost
	runID string // makes event IDs unique

	harness  *c2a.Harness
	caps     harness.Capabilities
	sequence atomic.Int64
	claims   sync.WaitGroup // deliveries that follow a claim
}

// errWithheld is the outcome of a delivery in a mode that the program does not support.
var errWithheld = errors.New("the program does not support this mode")

// check runs every case of the draft.
func (r *checker) check(ctx context.Context) error {
	r.harness = c2a.New(r.argv, &c2a.Options{
		Version: string(r.version), Info: c2a.Info{Name: "hubbub-conformance", Version: "1"},
		Env: r.opts.Env, InitTimeout: r.opts.Timeout, Log: r.opts.Log,
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.harness.Run(running, harness.Host{Tools: r.chat}) }()
	err := r.cases(running)
	stop()
	if failed := <-ended; failed != nil {
		return failed
	}
	if err != nil || r.caps.ProtocolVersion == "" { // it did not choose the draft
		return err
	}
	return r.raw(ctx) // the program may not be able to run twice at the same time
}

// cases runs the cases that share one run of the program. It sets caps if the program chose the draft.
func (r *checker) cases(ctx context.Context) error {
	const title = "initialize is answered with a draft and capabilities"
	waitCtx, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout,
		fmt.Errorf("no answer to initialize within %s", r.opts.Timeout))
	defer cancel()
	caps, err := r.harness.Capabilities(waitCtx)
	if errors.Is(err, harness.ErrPermanent) {
		return err
	}
	if err == nil && caps.ProtocolVersion != string(r.version) {
		err = skipError("the program chose the draft " + caps.ProtocolVersion)
	}
	r.reportCase("initialize", title, err)
	if err != nil {
		return nil
	}
	r.caps = caps
	r.chat.onClaim = func(id string) { r.claims.Go(func() { r.grant(ctx, id) }) }
	defer r.claims.Wait()
	if err := r.vectors(ctx); err != nil {
		return err
	}
	r.behaviours(ctx)
	return nil
}

// turnID identifies an attempt of a delivery.
func turnID(e *harness.Event, attempt int) string { return fmt.Sprintf("%s#%d", e.EventID, attempt) }

// deliver delivers an event once and waits until the program accepts it. If the program does not
// support the mode, deliver returns errWithheld.
func (r *checker) deliver(ctx context.Context, e *harness.Event, attempt int) error {
	switch m := attention.Mode(e.Mode); m {
	case attention.ModeImmediate, attention.ModeBuffered, attention.ModeNotify, attention.ModeDigest:
		if !r.caps.Injection.Supports(m) {
			return errWithheld
		}
	default:
		return errWithheld
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout,
		fmt.Errorf("the delivery was not accepted within %s", r.opts.Timeout))
	defer cancel()
	_, err := r.harness.Turn(ctx, &harness.Turn{ID: turnID(e, attempt), Attempt: attempt, Event: *e,
		System: attention.ResponseRules(r.version)}, nil)
	return err
}

// grant delivers a claimed event again, with its content.
func (r *checker) grant(ctx context.Context, id string) {
	var e *harness.Event
	r.chat.withEvent(id, func(s *eventRecord) {
		if s.claims == 1 && s.decision.Policy == attention.PolicyMayRespond {
			s.decision = attention.AfterClaim(s.decision, &r.caps.Injection)
			e = r.event(s)
		}
	})
	if e == nil {
		return
	}
	e.IdempotencyKey += ":granted" // the key of the knock is known
	if err := r.deliver(ctx, e, 1); err != nil && !errors.Is(err, errWithheld) {
		r.chat.withEvent(
			id,
			func(s *eventRecord) { s.problems = append(s.problems, fmt.Errorf("after its claim: %w", err)) },
		)
	}
}

// event makes the delivery of an event according to its decision.
func (r *checker) event(s *eventRecord) *harness.Event {
	e, d := &s.event, s.decision
	out := &harness.Event{
		EventID:        e.EventID,
		Sequence:       r.sequence.Add(1),
		Recipient:      e.Recipient,
		Role:           "user",
		IdempotencyKey: e.EventID + ":checked",
		ChatEvent: harness.ChatEvent{
			CreatedAt: time.Now().UTC().Format(time.RFC3339Nano), Source: harness.Source{Platform: "conformance"},
			Conversation: harness.Conversation{
				ID:       e.Conversation.ID,
				Kind:     cmp.Or(string(e.Conversation.Kind), "dm"),
				StreamID: e.Conversation.StreamID,
				ThreadID: e.Conversation.ThreadID,
				Title:    e.Conversation.Title,
			},
			Author:   harness.Author{ID: e.Author.ID, Kind: string(e.Author.Kind), DisplayName: e.Author.DisplayName},
			Mentions: e.Mentions, Signal: e.Signal,
		},
		Decision: harness.NewDecision(&d, d.Policy),
		Digest:   d.Injection == attention.ModeDigest,
		Knock:    d.Knock,
	}
	if o := e.Obligation; o != nil && r.version == attention.Version0811 {
		out.SetObligation(o, e.Recipients)
	}
	if d.Knock == nil {
		out.Content = []harness.Part{{Type: "text", Text: e.Text}}
	}
	return out
}
