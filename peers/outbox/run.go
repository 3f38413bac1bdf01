package outbox

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/notify"
)

var errStopped = errors.New("the outbox is stopping")

// A runState is the state of one Run.
type runState struct {
	*Outbox
	ctx     context.Context // of Run
	sends   context.Context // context of SendFunc; ends StopTimeout after ctx
	busy    map[string]bool // destinations that are served
	full    atomic.Bool     // Parallel destinations are served; others may wait
	done    chan served     // destinations that are no longer served
	wg      sync.WaitGroup
	crashed chan error // receives from crash points of tests
	handed  handed
}

// The handed items were marked as sending when they were enqueued, and are not yet served.
type handed struct {
	mu      sync.Mutex // guards items
	items   []*Item
	arrived notify.Signal
	behind  []*Item // wait until an attempt for their destinations has returned; for dispatchLoop
}

// A served destination is one whose attempts have ended. It is empty if it has no open item.
type served struct {
	destination string
	empty       bool
}

// Run sends due items until ctx ends; then it returns nil. If the database fails, Run logs the
// error and tries again.
func (o *Outbox) Run(ctx context.Context) error {
	if !o.run.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer o.run.running.Store(false)
	attempts, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	r := &runState{
		Outbox: o, ctx: ctx, sends: attempts, busy: map[string]bool{},
		done:    make(chan served, o.opts.Parallel),
		crashed: make(chan error, 1),
		handed:  handed{arrived: notify.New()},
	}
	err := r.dispatchLoop(ctx)
	o.run.current.Store(nil)
	if left := append(r.handed.behind, r.takeHanded()...); err == nil && len(left) > 0 {
		if failed := r.reopen(context.WithoutCancel(ctx), left); failed != nil {
			r.opts.Log.Warn().Err(failed).Msg("items not reopened; the next start will reopen them")
		}
	}
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
	rested, look := false, true
	var lookAt, prune time.Time
	for ctx.Err() == nil {
		err := r.startHanded(ctx)
		if err == nil && look {
			var wait time.Duration
			wait, err = r.look(ctx, rested, &prune)
			lookAt = time.Now().Add(wait)
		}
		if errors.Is(err, errCrash) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			r.opts.Log.Error().Err(err).Msg("outbox database not usable; trying again")
			lookAt = time.Now().Add(time.Second)
		}
		if rested, look, err = r.await(ctx, time.Until(lookAt)); err != nil {
			return err
		}
	}
	return nil
}

// look starts what is due, and deletes what is old. It returns how long to wait until something
// else may be due. rested reports whether nothing happened since the last look.
func (r *runState) look(ctx context.Context, rested bool, prune *time.Time) (time.Duration, error) {
	if r.run.current.Load() == nil {
		if err := r.recoverInterrupted(ctx); err != nil {
			return 0, err
		}
		r.run.current.Store(r)
		*prune = r.opts.Now()
	}
	wait, err := r.startDue(ctx)
	if err == nil && !r.opts.Now().Before(*prune) {
		*prune = r.opts.Now().Add(time.Hour)
		_, err = r.Prune(ctx)
	}
	if err == nil && rested && wait == r.opts.Poll {
		wait, err = r.untilChange(ctx, prune.Sub(r.opts.Now()))
	}
	return wait, err
}

// untilChange returns how long to wait while nothing is due. Another process can release only
// what this one has not sent, so without such items there is no need to poll.
func (r *runState) untilChange(ctx context.Context, longest time.Duration) (time.Duration, error) {
	left, err := store.ReadValue[bool](ctx, r.db, selectUnsent, r.opts.Name)
	if err != nil || left {
		return r.opts.Poll, err
	}
	return max(longest, r.opts.Poll), nil
}

// await waits until something may be due. rested reports whether nothing happened meanwhile. look
// reports whether other items may be due than those that were handed over.
func (r *runState) await(ctx context.Context, wait time.Duration) (rested, look bool, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	free := func(s served) {
		delete(r.busy, s.destination)
		look = look || !s.empty || r.full.Load()
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
		rested, look = true, true
	case <-r.wake.C():
		look = true
	case <-r.handed.arrived.C():
	case err := <-r.crashed:
		return false, false, err
	case s := <-r.done:
		free(s)
	}
	for {
		select {
		case s := <-r.done:
			free(s)
		default:
			return rested, look, nil
		}
	}
}

// handOver makes the run serve an item that is marked as sending. The destination has no other
// open item.
func (r *runState) handOver(item *Item) {
	r.handed.mu.Lock()
	r.handed.items = append(r.handed.items, item)
	r.handed.mu.Unlock()
	r.handed.arrived.Notify()
}

func (r *runState) takeHanded() []*Item {
	r.handed.mu.Lock()
	defer r.handed.mu.Unlock()
	list := r.handed.items
	r.handed.items = nil
	return list
}

// startHanded starts the attempts of the items that were handed over. Those for which there is no
// room wait like any other.
func (r *runState) startHanded(ctx context.Context) error {
	var excess []*Item
	list := append(r.handed.behind, r.takeHanded()...)
	r.handed.behind = nil
	for _, item := range list {
		switch {
		case r.busy[item.Destination]:
			r.handed.behind = append(r.handed.behind, item)
		case len(r.busy) >= r.opts.Parallel, r.full.Load(): // others may wait for longer
			excess = append(excess, item)
		default:
			if err := r.crashAt("after mark"); err != nil {
				return err
			}
			r.start(item)
		}
	}
	if len(excess) == 0 {
		return nil
	}
	r.full.Store(true) // the end of any attempt leads to a look
	return r.reopen(ctx, excess)
}

// reopen makes items wait that are marked as sending, and were not attempted.
func (r *runState) reopen(ctx context.Context, items []*Item) error {
	err := store.InTxUnsynced(ctx, r.db, func(tx *store.Tx) {
		for _, item := range items {
			tx.Exec(`UPDATE outbox SET state = 'pending', attempt = 0 WHERE id = ? AND state = 'sending'`, item.ID)
		}
	})
	if err != nil { // they are still to be reopened
		r.handed.mu.Lock()
		defer r.handed.mu.Unlock()
		r.handed.items = append(items, r.handed.items...)
	}
	return err
}

// start serves the destination of an item that is marked as sending.
func (r *runState) start(item *Item) {
	r.busy[item.Destination] = true
	r.wg.Go(func() { r.serve(item) })
}

// startDue starts an attempt for every destination whose first item is due, while there is room.
// It returns how long to wait until something else may be due.
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
		r.start(&item)
	}
	return max(wait, time.Millisecond), nil
}
