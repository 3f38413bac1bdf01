package systemd

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"hubbub/peers/system"
	"hubbub/protocol/notify"

	"github.com/coreos/go-systemd/v22/dbus"
	"golang.org/x/sys/unix"
)

// A unit is one invocation of an agent's unit.
type unit struct {
	launcher   *Launcher
	name       string
	invocation string // systemd's id of this run of the unit
}

// A state is what systemd says about a unit.
type state struct {
	active     string // "active", "activating", "inactive", "failed" ...
	invocation string
	result     string // "success", "exit-code", "signal", "oom-kill", "timeout" ...
	code       int32  // how the process ended: 1 exited, 2 killed, 3 killed with a core dump
	status     int32  // its exit status, or the signal
	memory     uint64 // bytes that it may use
}

func (s *state) running() bool {
	switch s.active {
	case "active", "activating", "reloading", "deactivating", "refreshing", "maintenance":
		return true
	}
	return false
}

// look asks systemd for the state of a unit.
func look(ctx context.Context, conn *dbus.Conn, name string) (*state, error) {
	p, err := conn.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("asking systemd about %s: %w", name, err)
	}
	s := &state{}
	s.active, _ = p["ActiveState"].(string)
	id, _ := p["InvocationID"].([]byte)
	s.invocation = hex.EncodeToString(id)
	s.result, _ = p["Result"].(string)
	s.code, _ = p["ExecMainCode"].(int32)
	s.status, _ = p["ExecMainStatus"].(int32)
	s.memory, _ = p["MemoryMax"].(uint64)
	return s, nil
}

// exitExec is systemd's status for a program that it could not execute, and
// exitUsage ours for one that was called wrongly.
const (
	exitExec  = 203
	exitUsage = 2
)

// noLimit is what systemd says of a limit that is not set.
const noLimit = math.MaxUint64

// limit says how much memory the unit may use.
func (s *state) limit() string {
	if s.memory == noLimit {
		return "what its slice and the machine have"
	}
	return fmt.Sprintf("%d MiB (--memory-max)", s.memory>>20)
}

// exit describes how a unit ended.
func (s *state) exit() *system.Exit {
	exited := s.code == 1 && s.result != "success"
	reason := "ended"
	switch {
	case exited:
		reason = fmt.Sprintf("exit status %d", s.status)
	case s.result == "oom-kill":
		reason = "out of memory, of which it may use " + s.limit()
	case s.result == "timeout":
		reason = "it ran for as long as it may, or did not stop in time"
	case s.code == 2 && s.status == int32(unix.SIGKILL) && s.memory != noLimit: // cgroup version 1 tells no more
		reason = "killed by signal 9, as the kernel does out of memory, of which it may use " + s.limit()
	case s.code == 2 || s.code == 3:
		reason = fmt.Sprintf("killed by signal %d", s.status)
	case s.result != "" && s.result != "success":
		reason = s.result
	}
	if exited && s.status == exitExec {
		reason = "its program cannot be executed"
	}
	return &system.Exit{Reason: reason, Permanent: exited && (s.status == exitUsage || s.status == exitExec)}
}

// Find returns the running unit of an agent.
func (l *Launcher) Find(ctx context.Context, spec system.Spec, _ string) (system.Instance, error) {
	conn, err := l.connection()
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, conn, unitName(spec.Name))
	if err != nil {
		return nil, err
	}
	if !s.running() {
		return nil, system.ErrNotRunning
	}
	return &unit{l, unitName(spec.Name), s.invocation}, nil
}

// Handle returns the name of the unit and the id of this run.
func (u *unit) Handle() string { return u.name + " " + u.invocation }

// Wait looks at the unit whenever D-Bus reports a change, and every pollInterval.
func (u *unit) Wait(ctx context.Context) error {
	changed := notify.New()
	u.launcher.mu.Lock()
	u.launcher.waiters[u] = changed
	u.launcher.mu.Unlock()
	defer func() {
		u.launcher.mu.Lock()
		defer u.launcher.mu.Unlock()
		delete(u.launcher.waiters, u)
	}()
	for {
		exit, err := u.ended(ctx)
		if exit != nil {
			return exit
		}
		if err != nil && ctx.Err() == nil {
			u.launcher.log.Warn().Err(err).Str("unit", u.name).Msg("unit not looked at; trying again")
		}
		select {
		case <-changed.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended returns how the unit ended, or nil while it runs. It clears a failed unit, so
// that nothing is left of it.
func (u *unit) ended(ctx context.Context) (*system.Exit, error) {
	conn, err := u.launcher.connection()
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, conn, u.name)
	if err != nil {
		return nil, err
	}
	if s.running() && s.invocation == u.invocation {
		return nil, nil
	}
	if s.invocation != u.invocation {
		return &system.Exit{Reason: "ended; how is not known any more"}, nil
	}
	u.launcher.clear(ctx, conn, u.name, s)
	return s.exit(), nil
}

// clear makes systemd forget a failed unit.
func (l *Launcher) clear(ctx context.Context, conn *dbus.Conn, name string, s *state) {
	if s.active != "failed" {
		return
	}
	if err := conn.ResetFailedUnitContext(ctx, name); err != nil {
		l.log.Debug().Err(err).Str("unit", name).Msg("failed unit not cleared")
	}
}

// Stop stops the unit.
func (u *unit) Stop(ctx context.Context) error {
	conn, err := u.launcher.connection()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, u.launcher.opts.StopTimeout+pollInterval)
	defer cancel()
	done := make(chan string, 1)
	_, err = conn.StopUnitContext(ctx, u.name, "replace", done)
	if noSuchUnit(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping %s: %w", u.name, err)
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	// The answer may have been lost with the connection, so ask about the unit.
	if exit, err := u.ended(context.WithoutCancel(ctx)); exit == nil {
		return errors.Join(fmt.Errorf("%s does not stop", u.name), err)
	}
	return nil
}
