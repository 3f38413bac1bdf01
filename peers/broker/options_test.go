package broker

import (
	"strings"
	"testing"
	"time"

	"hubbub/protocol/collab"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestOptions_HaveDefaults checks the documented times.
func TestOptions_HaveDefaults(t *testing.T) {
	want := Options{SweepInterval: time.Minute, StaleAfter: 30 * time.Minute, EndpointTimeout: 30 * time.Second, Keep: 90 * 24 * time.Hour, RetireAfter: 7 * 24 * time.Hour}
	got := (*Options)(nil).withDefaults()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Options{}, "Now", "OnReady", "Log")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Log == nil || time.Since(got.Now()) > time.Minute {
		t.Errorf("the log is %v, the time %v", got.Log, got.Now())
	}
	if kept := (&Options{Keep: -1}).withDefaults(); kept.Keep != -1 {
		t.Errorf("what is kept forever is kept for %v", kept.Keep)
	}
}

// TestQuestion_HasAnEventForEachStep checks that a subscriber sees which questions were asked,
// answered or changed.
func TestQuestion_HasAnEventForEachStep(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("cli:will", "question.ask", m{"id": "q", "title": "why?", "askedOfId": "lead"})
	d.do("agent:lead", "question.answer", m{"id": "q", "answer": "because"})
	d.do("cli:will", "question.reopen", m{"id": "q", "reason": "that is no reason"})
	var types []string
	for _, e := range d.log {
		if strings.HasPrefix(e.Type, "collab.question.") {
			types = append(types, e.Type)
		}
	}
	if diff := cmp.Diff([]string{collab.EventQuestionCreated.Name, collab.EventQuestionAnswered.Name, collab.EventQuestionUpdated.Name}, types); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.checkRebuild()
}

// TestWakeExplain_MentionsALaterWake checks a wake for an absent agent: the explanation says that
// the agent was absent and, once it has come, where it was woken.
func TestWakeExplain_MentionsALaterWake(t *testing.T) {
	d := newFixture(t)
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
	if why := d.do("cli:will", "wake.explain", m{"workItemId": "w"}); why["outcome"] != "unavailable" {
		t.Errorf("away, it is explained as %v", why)
	}
	d.do("agent:lead", "identity.announce", m{"endpointId": "e-late"})
	why := d.do("cli:will", "wake.explain", m{"workItemId": "w"})
	if why["outcome"] != "woken" || why.at("wake", "endpointId") != "e-late" {
		t.Errorf("when it has come, it is explained as %v", why)
	}
}
