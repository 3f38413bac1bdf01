package system

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"
)

// A supervisor runs one agent: it finds or starts an instance, watches it, restarts it when it
// ends, and gives up after too many failures. Only its goroutine starts instances of the agent.
type supervisor struct {
	*Spawner
	name        AgentName
	requested   bool          // by a request, so that the start counts against the spawn rate
	wantedAgain bool          // while it was ending; guarded by Spawner.mu
	changed     notify.Signal // the agent's row changed
	idle        notify.Signal // for longer than Options.IdleStop
	wanted      notify.Signal // requested while it was online
	lastSeen    atomic.Int64  // in microseconds since 1970
}

// Reasons to end an instance.
var (
	errRestart  = errors.New("it needs a restart with a new credential")
	errIdle     = errors.New("nobody used it")
	errTooOld   = errors.New("its maximum run time was reached")
	errSilent   = errors.New("it did not come online")
	errHung     = errors.New("it is running but not on the bus")
	errNotReady = errors.New("not ready to start it")
	errStopping = errors.New("the spawner is stopping")
)

func newSupervisor(s *Spawner, name AgentName, asked bool) *supervisor {
	k := &supervisor{Spawner: s, name: name, requested: asked}
	k.changed, k.idle, k.wanted = notify.New(), notify.New(), notify.New()
	k.touch()
	return k
}

func (k *supervisor) touch() { k.lastSeen.Store(time.Now().UnixMicro()) }

// run supervises the agent until it is no longer wanted or ctx ends.
func (k *supervisor) run(ctx context.Context) {
	for {
		k.superviseLoop(ctx)
		if !k.release(k) || ctx.Err() != nil {
			return
		}
		k.requested = true
		k.touch()
	}
}

// superviseLoop runs one instance after another.
func (k *supervisor) superviseLoop(ctx context.Context) {
	failures, hitches := 0, 0
	for ctx.Err() == nil {
		begun := time.Now()
		err := k.runInstance(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case errors.Is(err, errRestart):
			continue
		case errors.Is(err, errNotReady):
			hitches++
			k.opts.Log.Warn().Str("peer", string(k.name.PeerID())).Err(err).Msg("agent not started yet; trying again")
			retry.Sleep(ctx, k.pauses().After(hitches))
			continue
		case errors.Is(err, errTooOld):
			failures = 0
		case time.Since(begun) >= k.opts.SteadyAfter:
			failures = 1
		default:
			failures++
		}
		hopeless := k.isPermanent(ctx, err)
		if hopeless || failures > k.opts.MaxRestarts {
			if !hopeless && failures > 1 {
				err = fmt.Errorf("ended %d times in a row: %w", failures, err)
			}
			k.persist(ctx, func(ctx context.Context) error { return k.giveUp(ctx, k.name, err) })
			k.opts.Log.Error().Str("peer", string(k.name.PeerID())).Err(err).Str("log",
				k.launcher.Paths(k.name).Log).Msg("agent failed and is not restarted; see its log")
			return
		}
		// No chat is notified that the agent is available until it is back.
		k.persist(ctx, k.markAbsent)
		pause := k.pauses().After(failures)
		k.opts.Log.Warn().Str("peer", string(k.name.PeerID())).Err(err).Str("log",
			k.launcher.Paths(k.name).Log).Dur("pause_ms", pause).Msg("agent ended; restarting it")
		retry.Sleep(ctx, pause)
	}
}

// isPermanent reports whether the next instance would end in the same way. Wrong arguments and a
// panic cause the same exit code, so the code counts only if the instance was never online.
func (k *supervisor) isPermanent(ctx context.Context, err error) bool {
	var exit *Exit
	if !errors.As(err, &exit) || !exit.Permanent {
		return errors.Is(err, ErrPermanent)
	}
	a, err := k.agent(ctx)
	return err == nil && !a.online
}

// pauses returns the delays between starts.
func (k *supervisor) pauses() retry.Backoff {
	return retry.Backoff{Min: k.opts.MinBackoff, Max: k.opts.MaxBackoff}
}

// runInstance runs one instance to its end. It returns nil if the agent should not run.
func (k *supervisor) runInstance(ctx context.Context) error {
	a, err := k.agent(ctx)
	if err != nil {
		return errors.Join(errNotReady, err)
	}
	spec := k.spec(a)
	inst, err := k.launcher.Find(ctx, spec, a.handle)
	switch {
	case errors.Is(err, ErrNotRunning) && a.state != stateWanted:
		return k.forget(ctx)
	case errors.Is(err, ErrNotRunning):
		inst, err = k.start(ctx, spec)
	case err != nil:
		return errors.Join(errNotReady, err)
	case a.state != stateWanted:
		return k.end(ctx, inst)
	default:
		err = k.adopt(ctx, a, inst)
	}
	if err != nil {
		return err
	}
	return k.watch(ctx, inst)
}

// adopt takes over an instance that is already running.
func (k *supervisor) adopt(ctx context.Context, a agentRow, inst Instance) error {
	k.opts.Log.Info().Str("peer", string(k.name.PeerID())).Str("instance",
		inst.Handle()).Msg("agent is already running")
	if inst.Handle() == a.handle {
		return nil
	}
	if err := k.change(ctx, toAdopted, k.name, inst.Handle()); err != nil || k.connected.Load() == 0 {
		return err // without a connection, the next one probes it
	}
	_, _ = k.probe(ctx, k.name) // otherwise it announces itself later
	return nil
}

// markAbsent records that the agent has no instance. Requests then wait for the next one.
func (k *supervisor) markAbsent(ctx context.Context) error {
	return k.change(ctx, toAbsent, k.name)
}

// start starts an instance and records its handle. If the spawner is killed in between, Find
// finds the instance. start first waits for the bus, which the agent needs to announce itself.
func (k *supervisor) start(ctx context.Context, spec Spec) (Instance, error) {
	if err := k.markAbsent(ctx); err != nil {
		return nil, errors.Join(errNotReady, err)
	}
	if err := k.peer.Ready(ctx); err != nil {
		return nil, err
	}
	if k.requested {
		if err := k.rate.Wait(ctx); err != nil {
			return nil, err
		}
		k.requested = false
	}
	if err := k.prepare(ctx, &spec); err != nil {
		if errors.Is(err, ErrPermanent) {
			return nil, err
		}
		return nil, errors.Join(errNotReady, err)
	}
	k.opts.failpoint("before start")
	inst, err := k.launcher.Start(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("starting it: %w", err)
	}
	k.opts.failpoint("started")
	k.opts.Log.Info().Str("peer", string(k.name.PeerID())).Str("instance", inst.Handle()).Msg("agent started")
	if err := k.change(ctx, toStarted, k.name, inst.Handle()); err != nil {
		return nil, errors.Join(err, k.stop(ctx, inst))
	}
	k.opts.failpoint("start stored")
	return inst, nil
}

// prepare gets the token and the environment for a start.
func (k *supervisor) prepare(ctx context.Context, spec *Spec) (err error) {
	err = k.ensureToken(ctx, k.name, spec.TokenFile)
	if err == nil {
		spec.Env, err = k.environment(ctx)
	}
	return err
}

// watch waits until an instance ends or must be ended.
func (k *supervisor) watch(ctx context.Context, inst Instance) error {
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { // ends before watch returns, by closing ended
		defer close(ended)
		ended <- inst.Wait(waiting)
	}()
	defer func() {
		cancel()
		for range ended { // wait until it is closed
		}
	}()
	cause, running := k.watchLoop(ctx, ended)
	switch {
	case !running, errors.Is(cause, errStopping) && k.launcher.Outlives():
	case errors.Is(cause, errIdle):
		if stored, err := k.setIdle(ctx); err != nil || !stored {
			return errors.Join(err, errRestart) // the agent is wanted after all
		}
		cause = k.end(ctx, inst)
	default:
		cause = errors.Join(cause, k.stop(ctx, inst))
	}
	if errors.Is(cause, errStopping) {
		return nil
	}
	return cause
}

// watchLoop returns why the watch ends, and whether the instance is still running.
func (k *supervisor) watchLoop(ctx context.Context, ended chan error) (cause error, running bool) {
	silent := time.NewTimer(k.opts.StartTimeout)
	defer silent.Stop()
	var d liveness
	var old <-chan time.Time
	if k.opts.Limits.Runtime > 0 {
		old = time.After(k.opts.Limits.Runtime)
	}
	for {
		a, err := k.agent(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			k.opts.Log.Error().Err(err).Msg("agents table not read; still watching")
		case err == nil && a.online:
			silent.Stop()
		case err == nil && k.mustRestart(ctx):
			return errRestart, true
		}
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return errStopping, errors.Is(err, ctx.Err())
			}
			return err, false
		case <-k.changed.C():
		case <-k.idle.C():
			if a.online && k.isIdle() { // it may have been requested since
				return errIdle, true
			}
		case <-k.wanted.C():
			if k.isHung(ctx, &d) {
				return errHung, true
			}
		case <-silent.C:
			if !k.listening(k.opts.StartTimeout) {
				silent.Reset(k.opts.StartTimeout) // the spawner could not have received its announcement
				continue
			}
			return errSilent, true
		case <-old:
			return errTooOld, true
		case <-ctx.Done():
			return errStopping, true
		}
	}
}

// listening reports whether the spawner was connected for all of that duration.
func (s *Spawner) listening(while time.Duration) bool {
	since := s.connected.Load()
	return since != 0 && time.Now().Add(-while).UnixMicro() >= since
}

// stop ends an instance, even while the spawner itself is stopping.
func (k *supervisor) stop(ctx context.Context, inst Instance) error {
	if err := inst.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stopping it: %w", err)
	}
	return nil
}

// end ends the instance of an agent that should not run.
func (k *supervisor) end(ctx context.Context, inst Instance) error {
	if err := k.stop(ctx, inst); err != nil {
		return err
	}
	return k.forget(context.WithoutCancel(ctx))
}

// forget clears the instance of an agent that should not run.
func (k *supervisor) forget(ctx context.Context) error {
	return k.change(ctx, toForgotten, k.name)
}

// setIdle marks the agent as idle, unless a request waits for it.
func (k *supervisor) setIdle(ctx context.Context) (stored bool, err error) {
	err = store.InTx(ctx, k.db, func(tx *store.Tx) {
		if stored = tx.ExecCount(toIdle, k.name) == 1; stored {
			k.retireCredentials(tx, k.name)
			k.announceEvent(tx, "stopped", k.name, errIdle.Error())
		}
	})
	return stored && err == nil, err
}

// persist repeats a write until it succeeds or ctx ends.
func (k *supervisor) persist(ctx context.Context, write func(ctx context.Context) error) {
	for ctx.Err() == nil {
		err := write(ctx)
		if err == nil {
			return
		}
		k.opts.Log.Error().Err(err).Msg("agents table not written; trying again")
		retry.Sleep(ctx, time.Second)
	}
}
