package mx

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/protocol/timetest"
)

// TestTypingList_ShowsWhoTypes checks when somebody is shown as typing: at once, again while they
// continue, and no longer once the last one in a room has stopped or the time limit has passed.
func TestTypingList_ShowsWhoTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards shown
		var shown []string
		list := newTypingList(typingRefresh, func(_ context.Context, who typist, typing bool) {
			name := who.name
			if !typing {
				name = "nobody"
			}
			mu.Lock()
			defer mu.Unlock()
			shown = append(shown, who.room+" "+name)
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- list.run(ctx) }()
		step := func(wait time.Duration, want ...string) {
			t.Helper()
			timetest.Advance(wait)
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(shown); !slices.Equal(shown, want) {
				t.Errorf("shown: %q, want %q", shown, want)
			}
			shown = nil
		}
		is := func(name string) func(typist) bool {
			return func(who typist) bool { return who.name == name }
		}
		list.start(typist{"a", "lead"})
		step(0, "a lead")
		list.start(typist{"a", "lead"})
		list.start(typist{"a", "second"})
		list.start(typist{"b", "lead"})
		step(0, "a second", "b lead")
		step(typingRefresh, "a lead", "a second", "b lead")
		list.end(is("second"))
		step(0)
		list.end(is("lead"))
		step(0, "a nobody", "b nobody")
		list.end(is("lead"))
		step(time.Hour)
		list.start(typist{"a", "lead"})
		list.end(is("lead"))
		list.start(typist{"a", "lead"})
		step(0, "a lead")
		timetest.Advance(maxTyping)
		mu.Lock()
		if text := strings.Join(shown, ","); !strings.HasSuffix(text, "a lead,a nobody") {
			t.Errorf("in the longest time, shown: %s", text)
		}
		shown = nil
		mu.Unlock()
		for i := range maxTypists + 5 {
			list.start(typist{fmt.Sprint(i), "lead"})
		}
		timetest.Advance(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(shown) != maxTypists {
			t.Errorf("%d are shown, want %d", len(shown), maxTypists)
		}
		cancel()
		<-done
	})
}
