package turns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// errDeadline is the cause with which a turn ends that took too long.
var errDeadline = errors.New("the deadline has passed")

// errWithdrawn is the cause with which a turn ends that begins anew.
var errWithdrawn = errors.New("the message was edited, deleted or continued before a response")

// A execution is a turn in the hands of the harness.
type execution struct {
	threadKey string // held while the turn runs; empty: none
	chat      protocol.Topic
	cancel    context.CancelCauseFunc
	accepted  bool // a program has it; its place is free for others
}

// executions are the turns that goroutines are at.
type executions struct {
	mu   sync.Mutex // guards the fields below
	byID map[string]*execution
	// entering are closed when the last turn of a place is with the harness, by place.
	entering map[string]chan struct{}
}

// update changes the runs under their lock.
func (rs *executions) update(change func(byID map[string]*execution)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	change(rs.byID)
}

// stop ends the context of a run, if a goroutine is at it, and reports whether the
// harness must be told, because a program may have the turn.
func (rs *executions) stop(id string, why error) (running, tell bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[id]
	if r != nil {
		r.cancel(why)
	}
	return r != nil, r == nil || r.accepted
}

// busy counts the turns that have not been accepted, in all chats and in one.
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

// full says why no more turns may start in a chat of which that many run, or returns "": one
// chat gets at most half of them, so that one that hangs leaves the others room.
func full(all, there, most int) string {
	switch half := max(1, most/2); {
	case all >= most:
		return fmt.Sprintf("all %d turns that may run at once do", most)
	case there >= half:
		return fmt.Sprintf("%s of this chat run, and one chat gets no more", text.Counted(half, "turn"))
	default:
		return ""
	}
}

// holder returns the turn that holds a place, or "". A turn that a goroutine has not
// left yet holds its own.
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

// enqueue queues a turn behind the previous one of its place: it waits until after is
// closed (nil: for nothing), and calls entered, any number of times, once the
// harness delivers it or it has ended.
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

// Stop stops a turn that is with the harness, because of something that happened in
// its chat.
func (r *Runner) Stop(turnID, reason string) { r.stop(turnID, errors.New(reason)) }

// stop reports whether a goroutine is still at the turn.
func (r *Runner) stop(id string, why error) bool {
	running, tell := r.executions.stop(id, why)
	if tell {
		r.harness.Cancel(id, why.Error())
	}
	return running
}

// stop is Runner.stop, unless the round has failed.
func (r *iteration) stop(id string, why error) (running bool) {
	return r.Err() == nil && r.Runner.stop(id, why)
}

// stopWithdrawn stops the turns that are to begin anew, and queues those again that
// no goroutine is at: the others' goroutines do it.
func (r *iteration) stopWithdrawn() {
	for _, t := range r.TurnsIn(mailbox.TurnWithdrawn) {
		if r.Err() != nil {
			return
		}
		running, tell := r.executions.stop(t.ID, errWithdrawn)
		switch {
		case !running: // or its goroutine has just queued it again
			r.inTurn("stopping the turn "+t.ID, t.ID, mailbox.TurnWithdrawn, func(tx *mailbox.Tx, t *mailbox.Turn) {
				r.harness.Cancel(t.ID, errWithdrawn.Error())
				requeue(tx, t)
			})
		case tell:
			r.harness.Cancel(t.ID, errWithdrawn.Error())
		}
	}
}

// requeue queues a turn again that was withdrawn.
func requeue(tx *mailbox.Tx, t *mailbox.Turn) {
	t.Deadline = time.Time{}
	tx.MoveTurn(t, mailbox.TurnQueued, "", mailbox.Cost{})
}

// startTurns starts what is due and has its place free, the most pressing first.
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
		case wait != "" && !urgent: // a turn that ends pokes the loop
			if r.waiting[t.ID] = true; !noted[t.ID] && holder == "" {
				r.inTurn("noting that the turn "+t.ID+" waits", t.ID, mailbox.TurnQueued, func(tx *mailbox.Tx, t *mailbox.Turn) { tx.RecordWaiting(t, wait) })
			}
		case holder != "" && urgent && r.caps.Injection.Interrupt:
			r.preempt(holder)
		case holder == "":
			r.startTurn(t.ID)
		}
	}
}

// preempt stops a running turn that has sent nothing, for an urgent one; it runs
// again afterwards.
func (r *iteration) preempt(id string) {
	r.inTurn("stopping the turn "+id, id, mailbox.TurnRunning, func(tx *mailbox.Tx, t *mailbox.Turn) {
		if !t.Outbound && t.Rank != mailbox.RankUrgent {
			r.Notify()
			tx.MoveTurn(t, mailbox.TurnWithdrawn, "something urgent came", mailbox.Cost{})
		}
	})
}

// A task is a turn on its way through the harness.
type task struct {
	turn     *mailbox.Turn
	delivery *harness.Turn
	prompt   *attention.Prompt // without its files, which are fetched when the turn runs; nil for a digest
	parts    []*mailbox.Entry  // the messages of the prompt
	images   bool              // the model takes images
	origin   *mailbox.Origin   // of the wake, or empty; nil for a digest
	version  attention.Version
}

// startTurn marks a turn as running, durably, and hands it to the harness.
func (r *iteration) startTurn(id string) {
	var j *task
	r.inTurn("starting the turn "+id, id, mailbox.TurnQueued, func(tx *mailbox.Tx, t *mailbox.Turn) {
		j = &task{turn: t, version: r.config().Version, images: r.caps.Images}
		carrier := r.prepare(tx, j)
		if j.delivery == nil {
			return
		}
		if bound, ok := tx.CheckBudget(t, carrier, r.opts.Budget); !ok {
			j.delivery = nil
			if bound != "" { // which an operator can raise
				tx.OnCommit(func() { r.failures.record(r.opts.Log, t.ID, bound) })
			}
			return
		}
		t.Attempt, t.StartedAt = t.Attempt+1, time.Now()
		if t.Failures == 0 || t.Deadline.IsZero() { // one deadline for all tries of a turn that fails
			t.Deadline = t.StartedAt.Add(r.opts.Attention.Deadline)
		}
		j.delivery.Attempt = t.Attempt
		if carrier != nil {
			j.origin = &carrier.Origin
			r.broker.Started(tx, carrier)
		}
		tx.MoveTurn(t, mailbox.TurnRunning, "", mailbox.Cost{})
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
		held.threadKey = "" // the program takes several of one place, in their order
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

// runTurn lets the harness work on a turn and settles what comes of it.
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
	for try := 1; ; try++ { // until it is stored: nothing may be forgotten
		stored := r.settle(settled, t.ID, box, outcome, err)
		if stored == nil {
			return
		}
		r.opts.Log.Error().Err(stored).Str("turn", t.ID).Msg("storing the end of a turn failed; trying again")
		if errors.Is(context.Cause(ctx), ErrStopping) || !retry.Sleep(settled, time.Second) || try > 60 {
			return // the next start takes it up
		}
	}
}

// recordAttempt stores that a harness delivers a turn once more.
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
