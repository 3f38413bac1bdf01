package mailbox_test

import (
	"slices"
	"testing"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
)

var states = []mailbox.State{
	mailbox.Stored, mailbox.Held, mailbox.Turned, mailbox.Kept, mailbox.Deferred, mailbox.Answered,
	mailbox.Responded, mailbox.Acknowledged, mailbox.Ignored, mailbox.Superseded, mailbox.Failed,
}

// TestTransitions checks that a final disposition is followed only by the offer of a released
// claim or by the merge with a later message, that every open state can end, that a queued answer
// is neither deferred, repeated nor superseded, and that an event without a decision is not acted on.
func TestTransitions(t *testing.T) {
	ends := []mailbox.Cause{mailbox.Respond, mailbox.Fail}
	for _, s := range states {
		open := (&mailbox.Status{State: s}).Open()
		for cause := range mailbox.Transitions {
			if to, ok := mailbox.Next(s, cause); ok && (!open && (cause != mailbox.Regain && cause != mailbox.Include || s != mailbox.Ignored) || !slices.Contains(states, to)) {
				t.Errorf("%s becomes %s by %s", s, to, cause)
			}
		}
		for _, cause := range ends {
			if _, ok := mailbox.Next(s, cause); ok != open {
				t.Errorf("%s by %s: %v", s, cause, ok)
			}
		}
	}
	for s, causes := range map[mailbox.State][]mailbox.Cause{
		mailbox.Answered: {mailbox.Hold, mailbox.Join, mailbox.Reopen, mailbox.ClaimEvent, mailbox.Defer, mailbox.Answer, mailbox.Acknowledge, mailbox.Ignore, mailbox.Supersede},
		mailbox.Stored:   {mailbox.Join, mailbox.ClaimEvent, mailbox.Defer, mailbox.Answer},
	} {
		for _, cause := range causes {
			if to, ok := mailbox.Next(s, cause); ok {
				t.Errorf("%s becomes %s by %s", s, to, cause)
			}
		}
	}
	for _, d := range []attention.Disposition{
		attention.DispositionResponded, attention.DispositionAcknowledged, attention.DispositionDeferred, attention.DispositionClaimed,
		attention.DispositionIgnored, attention.DispositionSuperseded, attention.DispositionFailed,
	} {
		if to, ok := mailbox.Next(mailbox.Turned, mailbox.Cause(d)); !ok || d.Final() && to != mailbox.State(d) {
			t.Errorf("a shown event that ends %s becomes %q", d, to)
		}
	}
}

// TestDispositionOfAState checks the disposition that others see for each state.
func TestDispositionOfAState(t *testing.T) {
	for s, want := range map[mailbox.Status]attention.Disposition{
		{State: mailbox.Turned}:                 "",
		{State: mailbox.Turned, Claimed: true}:  attention.DispositionClaimed,
		{State: mailbox.Deferred}:               attention.DispositionDeferred,
		{State: mailbox.Ignored, Claimed: true}: attention.DispositionIgnored,
	} {
		if got := s.Disposition(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
