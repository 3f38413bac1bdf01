package systemd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hubbub/peers/proc"
	"hubbub/peers/system"
	"hubbub/protocol/datafolder"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// Start implements [system.Launcher]. It starts a unit.
func (l *Launcher) Start(ctx context.Context, spec system.Spec) (system.Instance, error) {
	if err := system.CheckName(string(spec.Name)); err != nil {
		return nil, fmt.Errorf("%w: %w", system.ErrPermanent, err)
	}
	conn, err := l.connection()
	if err != nil {
		return nil, err
	}
	name := unitName(spec.Name)
	envFile, err := l.writeEnvironment(spec)
	if err != nil {
		return nil, err
	}
	defer os.Remove(envFile) //nolint:errcheck // systemd has read it, or will not
	if l.opts.Scope == ScopeUser {
		if err := datafolder.MkdirAll(l.Paths(spec.Name).Data); err != nil {
			return nil, fmt.Errorf("creating the folder of %s: %w", spec.Name, err)
		}
	}
	if err := conn.ResetFailedUnitContext(ctx, name); err != nil && !noSuchUnit(err) {
		return nil, fmt.Errorf("clearing the failed %s: %w", name, err)
	}
	properties, err := l.properties(spec, envFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", system.ErrPermanent, err)
	}
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, name, "fail", properties, done); err != nil {
		return nil, startError(name, err)
	}
	if err := await(ctx, done); err != nil {
		return nil, err // Find finds the unit if it is running
	}
	s, err := look(ctx, conn, name)
	if err != nil {
		return nil, err
	}
	if !s.running() {
		l.clear(ctx, conn, name, s)
		exit := s.exit()
		if exit.Permanent && s.status == exitExec {
			return nil, fmt.Errorf("%w: %w (see --agent-command)", system.ErrPermanent, exit)
		}
		return nil, exit
	}
	return &unit{l, name, s.invocation}, nil
}

// jobLimit bounds the time until systemd reports that a unit has started, which it does once the
// program is executed.
const jobLimit = 30 * time.Second

// await waits for the end of a job, for at most jobLimit. If the connection breaks, the report is
// lost, and the state of the unit must be queried.
func await(ctx context.Context, done <-chan string) error {
	timer := time.NewTimer(jobLimit)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func noSuchUnit(err error) bool { return isBusError(err, "org.freedesktop.systemd1.NoSuchUnit") }

func isBusError(err error, names ...string) bool {
	e, ok := errors.AsType[godbus.Error](err)
	return ok && slices.Contains(names, e.Name)
}

// startError distinguishes permanent refusals from temporary errors.
func startError(name string, err error) error {
	switch {
	case isBusError(err, "org.freedesktop.DBus.Error.AccessDenied",
		"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"):
		return fmt.Errorf("%w: systemd does not let this user start %s; run the spawner as root or with "+
			"--systemd-scope user: %w",
			system.ErrPermanent, name, err)
	case isBusError(err, "org.freedesktop.DBus.Error.InvalidArgs", "org.freedesktop.DBus.Error.PropertyReadOnly"):
		return fmt.Errorf("%w: systemd refuses a property of %s; it must be version 247 or later: %w",
			system.ErrPermanent, name, err)
	}
	return fmt.Errorf("starting %s: %w", name, err)
}

// An execStart is a command of a unit, as D-Bus represents it.
type execStart struct {
	Path  string
	Args  []string // including the program's name
	Flags []string
}

// A fileSource is a file that a unit reads, and whether it may be missing.
type fileSource struct {
	Path     string
	Optional bool
}

// A credentialSource is a file that becomes a credential of a unit.
type credentialSource struct{ Name, Path string }

// properties returns the properties of an agent's unit.
func (l *Launcher) properties(spec system.Spec, envFile string) ([]dbus.Property, error) {
	var all []dbus.Property
	set := func(name string, value any) {
		all = append(all, dbus.Property{Name: name, Value: godbus.MakeVariant(value)})
	}
	place := l.Paths(spec.Name)
	set("Description", "Hubbub agent "+string(spec.Name))
	set("Type", "exec")
	set("ExecStartEx", []execStart{{spec.Command, append([]string{spec.Command}, spec.Args...),
		[]string{"no-env-expand"}}})
	set("EnvironmentFiles", []fileSource{{envFile, false}})
	if spec.TokenFile != "" {
		set("LoadCredential", []credentialSource{{"token", spec.TokenFile}})
	}
	set("WorkingDirectory", place.Data)
	set("Slice", "hubbub-agents.slice")
	set("SyslogIdentifier", "hubbub-agent-"+string(spec.Name))
	set("KillMode", "control-group")
	set("TimeoutStopUSec", uint64(l.opts.StopTimeout.Microseconds()))
	set("UMask", uint32(0o077))
	set("LimitCORE", uint64(0))
	set("NoNewPrivileges", true)
	set("TimerSlackNSec", uint64(proc.TimerSlack))
	l.place(set, spec, place)
	if err := confine(set, l.opts.Scope == ScopeSystem, spec.Unit); err != nil {
		return nil, err
	}
	if m := spec.Limits.Memory; m > 0 {
		set("MemoryMax", uint64(m))
		set("MemorySwapMax", uint64(0))
	}
	if n := spec.Limits.Tasks; n > 0 {
		set("TasksMax", uint64(n))
	}
	if d := spec.Limits.Runtime; d > 0 {
		set("RuntimeMaxUSec", uint64(d.Microseconds()))
	}
	if n := spec.Limits.Files; n > 0 {
		set("LimitNOFILE", uint64(n))
	}
	return all, nil
}

// place sets the paths and the user of the unit.
func (l *Launcher) place(set func(string, any), spec system.Spec, place system.Paths) {
	if l.opts.Scope == ScopeUser {
		set("ReadWritePaths", []string{place.Data})
		return
	}
	set("StateDirectory", []string{"hubbub-agent-" + string(spec.Name)})
	set("StateDirectoryMode", uint32(0o700))
	set("CapabilityBoundingSet", uint64(0))
	set("AmbientCapabilities", uint64(0))
	if l.opts.User != "" {
		set("User", l.opts.User)
		return
	}
	set("DynamicUser", true)
}

// writeEnvironment writes the file with the unit's environment. Only its owner can read it.
func (l *Launcher) writeEnvironment(spec system.Spec) (path string, err error) {
	dir := filepath.Join(l.folder, "launch")
	if err := datafolder.MkdirAll(dir); err != nil {
		return "", fmt.Errorf("creating the folder for environments: %w", err)
	}
	f, err := os.CreateTemp(dir, string(spec.Name)+".env-*") // created with mode 0600
	if err != nil {
		return "", fmt.Errorf("writing an environment: %w", err)
	}
	for _, kv := range spec.Env {
		key, value, _ := strings.Cut(kv, "=")
		if _, err = fmt.Fprintf(f, "%s=%s\n", key, quoteValue(value)); err != nil {
			break
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("writing an environment: %w", err), os.Remove(f.Name()))
	}
	return f.Name(), nil
}

var valueQuoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`)

// quoteValue quotes a value for systemd.
func quoteValue(value string) string { return `"` + valueQuoter.Replace(value) + `"` }

// removeLeftovers removes environment files left by a killed spawner.
func (l *Launcher) removeLeftovers() {
	folder := filepath.Join(l.folder, "launch")
	names, _ := fs.Glob(os.DirFS(folder), "*.env-*") //nolint:errcheck // the pattern is good
	for _, name := range names {
		path := filepath.Join(folder, name)
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute {
			continue // it may be in use
		}
		if err := os.Remove(path); err != nil {
			l.log.Warn().Err(err).Msg("environment file left behind; remove it")
		}
	}
}
