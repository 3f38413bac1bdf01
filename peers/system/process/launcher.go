package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"hubbub/peers/proc"
	"hubbub/peers/system"
	"hubbub/protocol/datafolder"
	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Launcher. Nil is valid.
type Options struct {
	KeepAgents  bool          `flag:"keep-agents" usage:"let agent processes continue when this program ends; the next start adopts them"`
	StopTimeout time.Duration `positive:"6s"` // after SIGTERM, before SIGKILL
	MaxLog      int64         `flag:"agent-log-max" positive:"8<<20" usage:"bytes of an agent's log file; one older file is kept"`
	Poll        time.Duration `positive:"250ms"` // interval for checking an adopted process
	Log         *zerolog.Logger
}

// A Launcher starts agents as processes.
type Launcher struct {
	folder string
	opts   Options
	log    *zerolog.Logger

	mu   sync.Mutex       // guards logs
	logs map[string]int64 // log files, and how far each was forwarded
}

// New returns a launcher with its files below folder. It does no I/O.
func New(folder string, opts *Options) *Launcher {
	o := defaults.Of(opts)
	defaults.Log(&o.Log)
	return &Launcher{folder: folder, opts: o, log: o.Log, logs: map[string]int64{}}
}

// Run forwards warnings from the agents' logs and cuts the logs, until ctx ends.
func (l *Launcher) Run(ctx context.Context) error {
	for retry.Sleep(ctx, time.Second) {
		l.lookAtLogs()
	}
	return nil
}

// Outlives reports whether agents keep running without the spawner.
func (l *Launcher) Outlives() bool { return l.opts.KeepAgents }

// Paths returns the paths of an agent's files.
func (l *Launcher) Paths(name system.AgentName) system.Paths {
	return system.Paths{
		Data:      filepath.Join(l.folder, "agents", string(name)),
		TokenFile: filepath.Join(l.folder, "launch", string(name)+".token"),
		Log:       l.LogFile(name),
	}
}

// LogFile returns the path of an agent's log.
func (l *Launcher) LogFile(name system.AgentName) string {
	return filepath.Join(l.folder, "launch", string(name)+".log")
}

// Start implements [system.Launcher]. It starts a process.
func (l *Launcher) Start(_ context.Context, spec system.Spec) (system.Instance, error) {
	if err := system.CheckName(string(spec.Name)); err != nil {
		return nil, fmt.Errorf("%w: %w", system.ErrPermanent, err)
	}
	if l.opts.KeepAgents && !canFind {
		return nil, fmt.Errorf("%w: keeping agents requires Linux, where running agents can be found",
			system.ErrPermanent)
	}
	for _, dir := range []string{l.Paths(spec.Name).Data, filepath.Dir(l.LogFile(spec.Name))} {
		if err := datafolder.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("creating the folders of %s: %w", spec.Name, err)
		}
	}
	log, err := os.OpenFile(l.LogFile(spec.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer log.Close() // the agent has its own descriptor
	s, err := l.start(spec, log)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: %w (see --agent-command)", system.ErrPermanent, err)
	}
	if err != nil {
		return nil, err
	}
	l.watchLog(s.log, s.begun)
	return s, nil
}

// start starts the process of an agent, which writes to its log directly.
func (l *Launcher) start(spec system.Spec, log *os.File) (*started, error) {
	s := &started{stopTimeout: l.opts.StopTimeout}
	s.log, s.memory = log.Name(), spec.Limits.Memory
	if info, err := log.Stat(); err == nil {
		s.begun = info.Size()
	}
	before := tasksOfUser()
	opts := proc.Options{Confined: true, ParentDeathSignal: syscall.SIGTERM, OnStart: func(pid int) error {
		s.id, _, _ = stat(pid)                 //nolint:errcheck // without /proc, the process id must do
		return limit(pid, spec.Limits, before) // the agent must not run without limits
	}}
	if l.opts.KeepAgents {
		opts.ParentDeathSignal = 0
	}
	cmd := exec.Command(spec.Command, spec.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Env, l.Paths(spec.Name).Data, log, log
	process, err := proc.Start(cmd, &opts)
	s.process = process
	return s, err
}

// A started instance is a child process of the spawner.
type started struct {
	process     *proc.Process
	id          identity
	stopTimeout time.Duration
	log         string
	begun       int64 // offset of its output in the log
	memory      int64 // bytes per process; 0 means no limit
}

func (s *started) Handle() string { return s.id.String() }

func (s *started) Wait(ctx context.Context) error {
	select {
	case <-s.process.Done():
		return s.describe(s.process.Wait())
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *started) Stop(ctx context.Context) error {
	s.process.Stop(ctx, s.stopTimeout)
	return nil
}

// describe returns how the process ended.
func (s *started) describe(err error) error {
	if err == nil {
		return &system.Exit{Reason: "exit status 0"}
	}
	said, _ := since(s.log, s.begun)
	// the Go runtime's message, whatever the exit code
	if s.memory > 0 && bytes.Contains(said, []byte("out of memory")) {
		return &system.Exit{Reason: fmt.Sprintf("%s, out of memory; its limit is %d MiB (--memory-max)", err,
			s.memory>>20)}
	}
	return &system.Exit{Reason: err.Error(), Output: lastWords(said), Permanent: proc.IsUsageError(err)}
}

// Find implements [system.Launcher]. It finds a process.
func (l *Launcher) Find(_ context.Context, spec system.Spec, handle string) (system.Instance, error) {
	id, err := findProcess(spec, handle)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(l.LogFile(spec.Name)); err == nil {
		l.watchLog(l.LogFile(spec.Name), info.Size())
	}
	return &adopted{id: id, poll: l.opts.Poll, stopTimeout: l.opts.StopTimeout}, nil
}
