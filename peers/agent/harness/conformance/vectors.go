package conformance

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// atOnce bounds the obligations that the program has at one time.
const atOnce = 8

// A trial is one vector in a run.
type trial struct {
	vector    *attention.Vector
	id        string
	delivered bool
	problems  []string
}

// vectors delivers every vector whose event reaches a model, puts the others
// where only tools find them, and judges each when all is quiet.
func (r *run) vectors(ctx context.Context) error {
	vectors, err := attention.Vectors()
	if err != nil {
		return err
	}
	var trials []*trial
	var obliged sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := range vectors {
		t := &trial{vector: &vectors[i]}
		if !r.wanted(caseName(r.version, t.vector), t.vector.Name) {
			continue
		}
		trials = append(trials, t)
		e := r.place(t)
		if e == nil {
			continue
		}
		if err := r.deliver(ctx, e, 1); err != nil {
			t.problems = append(t.problems, err.Error())
			continue
		}
		if e.Policy != string(attention.PolicyMustRespond) {
			continue
		}
		slots <- struct{}{}
		obliged.Go(func() {
			defer func() { <-slots }()
			if problem := r.awaitDischarge(ctx, t.id); problem != "" {
				t.problems = append(t.problems, problem)
			}
		})
	}
	obliged.Wait()
	r.chat.quiet(ctx, r.opts.Quiet)
	for _, t := range trials {
		r.judge(t)
	}
	return ctx.Err()
}

// place decides on a vector as the host and puts its event into the chat. It
// returns the delivery, or nil where the event is withheld.
func (r *run) place(t *trial) *harness.Event {
	v := t.vector
	t.id = fmt.Sprintf("%s.%s", v.Event.EventID, r.id)
	cfg := v.Config
	cfg.Version = r.version
	cfg.Inject = inject(r.caps)
	s := &said{event: &v.Event, id: t.id, decision: attention.Decide(v.Event, v.Self, v.Facts, cfg)}
	r.chat.add(s)
	if !mode(r.caps, string(s.decision.Injection)) {
		return nil
	}
	t.delivered = true
	e := r.event(s)
	if e.Recipient == "" && e.Directedness == string(attention.DirectedToMe) {
		e.Recipient = v.Self.ID
	}
	return e
}

// awaitDischarge waits for what a must_respond asks for.
func (r *run) awaitDischarge(ctx context.Context, id string) (problem string) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if !r.chat.await(ctx, id, discharged) {
		return fmt.Sprintf("must_respond was neither answered nor deferred nor settled in %s", r.opts.Timeout)
	}
	return ""
}

// judge reports a vector.
func (r *run) judge(t *trial) {
	r.chat.look(t.id, func(s *said) { t.problems = append(t.problems, silenceProblems(s)...) })
	title := t.vector.Name
	if !t.delivered {
		title += " (withheld)"
	}
	if name := caseName(r.version, t.vector); r.wanted(name, title) {
		r.report(verdict(name, title, t.problems))
	}
}

// silenceProblems says where a program spoke that had to be silent, or spoke
// twice. It is pure.
func silenceProblems(s *said) []string {
	problems := slices.Clone(s.problems)
	var texts []string
	for _, m := range s.sends {
		if !slices.Contains(texts, m.text) {
			texts = append(texts, m.text)
		}
	}
	switch {
	case len(texts) > 0 && !mayAnswer(s.decision.Policy):
		problems = append(problems, fmt.Sprintf("it answered an event with policy %s", s.decision.Policy))
	case len(texts) > 1:
		problems = append(problems, fmt.Sprintf("it gave %d different answers to one event", len(texts)))
	}
	return problems
}
