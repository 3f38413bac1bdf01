package tg

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestOptions_Defaults checks the documented defaults, and that a negative number removes a
// limit.
func TestOptions_Defaults(t *testing.T) {
	want := Options{
		PollTimeout: 50 * time.Second, AlbumWait: 1500 * time.Millisecond, TypingHold: 30 * time.Second, MinSendInterval: time.Second,
		GroupPerMinute: 20, BotPerSecond: 30, MaxPending: 10_000, WebhookListen: "127.0.0.1:8443",
	}
	got := (*Options)(nil).withDefaults()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Options{}, "OnReady", "Log")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.OnReady() // the default does nothing
	lifted := (&Options{MinSendInterval: -1, GroupPerMinute: -1, BotPerSecond: -1}).withDefaults()
	if lifted.MinSendInterval != -1 || lifted.GroupPerMinute != -1 || lifted.BotPerSecond != -1 {
		t.Errorf("without limits there are %v, %d and %d", lifted.MinSendInterval, lifted.GroupPerMinute, lifted.BotPerSecond)
	}
}
