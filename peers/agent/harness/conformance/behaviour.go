package conformance

import (
	"context"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// behaviours runs the cases that are more than one event: what a host does
// when answers are late, messages change or actions are refused.
func (r *run) behaviours(ctx context.Context) {
	for _, b := range []struct {
		name, title string
		run         func(ctx context.Context, name string) []string
	}{
		{"thanks", "a knock about an acknowledgement is not answered with a message", r.thanks},
		{"overheard", "a digest is not answered", r.overheard},
		{"redelivery", "an event that is delivered again is accepted and not answered anew", r.redelivery},
		{"merged", "a merged turn is accepted and answered once", r.merged},
		{"refused", "a refused message is taken as it is", r.refusedMessage},
		{"cancelled", "a cancelled delivery leaves the program at work", r.cancelled},
		{"burst", "many deliveries at once are all accepted", r.burst},
		{"alive", "after all that, a question is still answered", r.alive},
	} {
		if name := string(r.version) + "/" + b.name; r.wanted(name, b.title) && ctx.Err() == nil {
			r.conclude(b.name, b.title, b.run(ctx, b.name)...)
		}
	}
	r.chat.mu.Lock()
	stray := r.chat.stray
	r.chat.mu.Unlock()
	r.conclude("named", "what the program does names an event that it was told of", stray...)
}

// question puts a direct question into the chat.
func (r *run) question(name string, n int) *said {
	s := &said{
		id: fmt.Sprintf("evt_%s_%d.%s", name, n, r.id),
		event: &attention.Event{
			Conversation: attention.Conversation{ID: "D-" + name, Kind: attention.ConversationDM},
			Author:       attention.Author{ID: "77", Kind: attention.AuthorHuman, DisplayName: "Will"},
			Text:         "Can you check whether the deploy is blocked?", Recipient: "agent:lead",
		},
	}
	s.event.EventID = s.id
	s.decision = attention.Decide(*s.event, attention.Self{ID: "agent:lead"}, attention.Facts{}, attention.Config{Version: r.version, Inject: inject(r.caps)})
	r.chat.add(s)
	return s
}

// ask delivers a question and waits until it is discharged.
func (r *run) ask(ctx context.Context, s *said) []string {
	e := r.event(s)
	if !mode(r.caps, e.Mode) {
		return nil // the program takes no content at all
	}
	if err := r.deliver(ctx, e, 1); err != nil {
		return []string{err.Error()}
	}
	if problem := r.awaitDischarge(ctx, s.id); problem != "" {
		return []string{problem}
	}
	return nil
}

// settledProblems waits for quiet and says what is wrong with an event.
func (r *run) settledProblems(ctx context.Context, id string) (problems []string) {
	r.chat.quiet(ctx, r.opts.Quiet)
	r.chat.look(id, func(s *said) { problems = silenceProblems(s) })
	return problems
}

// thanks delivers an acknowledgement as a knock, which hosts may do.
func (r *run) thanks(ctx context.Context, name string) []string {
	s := r.question(name, 1)
	s.event.Text = "thanks!"
	s.decision = attention.Decide(*s.event, attention.Self{ID: "agent:lead"}, attention.Facts{}, attention.Config{Version: r.version})
	s.decision.Injection = attention.ModeNotify
	s.decision.Knock = &attention.Knock{
		From: "human:77", Where: "dm:D-thanks", Directedness: s.decision.Directedness, Policy: s.decision.Policy,
		Priority: s.decision.Priority, Topic: "an acknowledgement, short", PullWith: attention.PullThread,
	}
	return r.overhear(ctx, s)
}

// overheard delivers a digest with a question in it that is not for the agent.
func (r *run) overheard(ctx context.Context, name string) []string {
	s := r.question(name, 1)
	s.event.Text = "3 messages in channel C1; the last: who can look at the deploy?"
	s.decision = attention.Decision{
		Directedness: attention.DirectedAmbient, Policy: attention.PolicyMustNotRespond, Injection: attention.ModeDigest,
		Priority: attention.PriorityNormal, Reason: "digest",
	}
	return r.overhear(ctx, s)
}

// overhear delivers what must not be answered.
func (r *run) overhear(ctx context.Context, s *said) []string {
	e := r.event(s)
	if !mode(r.caps, e.Mode) {
		return nil
	}
	if err := r.deliver(ctx, e, 1); err != nil {
		return []string{err.Error()}
	}
	return r.settledProblems(ctx, s.id)
}

func (r *run) redelivery(ctx context.Context, name string) []string {
	s := r.question(name, 1)
	e := r.event(s)
	if !mode(r.caps, e.Mode) {
		return nil
	}
	for attempt := 1; attempt <= 3; attempt++ {
		if err := r.deliver(ctx, e, attempt); err != nil {
			return []string{fmt.Sprintf("attempt %d: %v", attempt, err)}
		}
		if problem := r.awaitDischarge(ctx, s.id); problem != "" {
			return []string{problem}
		}
	}
	return r.settledProblems(ctx, s.id)
}

func (r *run) merged(ctx context.Context, name string) []string {
	first, last := r.question(name, 1), r.question(name, 2)
	e := r.event(last)
	if !mode(r.caps, e.Mode) {
		return nil
	}
	e.MergedEventIDs = []string{first.id, last.id}
	e.Content = []harness.Part{{Type: "text", Text: "Can you check"}, {Type: "text", Text: "whether the deploy is blocked?"}}
	if err := r.deliver(ctx, e, 1); err != nil {
		return []string{err.Error()}
	}
	if problem := r.awaitDischarge(ctx, last.id); problem != "" {
		return []string{problem}
	}
	problems := r.settledProblems(ctx, last.id)
	r.chat.look(first.id, func(s *said) {
		if len(s.sends) > 0 {
			problems = append(problems, "it answered a fragment beside the turn")
		}
	})
	return problems
}

// refusedMessage refuses what the program says: it may try again a few times,
// not for ever.
func (r *run) refusedMessage(ctx context.Context, name string) []string {
	const tries = 5
	s := r.question(name, 1)
	s.refuse = true
	if problems := r.ask(ctx, s); problems != nil {
		return problems
	}
	r.chat.quiet(ctx, r.opts.Quiet)
	var problems []string
	r.chat.look(s.id, func(s *said) {
		if problems = s.problems; len(s.sends) > tries {
			problems = append(problems, fmt.Sprintf("it sent %d times what was refused", len(s.sends)))
		}
	})
	return problems
}

func (r *run) cancelled(ctx context.Context, name string) []string {
	s := r.question(name, 1)
	e := r.event(s)
	if !mode(r.caps, e.Mode) {
		return nil
	}
	if err := r.deliver(ctx, e, 1); err != nil {
		return []string{err.Error()}
	}
	r.harness.Cancel(fmt.Sprintf("%s#1", s.id), "Message was edited before response")
	return r.ask(ctx, r.question(name, 2))
}

func (r *run) burst(ctx context.Context, name string) []string {
	const n = 20
	failures := make(chan error, n)
	for i := range n {
		s := r.question(name, i)
		e := r.event(s)
		if !mode(r.caps, e.Mode) {
			return nil
		}
		r.granted.Go(func() { failures <- r.deliver(ctx, e, 1) })
	}
	var problems []string
	for range n {
		if err := <-failures; err != nil {
			problems = append(problems, err.Error())
		}
	}
	for i := range n {
		if problem := r.awaitDischarge(ctx, fmt.Sprintf("evt_%s_%d.%s", name, i, r.id)); problem != "" {
			return append(problems, problem)
		}
	}
	return problems
}

func (r *run) alive(ctx context.Context, name string) []string {
	s := r.question(name, 1)
	if problems := r.ask(ctx, s); problems != nil {
		return problems
	}
	return r.settledProblems(ctx, s.id)
}
