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

// A supervisor runs one agent: it finds or starts an instance, watches it, starts the
// next one when it ends, and gives up after too many failures. Only its goroutine
// starts instances of this agent.
type supervisor struct {
	*Spawner
	name        AgentName
	requested   bool          // a request wants the agent, so its start counts against the spawn rate
	wantedAgain bool          // the agent was wanted again while it was ending; guarded by Spawner.mu
	changed     notify.Signal // the agent's row changed
	idle        notify.Signal // the agent was idle for too long
	wanted      notify.Signal // the agent was asked for while it was online
	lastSeen    atomic.Int64  // time of the agent's last sign of life, in microseconds since 1970
}

// Reasons for the end of a watch, besides the end of the instance.
var (
	errRestart  = errors.New("it must start again with a new credential")
	errIdle     = errors.New("nobody talked to it")
	errTooOld   = errors.New("it ran for as long as it may")
	errSilent   = errors.New("it did not say that it is online")
	errHung     = errors.New("it runs, but is not on the bus")
	errNotReady = errors.New("something that every start needs is missing")
	errStopping = errors.New("the spawner is stopping")
)

func newSupervisor(s *Spawner, name AgentName, asked bool) *supervisor {
	k := &supervisor{Spawner: s, name: name, requested: asked}
	k.changed, k.idle, k.wanted = notify.New(), notify.New(), notify.New()
	k.touch()
	return k
}

func (k *supervisor) touch() { k.lastSeen.Store(time.Now().UnixMicro()) }

// run keeps the agent until it is no longer wanted, or ctx ends.
func (k *supervisor) run(ctx context.Context) {
	for {
		k.superviseLoop(ctx)
		if !k.release(k) || ctx.Err() != nil {
			return
		}
		k.requested = true
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
			k.log.Warn().Str("peer", string(k.name.PeerID())).Err(err).Msg("agent not started yet; trying again")
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
			k.log.Error().Str("peer", string(k.name.PeerID())).Err(err).Str("log", k.launcher.Paths(k.name).Log).Msg("the agent is given up; what it said last is in its log")
			return
		}
		// Nobody is told that the agent is there until it is back.
		k.persist(ctx, k.markAbsent)
		pause := k.pauses().After(failures)
		k.log.Warn().Str("peer", string(k.name.PeerID())).Err(err).Str("log", k.launcher.Paths(k.name).Log).Dur("pause_ms", pause).Msg("agent ended; starting it again")
		retry.Sleep(ctx, pause)
	}
}

// isPermanent reports whether the next instance would end in the same way. A program
// that was called wrongly and one that panicked exit with the same code, so the code
// counts only if the instance was never online.
func (k *supervisor) isPermanent(ctx context.Context, err error) bool {
	var exit *Exit
	if !errors.As(err, &exit) || !exit.Permanent {
		return errors.Is(err, ErrPermanent)
	}
	a, err := k.agent(ctx)
	return err == nil && !a.online
}

// pauses returns the pauses between starts.
func (k *supervisor) pauses() retry.Backoff {
	return retry.Backoff{Min: k.opts.MinBackoff, Max: k.opts.MaxBackoff}
}

// runInstance runs one instance to its end. It returns nil if the agent is not to run.
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

// adopt takes over an instance that runs already.
func (k *supervisor) adopt(ctx context.Context, a agentRow, inst Instance) error {
	k.log.Info().Str("peer", string(k.name.PeerID())).Str("instance", inst.Handle()).Msg("agent runs already")
	if inst.Handle() == a.handle {
		return nil
	}
	if err := k.change(ctx, toAdopted, k.name, inst.Handle()); err != nil || k.connected.Load() == 0 {
		return err // without a bus, the next connection asks
	}
	_, _ = k.probe(ctx, k.name) // it says by itself, later
	return nil
}

// markAbsent records that the agent has no instance, so that requests wait for the
// next one.
func (k *supervisor) markAbsent(ctx context.Context) error {
	return k.change(ctx, toAbsent, k.name)
}

// start starts an instance and records its handle. If the spawner is killed in
// between, Find finds the instance. start waits for the bus first: without it the
// agent could not say that it is online.
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
	k.log.Info().Str("peer", string(k.name.PeerID())).Str("instance", inst.Handle()).Msg("agent started")
	if err := k.change(ctx, toStarted, k.name, inst.Handle()); err != nil {
		return nil, errors.Join(err, k.stop(ctx, inst))
	}
	k.opts.failpoint("start stored")
	return inst, nil
}

// prepare gets the token and the environment that a start needs.
func (k *supervisor) prepare(ctx context.Context, spec *Spec) (err error) {
	err = k.ensureToken(ctx, k.name, spec.TokenFile)
	if err == nil {
		spec.Env, err = k.environment(ctx)
	}
	return err
}

// watch waits for the end of an instance, or for a reason to end it.
func (k *supervisor) watch(ctx context.Context, inst Instance) error {
	waiting, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { // waited for below: it closes ended
		defer close(ended)
		ended <- inst.Wait(waiting)
	}()
	defer func() {
		cancel()
		for range ended { // until it is closed
		}
	}()
	cause, running := k.watchLoop(ctx, ended)
	switch {
	case !running, errors.Is(cause, errStopping) && k.launcher.Outlives():
	case errors.Is(cause, errIdle):
		if stored, err := k.setIdle(ctx); err != nil || !stored {
			return errors.Join(err, errRestart) // somebody wants the agent after all
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

// watchLoop returns why the watch ends, and whether the instance still runs.
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
			k.log.Error().Err(err).Msg("agents table not read; the watch goes on")
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
			return errIdle, true
		case <-k.wanted.C():
			if k.isHung(ctx, &d) {
				return errHung, true
			}
		case <-silent.C:
			if !k.listening(k.opts.StartTimeout) {
				silent.Reset(k.opts.StartTimeout) // the spawner could not have heard it
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

// listening reports whether the spawner was on the bus all that while.
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

// end ends the instance of an agent that is not to run.
func (k *supervisor) end(ctx context.Context, inst Instance) error {
	if err := k.stop(ctx, inst); err != nil {
		return err
	}
	return k.forget(context.WithoutCancel(ctx))
}

// forget clears the record of the instance of an agent that is not to run.
func (k *supervisor) forget(ctx context.Context) error {
	return k.change(ctx, toForgotten, k.name)
}

// setIdle records that the agent is not to run, unless a request waits for it.
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
		k.log.Error().Err(err).Msg("agents table not written; trying again")
		retry.Sleep(ctx, time.Second)
	}
}
