package conformance

import (
	"context"
	"errors"
	"fmt"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

func (r *checker) behaviours(ctx context.Context) {
	for _, b := range []struct {
		name, title string
		run         func(ctx context.Context, name string) error
	}{
		{"thanks", "a knock about an acknowledgement is not answered with a message", r.silentCase(r.makeKnock)},
		{"overheard", "a digest is not answered", r.silentCase(r.makeDigest)},
		{"redelivery", "an event that is delivered again is accepted and not answered again", r.redelivery},
		{"merged", "a merged turn is accepted and answered once", r.merged},
		{"edited", "an event with a new text and key is answered again", r.again(func(s *eventRecord) {
			s.event.Text = "Can you check whether the release is blocked?"
		})},
		{"deferred", "an event that comes back after a deferral, with a new key, is answered", r.again(nil)},
		{"granted", "an event that was knocked for is answered once its claim is granted, with a new key", r.granted},
		{"reaction", "a reaction to a message of the program is not answered", r.silentCase(func(s *eventRecord) {
			r.makeKnock(s)
			s.event.Signal = string(attention.SignalAgree)
		})},
		{"refused", "a refusal of a message is accepted", r.refusedMessage},
		{"cancelled", "the program keeps working after a delivery is cancelled", r.cancelled},
		{"burst", "many deliveries at once are all accepted", r.burst},
		{"alive", "after all of this, a question is still answered", r.alive},
	} {
		if r.isSelected(b.name, b.title) && ctx.Err() == nil {
			r.reportCase(b.name, b.title, b.run(ctx, b.name))
		}
	}
	r.chat.mu.Lock()
	stray, unmarked := errors.Join(r.chat.unknownEvents...), errors.Join(r.chat.unmarked...)
	r.chat.mu.Unlock()
	if !r.version.Flat() { // later drafts ask for neither
		r.reportCase("outbound", "the program's messages say their visibility and whom they oblige", unmarked)
	}
	r.reportCase("named", "the program's actions name events that were delivered to it", stray)
}

// checkedAgent is the agent that the program implements.
var checkedAgent = attention.Self{ID: "agent:lead"}

// question adds a direct question to the chat.
func (r *checker) question(name string, n int) *eventRecord {
	return r.addEvent(&attention.Vector{Self: checkedAgent, Event: attention.Event{
		EventID:      fmt.Sprintf("evt_%s_%d", name, n),
		Conversation: attention.Conversation{ID: "D-" + name, Kind: attention.ConversationDM},
		Author:       attention.Author{ID: "77", Kind: attention.AuthorHuman, DisplayName: "Will"},
		Text:         "Can you check whether the deploy is blocked?", Recipient: checkedAgent.ID,
	}})
}

// deliverAndWait delivers an event and waits until it is discharged.
func (r *checker) deliverAndWait(ctx context.Context, e *harness.Event, attempt int) error {
	if err := r.deliver(ctx, e, attempt); err != nil {
		return err
	}
	return r.awaitDischarge(ctx, e.EventID)
}

// settled waits until the program is quiet and returns what is wrong with its answers to an
// event.
func (r *checker) settled(ctx context.Context, id string) (wrong error) {
	r.chat.awaitQuiet(ctx, r.opts.Quiet)
	r.chat.withEvent(id, func(s *eventRecord) { wrong = silenceProblems(s) })
	return wrong
}

// silentCase returns a case with an event that must not be answered: a question modified by
// change.
func (r *checker) silentCase(change func(s *eventRecord)) func(ctx context.Context, name string) error {
	return func(ctx context.Context, name string) error {
		s := r.question(name, 1)
		change(s)
		if err := r.deliver(ctx, r.event(s), 1); err != nil {
			return err
		}
		return r.settled(ctx, s.event.EventID)
	}
}

// makeKnock turns a question into an acknowledgement that comes as a knock.
func (r *checker) makeKnock(s *eventRecord) {
	s.event.Text = "thanks!"
	s.decision = attention.Decide(s.event, checkedAgent, attention.Facts{}, attention.Config{Version: r.version})
	s.decision.Injection = attention.ModeNotify
	s.decision.Knock = &attention.Knock{
		From: "human:77", Where: "dm:D-thanks", Directedness: s.decision.Directedness, Policy: s.decision.Policy,
		Priority: s.decision.Priority, Topic: "an acknowledgement, short", PullWith: attention.PullThread,
	}
}

// makeDigest turns a question into a digest that contains a question for somebody else.
func (*checker) makeDigest(s *eventRecord) {
	s.event.Text = "3 messages in channel C1; the last: who can look at the deploy?"
	s.decision = attention.Decision{
		Directedness: attention.DirectedAmbient,
		Policy:       attention.PolicyMustNotRespond,
		Injection:    attention.ModeDigest,
		Priority:     attention.PriorityNormal,
		Reason:       "digest",
	}
}

func (r *checker) redelivery(ctx context.Context, name string) error {
	e := r.event(r.question(name, 1))
	for attempt := 1; attempt <= 3; attempt++ {
		if err := r.deliverAndWait(ctx, e, attempt); err != nil {
			return fmt.Errorf("attempt %d: %w", attempt, err)
		}
	}
	return r.settled(ctx, e.EventID)
}

// again returns a case with a question that is delivered again under another key before it has an
// answer, as after an edit or a deferral. change may be nil.
func (r *checker) again(change func(s *eventRecord)) func(ctx context.Context, name string) error {
	return func(ctx context.Context, name string) error {
		s := r.question(name, 1)
		s.refuse = true
		if err := r.deliver(ctx, r.event(s), 1); err != nil {
			return err
		}
		r.chat.awaitQuiet(ctx, r.opts.Quiet)
		r.chat.withEvent(s.event.EventID, func(s *eventRecord) {
			s.refuse, s.sends, s.settled = false, nil, false
			if change != nil {
				change(s)
			}
		})
		return r.deliverNew(ctx, s)
	}
}

// deliverNew delivers an event under another key, and waits until it is discharged.
func (r *checker) deliverNew(ctx context.Context, s *eventRecord) error {
	e := r.event(s)
	e.IdempotencyKey += ":new"
	if err := r.deliverAndWait(ctx, e, 1); err != nil {
		return err
	}
	return r.settled(ctx, e.EventID)
}

// granted knocks for a question, and delivers it with its content after a claim.
func (r *checker) granted(ctx context.Context, name string) error {
	s := r.question(name, 1)
	owed := s.decision
	r.makeKnock(s)
	s.decision.Policy, s.decision.Knock.Policy = attention.PolicyMayRespond, attention.PolicyMayRespond
	s.claims = 1 // no second grant
	if err := r.deliver(ctx, r.event(s), 1); err != nil {
		return err
	}
	r.chat.awaitQuiet(ctx, r.opts.Quiet)
	r.chat.withEvent(s.event.EventID, func(s *eventRecord) { s.sends, s.settled, s.decision = nil, false, owed })
	return r.deliverNew(ctx, s)
}

func (r *checker) alive(ctx context.Context, name string) error {
	e := r.event(r.question(name, 1))
	if err := r.deliverAndWait(ctx, e, 1); err != nil {
		return err
	}
	return r.settled(ctx, e.EventID)
}

func (r *checker) merged(ctx context.Context, name string) error {
	first, last := r.question(name, 1), r.question(name, 2)
	e := r.event(last)
	e.MergedEventIDs = []string{first.event.EventID, last.event.EventID}
	e.Content = []harness.Part{
		{Type: "text", Text: "Can you check"},
		{Type: "text", Text: "whether the deploy is blocked?"},
	}
	if err := r.deliverAndWait(ctx, e, 1); err != nil {
		return err
	}
	wrong := r.settled(ctx, e.EventID)
	r.chat.withEvent(first.event.EventID, func(s *eventRecord) {
		if len(s.sends) > 0 {
			wrong = errors.Join(wrong, errors.New("it answered a fragment in addition to the turn"))
		}
	})
	return wrong
}

// refusedMessage refuses the program's messages. The program may try again a few times, but not
// forever.
func (r *checker) refusedMessage(ctx context.Context, name string) (wrong error) {
	const tries = 5
	s := r.question(name, 1)
	s.refuse = true
	if err := r.deliverAndWait(ctx, r.event(s), 1); err != nil {
		return err
	}
	r.chat.awaitQuiet(ctx, r.opts.Quiet)
	r.chat.withEvent(s.event.EventID, func(s *eventRecord) {
		if wrong = errors.Join(s.problems...); len(s.sends) > tries {
			wrong = errors.Join(wrong, fmt.Errorf("it sent a refused message %d times", len(s.sends)))
		}
	})
	return wrong
}

func (r *checker) cancelled(ctx context.Context, name string) error {
	e := r.event(r.question(name, 1))
	if err := r.deliver(ctx, e, 1); err != nil {
		return err
	}
	r.harness.Cancel(turnID(e, 1), "Message was edited before response")
	return r.deliverAndWait(ctx, r.event(r.question(name, 2)), 1)
}

func (r *checker) burst(ctx context.Context, name string) error {
	const n = 20
	failures := make(chan error, n)
	var ids []string
	for i := range n {
		e := r.event(r.question(name, i))
		ids = append(ids, e.EventID)
		r.claims.Go(func() { failures <- r.deliver(ctx, e, 1) })
	}
	var wrong error
	for range n {
		wrong = errors.Join(wrong, <-failures)
	}
	if errors.Is(wrong, errWithheld) {
		return wrong
	}
	for _, id := range ids {
		if err := r.awaitDischarge(ctx, id); err != nil {
			return errors.Join(wrong, err)
		}
	}
	return wrong
}
