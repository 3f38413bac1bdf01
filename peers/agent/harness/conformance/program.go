package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
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
	Only     string              // run only the cases whose name or title contains this
	Versions []attention.Version // default both drafts
	Timeout  time.Duration       // for an answer to a delivery and for a discharge; default 60 s
	Quiet    time.Duration       // how long nothing must happen before silence counts; default 2 s
	Dir      string              // the program's working folder
	Env      map[string]string   // added to its environment
	Log      *zerolog.Logger     // for its stderr
}

func (opts *Options) withDefaults() Options {
	o := defaults.Of(opts)
	if len(o.Versions) == 0 {
		o.Versions = Versions
	}
	defaults.Positive(&o.Timeout, time.Minute)
	defaults.Positive(&o.Quiet, 2*time.Second)
	return o
}

// Program checks a C2A program and reports each case. The error says why it
// could not be checked at all; failed cases are no error.
func Program(ctx context.Context, argv []string, opts *Options, report func(Verdict)) error {
	o := opts.withDefaults()
	for _, version := range o.Versions {
		r := &run{argv: argv, opts: o, version: version, chat: newChat(), id: rand.Text()[:8], report: report}
		if err := r.check(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A run checks one draft.
type run struct {
	argv    []string
	opts    Options
	version attention.Version
	chat    *chat
	id      string // makes event ids fresh
	report  func(Verdict)

	harness  *c2a.Harness
	caps     harness.Capabilities
	sequence atomic.Int64
	granted  sync.WaitGroup // deliveries after a claim
}

// wanted reports whether a case is to be run.
func (r *run) wanted(name, title string) bool { return strings.Contains(name+" "+title, r.opts.Only) }

// conclude reports a case, if it is wanted.
func (r *run) conclude(name, title string, problems ...string) {
	name = string(r.version) + "/" + name
	if r.wanted(name, title) {
		r.report(verdict(name, title, problems))
	}
}

// check runs every case of the draft.
func (r *run) check(ctx context.Context) error {
	r.harness = c2a.New(r.argv, &c2a.Options{
		Version: string(r.version), Info: c2a.Info{Name: "hubbub-conformance", Version: "1"},
		Dir: r.opts.Dir, Env: r.opts.Env, InitTimeout: r.opts.Timeout, Log: r.opts.Log,
	})
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.harness.Run(ctx, harness.Host{Tools: r.chat}) }()
	err := r.cases(ctx)
	stop()
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}

func (r *run) cases(ctx context.Context) error {
	const title = "initialize is answered with a draft and capabilities"
	patience, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout, fmt.Errorf("no answer to initialize in %s", r.opts.Timeout))
	defer cancel()
	caps, err := r.harness.Capabilities(patience)
	if errors.Is(err, harness.ErrPermanent) {
		return err
	}
	if err != nil {
		r.conclude("initialize", title, err.Error())
		return nil
	}
	r.caps = caps
	if caps.ProtocolVersion != string(r.version) {
		if r.wanted(string(r.version)+"/initialize", title) {
			r.report(Verdict{Case: string(r.version) + "/initialize", Title: title, Result: Skipped, Error: "the program chose the draft " + caps.ProtocolVersion})
		}
		return nil
	}
	r.conclude("initialize", title)
	r.chat.onClaim = func(id string) { r.granted.Go(func() { r.grant(ctx, id) }) }
	defer r.granted.Wait()
	if err := r.vectors(ctx); err != nil {
		return err
	}
	r.behaviours(ctx)
	return r.raw(ctx)
}

// deliver delivers an event of the chat once and waits for its acceptance.
func (r *run) deliver(ctx context.Context, e *harness.Event, attempt int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.opts.Timeout, fmt.Errorf("the delivery was not accepted in %s", r.opts.Timeout))
	defer cancel()
	_, err := r.harness.Turn(ctx, &harness.Turn{ID: fmt.Sprintf("%s#%d", e.EventID, attempt), Attempt: attempt, Event: *e}, nil)
	return err
}

// grant delivers a claimed event again, with its content.
func (r *run) grant(ctx context.Context, id string) {
	var e *harness.Event
	r.chat.look(id, func(s *said) {
		if s.claims == 1 && s.decision.Policy == attention.PolicyMayRespond {
			s.decision = attention.Granted(s.decision, inject(r.caps))
			e = r.event(s)
		}
	})
	if e == nil || !mode(r.caps, e.Mode) {
		return
	}
	if err := r.deliver(ctx, e, 1); err != nil {
		r.chat.look(id, func(s *said) { s.problems = append(s.problems, "after its claim: "+err.Error()) })
	}
}

// inject is what the program takes, as attention asks for it.
func inject(c harness.Capabilities) *attention.Capabilities {
	i := c.Injection
	return &attention.Capabilities{Immediate: i.Immediate, Buffered: i.Buffered, Notify: i.Notify, ToolMailbox: i.ToolMailbox, Digest: i.Digest}
}

// mode reports whether a mode is delivered to the program.
func mode(c harness.Capabilities, m string) bool {
	switch attention.Mode(m) {
	case attention.ModeImmediate, attention.ModeBuffered, attention.ModeNotify, attention.ModeDigest:
		return inject(c).Takes(attention.Mode(m))
	default:
		return false
	}
}

// event makes the delivery of an event from its decision.
func (r *run) event(s *said) *harness.Event {
	e, d := s.event, s.decision
	out := &harness.Event{
		EventID: s.id, Sequence: r.sequence.Add(1), CreatedAt: time.Now().UTC().Format(time.RFC3339Nano),
		Source: harness.Source{Platform: "conformance"},
		Conversation: harness.Conversation{
			ID: e.Conversation.ID, Kind: string(e.Conversation.Kind), StreamID: e.Conversation.StreamID,
			ThreadID: e.Conversation.ThreadID, Title: e.Conversation.Title,
		},
		Author:   harness.Author{ID: e.Author.ID, Kind: string(e.Author.Kind), DisplayName: e.Author.DisplayName},
		Mentions: e.Mentions, Recipient: e.Recipient, Directedness: string(d.Directedness),
		Policy: string(d.Policy), Reason: d.Reason, Priority: string(d.Priority), DeadlineMS: d.DeadlineMS,
		Mode: string(d.Injection), Context: d.Context, Role: "user", IdempotencyKey: s.id + ":checked",
		Digest: d.Injection == attention.ModeDigest,
	}
	if out.Conversation.Kind == "" {
		out.Conversation.Kind = "dm"
	}
	if d.Knock != nil {
		out.Knock = &harness.Knock{
			From: d.Knock.From, Where: d.Knock.Where, Directedness: string(d.Knock.Directedness), Policy: string(d.Knock.Policy),
			Priority: string(d.Knock.Priority), Topic: d.Knock.Topic, PullWith: d.Knock.PullWith,
		}
		return out
	}
	out.Content = []harness.Part{{Type: "text", Text: e.Text}}
	return out
}
