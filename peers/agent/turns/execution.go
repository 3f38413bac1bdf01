package turns

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/budget"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// errDeadline is the cancellation cause of turns that take too long.
var errDeadline = errors.New("the deadline has passed")

// ErrWithdrawn is the cancellation cause of turns that restart.
var ErrWithdrawn = errors.New("the message was edited, deleted or continued before a response")

// An execution is one run of a turn.
type execution struct {
	threadKey string // blocked while the turn runs; empty if none is
	chat      protocol.Topic
	cancel    context.CancelCauseFunc
	accepted  bool // by a program; other turns of its thread may start
}

// executions are the turns with running goroutines.
type executions struct {
	mu   sync.Mutex // guards the fields below
	byID map[string]*execution
	// entering has, by thread, a channel that is closed when the thread's last turn has reached
	// the harness.
	entering map[string]chan struct{}
}

// update changes the executions under their lock.
func (rs *executions) update(change func(byID map[string]*execution)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	change(rs.byID)
}

// stop cancels an execution. running reports whether its goroutine is running, and tell whether
// the harness must be notified because a program may have the turn.
func (rs *executions) stop(id string, why error) (running, tell bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[id]
	if r != nil {
		r.cancel(why)
	}
	return r != nil, r == nil || r.accepted
}

// busy counts the turns that were not accepted, in all chats and in one.
func (rs *executions) busy(chat protocol.Topic) (all, there int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.byID {
		if r.accepted {
			continue
		}
		if all++; r.chat == chat {
			there++
		}
	}
	return all, there
}

// full explains why no more turns may start in a chat, or returns "". One chat gets at most half
// of the turns, so that a hanging one leaves room for others.
func full(all, there, most int) string {
	switch half := max(1, most/2); {
	case all >= most:
		return "the limit of " + text.Counted(most, "running turn") + " is reached"
	case there >= half:
		return "the limit of " + text.Counted(half, "running turn") + " in one chat is reached"
	default:
		return ""
	}
}

// holder returns the turn that blocks a thread, or "". A turn blocks itself until its goroutine
// has ended.
func (rs *executions) holder(place, turnID string) string {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.byID[turnID] != nil {
		return turnID
	}
	for id, r := range rs.byID {
		if r.threadKey == place && !r.accepted {
			return id
		}
	}
	return ""
}

// enqueue queues a turn behind the previous turn of its thread. The turn waits until after is
// closed, unless it is nil. It calls entered, at least once, when the harness delivers it or it
// has ended.
func (rs *executions) enqueue(place string) (after <-chan struct{}, entered func()) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	mine := make(chan struct{})
	after = rs.entering[place]
	rs.entering[place] = mine
	return after, sync.OnceFunc(func() {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		if rs.entering[place] == mine {
			delete(rs.entering, place)
		}
		close(mine)
	})
}

// Stop stops a turn that the harness has, because of an event in its chat.
func (r *Runner) Stop(turnID, reason string) { r.stop(turnID, errors.New(reason)) }

// stop reports whether the turn's goroutine is still running.
func (r *Runner) stop(id string, why error) bool {
	running, tell := r.executions.stop(id, why)
	if tell {
		r.harness.Cancel(id, why.Error())
	}
	return running
}

// stop is like Runner.stop, unless the iteration has failed.
func (r *iteration) stop(id string, why error) (running bool) {
	return r.Err() == nil && r.Runner.stop(id, why)
}

// stopWithdrawn stops withdrawn turns. It requeues those without a goroutine; the goroutines
// requeue the others.
func (r *iteration) stopWithdrawn() {
	for _, t := range r.TurnsIn(mailbox.TurnWithdrawn) {
		if r.Err() != nil {
			return
		}
		running, tell := r.executions.stop(t.ID, ErrWithdrawn)
		switch {
		case !running: // its goroutine may have just requeued it
			r.inTurn("stopping the turn "+t.ID, t.ID, mailbox.TurnWithdrawn, func(tx *mailbox.Tx, t *mailbox.Turn) {
				r.harness.Cancel(t.ID, ErrWithdrawn.Error())
				requeue(tx, t)
			})
		case tell:
			r.harness.Cancel(t.ID, ErrWithdrawn.Error())
		}
	}
}

// requeue queues a withdrawn turn again.
func requeue(tx *mailbox.Tx, t *mailbox.Turn) {
	t.Deadline = time.Time{}
	tx.MoveTurn(t, mailbox.TurnQueued, "", protocol.TurnCost{})
}

// startTurns starts the due turns whose threads are free, most urgent first.
func (r *iteration) startTurns() {
	now := time.Now()
	noted := r.waiting
	r.waiting = map[string]bool{}
	for _, t := range r.TurnsIn(mailbox.TurnQueued) {
		urgent := t.Rank == mailbox.RankUrgent
		holder := r.executions.holder(t.ThreadKey, t.ID)
		all, there := r.executions.busy(t.Chat)
		wait := full(all, there, r.opts.Parallel)
		switch {
		case t.NotBefore.After(now):
			r.schedule(t.NotBefore)
		case wait != "" && !urgent: // the end of a turn causes another iteration
			if r.waiting[t.ID] = true; !noted[t.ID] && holder == "" {
				r.inTurn("recording that the turn "+t.ID+" waits", t.ID, mailbox.TurnQueued,
					func(tx *mailbox.Tx, t *mailbox.Turn) { tx.RecordWaiting(t, wait) })
			}
		case holder != "" && urgent && r.caps.Injection.Interrupt:
			r.preempt(holder)
		case holder == "":
			r.startTurn(t.ID)
		}
	}
}

// preempt stops a running turn that has sent nothing in favor of an urgent one. It runs again
// afterwards.
func (r *iteration) preempt(id string) {
	r.inTurn("stopping the turn "+id, id, mailbox.TurnRunning, func(tx *mailbox.Tx, t *mailbox.Turn) {
		if !t.Outbound && !tx.AwaitsDecision(t.ID) && t.Rank != mailbox.RankUrgent {
			r.Notify()
			tx.MoveTurn(t, mailbox.TurnWithdrawn, "preempted by an urgent event", protocol.TurnCost{})
		}
	})
}

// A task is a turn that is being executed.
type task struct {
	turn     *mailbox.Turn
	delivery *harness.Turn
	prompt   *attention.Prompt // without its files, which are fetched during the execution; nil for a digest
	parts    []*mailbox.Entry  // the events of the prompt
	earlier  []*mailbox.Entry  // the events of its context that have files
	images   bool              // the model accepts images
	origin   *mailbox.Origin   // of a wake, else empty; nil for a digest
	version  attention.Version
}

// startTurn durably marks a turn as running and passes it to the harness.
func (r *iteration) startTurn(id string) {
	var j *task
	r.inTurn("starting the turn "+id, id, mailbox.TurnQueued, func(tx *mailbox.Tx, t *mailbox.Turn) {
		j = &task{turn: t, version: r.config().Version, images: r.caps.Images}
		carrier := r.prepare(tx, j)
		if j.delivery == nil {
			return
		}
		if bound, ok := budget.Check(tx, t, carrier, r.opts.Budget); !ok {
			j.delivery = nil
			if bound != "" { // an operator can reset the budget
				tx.OnCommit(func() { r.failures.record(r.opts.Log, t.ID, bound) })
			}
			return
		}
		t.Attempt, t.StartedAt = t.Attempt+1, time.Now()
		if t.Failures == 0 || t.Deadline.IsZero() { // all attempts of a failing turn share a deadline
			t.Deadline = t.StartedAt.Add(r.opts.Attention.Deadline)
		}
		j.delivery.Attempt, j.delivery.Event.Interrupted = t.Attempt, !t.InterruptedAt.IsZero()
		t.InterruptedAt = time.Time{}
		if carrier != nil {
			j.origin = &carrier.Origin
			r.broker.Started(tx, carrier)
		}
		tx.MoveTurn(t, mailbox.TurnRunning, "", protocol.TurnCost{})
	})
	if r.Err() != nil || j == nil || j.delivery == nil {
		return
	}
	r.opts.Failpoint("started")
	turnCtx, cancel := context.WithCancelCause(r.work)
	held := &execution{threadKey: j.turn.ThreadKey, chat: j.turn.Chat, cancel: cancel}
	var after <-chan struct{}
	entered := func() {}
	if r.opts.Async {
		held.threadKey = "" // the program accepts several turns of a thread, in order
		after, entered = r.executions.enqueue(j.turn.ThreadKey)
	}
	r.executions.update(func(byID map[string]*execution) { byID[id] = held })
	r.opts.OnTurnStart()
	r.wg.Go(func() {
		defer r.Notify()
		defer cancel(nil)
		defer entered()
		r.runTurn(turnCtx, j, after, entered)
	})
}

// runTurn runs a turn through the harness and settles its outcome.
func (r *Runner) runTurn(ctx context.Context, j *task, after <-chan struct{}, entered func()) {
	t := j.turn
	ctx, cancel := context.WithDeadlineCause(ctx, t.Deadline, errDeadline)
	defer cancel()
	defer r.executions.update(func(byID map[string]*execution) { delete(byID, t.ID) })
	box := r.tools.ForTurn(t)
	j.delivery.Attempted = func(attempt int) error {
		box.SetAttempt(attempt)
		defer entered()
		return r.recordAttempt(ctx, t, attempt)
	}
	if r.opts.Approver != nil {
		j.delivery.Approver = r.opts.Approver(t)
	}
	r.finishPrompt(ctx, j)
	j.delivery.System, j.delivery.Contract = r.system(ctx, j)
	if after != nil {
		select {
		case <-after:
		case <-ctx.Done():
		}
	}
	outcome, err := r.harness.Turn(ctx, j.delivery, box)
	r.opts.Failpoint("returned")
	if err == nil && outcome.State == harness.Accepted {
		r.executions.update(func(byID map[string]*execution) { byID[t.ID].accepted = true })
	}
	settled := context.WithoutCancel(ctx)
	for try := 1; ; try++ { // until the outcome is stored
		stored := r.settle(settled, t.ID, box, outcome, err)
		if stored == nil {
			return
		}
		r.opts.Log.Error().Err(stored).Str("turn", t.ID).Msg("storing the end of a turn failed; trying again")
		if errors.Is(context.Cause(ctx), ErrStopping) || !retry.Sleep(settled, time.Second) || try > 60 {
			return // the next start recovers the turn
		}
	}
}

// recordAttempt records that the harness delivers a turn again.
func (r *Runner) recordAttempt(ctx context.Context, t *mailbox.Turn, attempt int) error {
	if attempt <= t.Attempt {
		return nil
	}
	return r.mailbox.InTx(context.WithoutCancel(ctx), func(tx *mailbox.Tx) {
		if fresh := tx.Turn(t.ID); fresh != nil && fresh.Attempt < attempt {
			t.Attempt = attempt
			tx.RecordAttempt(fresh, attempt)
		}
	})
}
