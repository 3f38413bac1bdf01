package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var errStopped = errors.New("the outbox is stopping")

// A runState is the state of one Run.
type runState struct {
	*Outbox
	ctx      context.Context // of Run
	attempts context.Context // context of SendFunc; ends StopTimeout after ctx
	busy     map[string]bool // destinations that are served
	full     atomic.Bool     // Parallel destinations are served; others may wait
	done     chan string     // destinations that are no longer served
	wg       sync.WaitGroup
	crashed  chan error // receives from crash points of tests
}

// Run sends due items until ctx ends; then it returns nil. If the database fails, Run logs the
// error and tries again.
func (o *Outbox) Run(ctx context.Context) error {
	if !o.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer o.running.Store(false)
	attempts, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	r := &runState{
		Outbox: o, ctx: ctx, attempts: attempts, busy: map[string]bool{},
		done: make(chan string, o.opts.Parallel), crashed: make(chan error, 1),
	}
	err := r.dispatchLoop(ctx)
	if err != nil {
		cut(err)
	}
	stop := time.AfterFunc(o.opts.StopTimeout, func() { cut(errStopped) })
	r.wg.Wait()
	stop.Stop()
	return err
}

// dispatchLoop starts attempts until ctx ends. Only this goroutine starts them, so a
// destination never has two at once.
func (r *runState) dispatchLoop(ctx context.Context) error {
	recovered, rested := false, false
	prune := r.opts.Now()
	for ctx.Err() == nil {
		wait, err := r.opts.Poll, error(nil)
		if !recovered {
			err = r.recoverInterrupted(ctx)
			recovered = err == nil
		}
		if err == nil {
			wait, err = r.startDue(ctx)
		}
		if err == nil && !r.opts.Now().Before(prune) {
			prune = r.opts.Now().Add(time.Hour)
			_, err = r.Prune(ctx)
		}
		if err == nil && rested && wait == r.opts.Poll {
			wait, err = r.untilChange(ctx, prune.Sub(r.opts.Now()))
		}
		if errors.Is(err, errCrash) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			r.opts.Log.Error().Err(err).Msg("outbox database not usable; trying again")
			wait = time.Second
		}
		if rested, err = r.await(ctx, wait); err != nil {
			return err
		}
	}
	return nil
}

// untilChange returns how long to wait while nothing is due. Another process can release only
// what this one has not sent, so without such items there is no need to poll.
func (r *runState) untilChange(ctx context.Context, longest time.Duration) (time.Duration, error) {
	left, err := r.List(ctx, &Filter{Limit: 1,
		States: []State{StatePending, StateSending, StateDead, StateUnknown, StateDropped}})
	if err != nil || len(left) > 0 {
		return r.opts.Poll, err
	}
	return max(longest, r.opts.Poll), nil
}

// await waits until something may be due. rested reports whether nothing happened meanwhile.
func (r *runState) await(ctx context.Context, wait time.Duration) (rested bool, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		rested = true
	case <-r.wake.C():
	case err := <-r.crashed:
		return false, err
	case destination := <-r.done:
		delete(r.busy, destination)
	}
	for {
		select {
		case destination := <-r.done:
			delete(r.busy, destination)
		default:
			return rested, nil
		}
	}
}

// startDue starts an attempt for every destination whose first item is due, as far as
// there is room. It returns how long to wait until something else may be due.
func (r *runState) startDue(ctx context.Context) (time.Duration, error) {
	room := r.opts.Parallel - len(r.busy)
	if room <= 0 {
		return r.opts.Poll, nil
	}
	heads, err := r.heads(ctx, r.opts.Parallel+1)
	if err != nil {
		return 0, err
	}
	now, wait := r.opts.Now(), r.opts.Poll
	var due []int64
	for _, h := range heads {
		switch {
		case r.busy[h.destination]:
		case h.due.After(now):
			wait = min(wait, h.due.Sub(now))
		case len(due) < room:
			due = append(due, h.id)
		}
	}
	items, err := r.markSending(ctx, due, now)
	if err != nil {
		return 0, err
	}
	r.full.Store(len(items) == room)
	for _, item := range items {
		r.busy[item.Destination] = true
		r.wg.Go(func() { r.serve(&item) })
	}
	return max(wait, time.Millisecond), nil
}
