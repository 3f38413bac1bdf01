package harness

import (
	"context"
	"sync"
)

// InTurn is the part that harnesses share whose turns end Finished. The zero
// value is ready; Run attaches its host.
type InTurn struct {
	mu     sync.Mutex
	report func(Progress)
}

// Attach has the host told of progress from now on.
func (i *InTurn) Attach(host Host) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.report = host.Progress
}

// Report tells the host of progress, if it wants to know.
func (i *InTurn) Report(p Progress) {
	i.mu.Lock()
	report := i.report
	i.mu.Unlock()
	if report != nil {
		report(p)
	}
}

// Begin has the attempt stored, and returns the outcome to be filled in. An
// error, also of a context that has ended, ends the turn.
func (*InTurn) Begin(ctx context.Context, t *Turn) (Outcome, error) {
	outcome := Outcome{State: Finished, Attempt: t.Attempt}
	if t.Attempted != nil {
		if err := t.Attempted(t.Attempt); err != nil {
			return outcome, err
		}
	}
	return outcome, context.Cause(ctx)
}

// Cancel does nothing: the context of a turn ends it.
func (*InTurn) Cancel(string, string) {}
