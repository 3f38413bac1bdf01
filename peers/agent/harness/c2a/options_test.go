package c2a

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOptions_HaveDefaults(t *testing.T) {
	want := Options{Version: "2026-06-02", Info: Info{Name: "hubbub-agent", Version: "1"}, AnswerTimeout: 10 * time.Second, InitTimeout: time.Minute, Window: 64}
	if diff := cmp.Diff(want, (*Options)(nil).withDefaults(), cmpopts.IgnoreFields(Options{}, "Log")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
