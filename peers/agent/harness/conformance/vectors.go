package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"hubbub/peers/attention"
)

// atOnce bounds the obligations that the program has at one time.
const atOnce = 8

// A trial is one vector in a run.
type trial struct {
	vector *attention.Vector
	id     string
	wrong  error
}

// vectors delivers every vector whose event reaches a model, leaves the others where
// only tools find them, and judges all of them once the program is quiet.
func (r *run) vectors(ctx context.Context) error {
	vectors, err := attention.Vectors()
	if err != nil {
		return err
	}
	var trials []*trial
	var obliged sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range vectors {
		v := &vectors[i]
		if !r.wanted(v.Event.EventID, v.Name) {
			continue
		}
		t := &trial{vector: v, id: v.Event.EventID + "." + r.id}
		trials = append(trials, t)
		s := r.place(t)
		if t.wrong = r.deliver(ctx, r.event(s), 1); t.wrong != nil || s.decision.Policy != attention.PolicyMustRespond {
			continue
		}
		slots <- struct{}{}
		obliged.Go(func() {
			defer func() { <-slots }()
			t.wrong = r.awaitDischarge(ctx, t.id)
		})
	}
	obliged.Wait()
	r.chat.quiet(ctx, r.opts.Quiet)
	for _, t := range trials {
		title := t.vector.Name
		if errors.Is(t.wrong, errWithheld) {
			t.wrong = nil
			title += " (withheld)"
		}
		r.chat.look(t.id, func(s *said) { t.wrong = errors.Join(t.wrong, silenceProblems(s)) })
		r.conclude(t.vector.Event.EventID, title, t.wrong)
	}
	return ctx.Err()
}

// place decides on a vector as the host and puts its event into the chat.
func (r *run) place(t *trial) *said {
	v := t.vector
	cfg := v.Config
	cfg.Version, cfg.Inject = r.version, inject(r.caps)
	s := &said{event: &v.Event, id: t.id, self: v.Self.ID, decision: attention.Decide(v.Event, v.Self, v.Facts, cfg)}
	r.chat.add(s)
	return s
}

// awaitDischarge waits until a must_respond is discharged.
func (r *run) awaitDischarge(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if !r.chat.await(ctx, id, discharged) {
		return fmt.Errorf("must_respond was neither answered nor deferred nor settled in %s", r.opts.Timeout)
	}
	return nil
}

// silenceProblems returns in what the program broke its silence, or answered twice. It
// is pure.
func silenceProblems(s *said) error {
	problems := slices.Clone(s.problems)
	texts := map[string]bool{}
	for _, m := range s.sends {
		texts[m.text] = true
	}
	switch {
	case len(texts) > 0 && !mayAnswer(s.decision.Policy):
		problems = append(problems, fmt.Errorf("it answered an event with policy %s", s.decision.Policy))
	case len(texts) > 1:
		problems = append(problems, fmt.Errorf("it gave %d different answers to one event", len(texts)))
	}
	return errors.Join(problems...)
}
