package agent

import (
	"testing"
	"time"

	"hubbub/peers/attention"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestOptions_HaveTheDocumentedDefaults also checks that each agent has a fence of its own, which
// cannot be guessed.
func TestOptions_HaveTheDocumentedDefaults(t *testing.T) {
	want := Options{
		Version: attention.Version0602, Budget: &attention.DefaultBudget, Returns: &attention.DefaultReturnIntervals, ComposeWindow: 2 * time.Second, ComposeCap: 30 * time.Second,
		Deadline: 5 * time.Minute, Escalation: attention.EscalationPolicy{Timeout: 10 * time.Minute}, DeferFor: 15 * time.Minute, Parallel: 8, MaxOpen: 1000, MaxAttempts: 3, Retention: 30 * 24 * time.Hour,
		ClaimTTL: 5 * time.Minute, StopGrace: time.Second, FirstRetry: 2 * time.Second, HarnessType: "scripted", WakePolicy: "auto",
	}
	got := (*Options)(nil).withDefaults()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Options{}, "Words", "Zone", "Fence", "OnReady", "OnIdle", "Log"), cmpopts.IgnoreUnexported(Options{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.OnReady() // the defaults do nothing
	got.OnIdle()
	if one, other := got.Fence(), got.Fence(); len(one) != 16 || one == other {
		t.Errorf("fences %q and %q", one, other)
	}
}
