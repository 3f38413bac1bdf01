package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"hubbub/peers/attention"

	"golang.org/x/sync/errgroup"
)

// maxObliged is how many obligations the program has at once.
const maxObliged = 8

// A vectorRun is one vector in a run.
type vectorRun struct {
	*eventRecord
	name, title string
	wrong       error
}

// vectors delivers every vector whose event reaches a model. The others can be found only with
// tools. Once the program is quiet, vectors checks all of them.
func (r *checker) vectors(ctx context.Context) error {
	vectors, err := attention.Vectors()
	if err != nil {
		return err
	}
	var runs []*vectorRun
	var obliged errgroup.Group
	obliged.SetLimit(maxObliged)
	for i := range vectors {
		v := &vectors[i]
		if !r.isSelected(v.Event.EventID, v.Title()) {
			continue
		}
		t := &vectorRun{eventRecord: r.addEvent(v), name: v.Event.EventID, title: v.Title()}
		runs = append(runs, t)
		must := t.decision.Policy == attention.PolicyMustRespond // read it now: a claim may change it later
		if t.wrong = r.deliver(ctx, r.event(t.eventRecord), 1); t.wrong != nil || !must {
			continue
		}
		obliged.Go(func() error {
			t.wrong = r.awaitDischarge(ctx, t.event.EventID)
			return nil
		})
	}
	obliged.Wait() //nolint:errcheck // it returns nil
	r.chat.awaitQuiet(ctx, r.opts.Quiet)
	for _, t := range runs {
		if errors.Is(t.wrong, errWithheld) {
			t.wrong = nil
			t.title += " (withheld)"
		}
		r.chat.withEvent(t.event.EventID, func(s *eventRecord) { t.wrong = errors.Join(t.wrong, silenceProblems(s)) })
		r.reportCase(t.name, t.title, t.wrong)
	}
	return ctx.Err()
}

// addEvent decides on an event as the host, gives it a unique ID, and adds it to the chat.
func (r *checker) addEvent(v *attention.Vector) *eventRecord {
	cfg := v.Config
	cfg.Version, cfg.Inject = r.version, &r.caps.Injection
	s := &eventRecord{event: v.Event, decision: attention.Decide(v.Event, v.Self, v.Facts, cfg)}
	s.event.EventID += "." + r.runID
	if s.decision.AddressedToMe() {
		s.event.Recipient = cmp.Or(s.event.Recipient, v.Self.ID)
	}
	r.chat.add(s)
	return s
}

// awaitDischarge waits until a must_respond event is discharged.
func (r *checker) awaitDischarge(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if !r.chat.awaitDischarged(ctx, id) {
		return fmt.Errorf("must_respond was not answered, deferred or settled within %s", r.opts.Timeout)
	}
	return nil
}

// silenceProblems returns where the program spoke when it had to be silent, or answered twice.
func silenceProblems(s *eventRecord) error {
	problems := slices.Clone(s.problems)
	texts := map[string]bool{}
	for _, m := range s.sends {
		texts[m.text] = true
		if m.text != "" && attention.VisibleText(m.text) == "" {
			problems = append(problems, errors.New("its answer holds only its instructions, thoughts or calls"))
		}
	}
	switch {
	case len(texts) > 0 && !mayAnswer(s.decision.Policy):
		problems = append(problems, fmt.Errorf("it answered an event with policy %s", s.decision.Policy))
	case len(texts) > 1:
		problems = append(problems, fmt.Errorf("it gave %d different answers to one event", len(texts)))
	}
	return errors.Join(problems...)
}
