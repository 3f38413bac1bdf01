package acp

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOptions_HaveDefaults(t *testing.T) {
	want := Options{Permission: PermitReading, InitTimeout: time.Minute, CancelTimeout: 10 * time.Second, MaxSessions: 64}
	if diff := cmp.Diff(want, (*Options)(nil).withDefaults(), cmpopts.IgnoreFields(Options{}, "Log")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestProcessPool_OneProcessForEachSetOfServers checks that the first set gets the main process
// and that a returning set gets its earlier one. With eight busy processes a further set waits;
// otherwise the least recently used idle one ends.
func TestProcessPool_OneProcessForEachSetOfServers(t *testing.T) {
	ps := &processPool{main: subprocess.NewSupervisor[agentProcess](), extra: map[string]*extraProcess{}}
	ended := make(chan string, 10)
	if _, err := ps.reserve("a"); !errors.Is(err, harness.ErrStopped) {
		t.Errorf("before it runs: %v", err)
	}
	ps.supervise = func(ctx context.Context, life *subprocess.Supervisor[agentProcess]) error {
		<-ctx.Done()
		ps.mu.Lock()
		defer ps.mu.Unlock()
		for key, o := range ps.extra {
			if o.supervisor == life {
				ended <- key
				return nil
			}
		}
		ended <- "left"
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); ps.wg.Wait() }()
	ps.ctx = ctx
	for range 2 {
		if o, err := ps.reserve("main"); o != nil || err != nil {
			t.Fatalf("the first set: %v, %v", o, err)
		}
	}
	var others []*extraProcess
	for i := range maxProcesses - 1 {
		o, err := ps.reserve(fmt.Sprint(i))
		if err != nil || o == nil || o.turns != 1 {
			t.Fatalf("set %d: %+v, %v", i, o, err)
		}
		others = append(others, o)
	}
	if again, err := ps.reserve("0"); err != nil || again != others[0] || again.turns != 2 {
		t.Errorf("a set that comes back: %+v, %v", again, err)
	}
	if o, err := ps.reserve("more"); o != nil || !errors.Is(err, harness.ErrTemporary) || len(ended) > 0 {
		t.Errorf("while all are at work: %v, %v, and %d ended", o, err, len(ended))
	}
	others[2].turns, others[1].turns = 0, 0
	if o, err := ps.reserve("more"); o == nil || err != nil {
		t.Errorf("while two are at rest: %v, %v", o, err)
	}
	<-ended
	if ps.extra["1"] != nil || ps.extra["2"] != others[2] || ps.extra["more"] == nil {
		t.Errorf("there are %v", ps.extra)
	}
}
