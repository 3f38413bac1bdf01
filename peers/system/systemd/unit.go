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
	invocation string // systemd's id of this run
}

// A state is the state of a unit in systemd.
type state struct {
	active     string // "active", "activating", "inactive", "failed" ...
	invocation string
	result     string // "success", "exit-code", "signal", "oom-kill", "timeout" ...
	code       int32  // kind of exit: 1 exited, 2 killed, 3 killed with a core dump
	status     int32  // exit status or signal
	memory     uint64 // limit in bytes
}

func (s *state) running() bool {
	switch s.active {
	case "active", "activating", "reloading", "deactivating", "refreshing", "maintenance":
		return true
	}
	return false
}

// look queries the state of a unit.
func look(ctx context.Context, conn *dbus.Conn, name string) (*state, error) {
	p, err := conn.GetAllPropertiesContext(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("querying systemd about %s: %w", name, err)
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

// exitExec is systemd's exit status for a program that it could not execute. exitUsage is the
// agent's status for wrong arguments.
const (
	exitExec  = 203
	exitUsage = 2
)

// noLimit is systemd's value for a limit that is not set.
const noLimit = math.MaxUint64

// limit describes the memory limit of the unit.
func (s *state) limit() string {
	if s.memory == noLimit {
		return "the memory of its slice and the machine"
	}
	return fmt.Sprintf("%d MiB (--memory-max)", s.memory>>20)
}

// exit describes how the unit ended.
func (s *state) exit() *system.Exit {
	exited := s.code == 1 && s.result != "success"
	reason := "ended"
	switch {
	case exited:
		reason = fmt.Sprintf("exit status %d", s.status)
	case s.result == "oom-kill":
		reason = "out of memory; its limit is " + s.limit()
	case s.result == "timeout":
		reason = "its maximum run time was reached, or it did not stop in time"
	// cgroups version 1 gives no further details
	case s.code == 2 && s.status == int32(unix.SIGKILL) && s.memory != noLimit:
		reason = "killed by signal 9, as the kernel does when memory is exhausted; its limit is " + s.limit()
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

// Find implements [system.Launcher]. It finds a unit.
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

// Handle returns the name of the unit and the id of its run.
func (u *unit) Handle() string { return u.name + " " + u.invocation }

// Wait checks the unit after each change reported by D-Bus, and every pollInterval.
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
			u.launcher.log.Warn().Err(err).Str("unit", u.name).Msg("unit not checked; trying again")
		}
		select {
		case <-changed.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ended returns how the unit ended, or nil while it is running. It clears a failed unit from
// systemd.
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
		return &system.Exit{Reason: "ended; its exit status is no longer known"}, nil
	}
	u.launcher.clear(ctx, conn, u.name, s)
	return s.exit(), nil
}

// clear removes a failed unit from systemd.
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
	// The answer may have been lost with the connection, so check the unit.
	if exit, err := u.ended(context.WithoutCancel(ctx)); exit == nil {
		return errors.Join(fmt.Errorf("%s did not stop", u.name), err)
	}
	return nil
}
