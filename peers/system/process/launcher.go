package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hubbub/peers/system"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Launcher. Nil is valid.
type Options struct {
	KeepAgents  bool          // let agents outlive the spawner
	StopTimeout time.Duration // after SIGTERM, before SIGKILL; default 6s
	MaxLog      int64         // bytes of one log file; default 8 MiB
	Poll        time.Duration // how often to look after processes that are not our children; default 250ms
	Log         *zerolog.Logger
}

// A Launcher starts agents as processes.
type Launcher struct {
	folder string
	opts   Options
	log    *zerolog.Logger

	mu   sync.Mutex      // guards logs
	logs map[string]bool // files to keep below the bound
}

// New makes a launcher that keeps its files below folder. It does no I/O.
func New(folder string, opts *Options) *Launcher {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.StopTimeout <= 0 {
		o.StopTimeout = 6 * time.Second
	}
	if o.MaxLog <= 0 {
		o.MaxLog = 8 << 20
	}
	if o.Poll <= 0 {
		o.Poll = 250 * time.Millisecond
	}
	if o.Log == nil {
		nop := zerolog.Nop()
		o.Log = &nop
	}
	return &Launcher{folder: folder, opts: o, log: o.Log, logs: map[string]bool{}}
}

// Run keeps the logs of agents below their bound until ctx ends.
func (l *Launcher) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			l.cutLogs()
		}
	}
}

// Outlives reports whether agents go on without the spawner.
func (l *Launcher) Outlives() bool { return l.opts.KeepAgents }

// Place returns where an agent finds its things.
func (l *Launcher) Place(name system.AgentName) system.Place {
	return system.Place{
		Data:      filepath.Join(l.folder, "agents", string(name)),
		TokenFile: filepath.Join(l.folder, "launch", string(name)+".token"),
		Log:       l.LogFile(name),
	}
}

// LogFile returns the path of an agent's log.
func (l *Launcher) LogFile(name system.AgentName) string {
	return filepath.Join(l.folder, "launch", string(name)+".log")
}

// Start starts an agent.
func (l *Launcher) Start(_ context.Context, spec system.Spec) (system.Instance, error) {
	if err := system.CheckName(string(spec.Name)); err != nil {
		return nil, fmt.Errorf("%w: %w", system.ErrHopeless, err)
	}
	if l.opts.KeepAgents && !canFind {
		return nil, fmt.Errorf("%w: keeping agents needs Linux, where they can be found again", system.ErrHopeless)
	}
	for _, dir := range []string{l.Place(spec.Name).Data, filepath.Dir(l.LogFile(spec.Name))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the folders of %s: %w", spec.Name, err)
		}
	}
	log, err := os.OpenFile(l.LogFile(spec.Name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", spec.Name, err)
	}
	defer log.Close() // the agent has its own
	c, err := l.startChild(spec, log)
	if err != nil {
		return nil, err
	}
	l.watchLog(l.LogFile(spec.Name))
	return c, nil
}

// hopeless reports whether a program that cannot be started will never be.
func hopeless(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: %w (see --agent-command)", system.ErrHopeless, err)
	}
	return err
}

// Find returns the running process of an agent.
func (l *Launcher) Find(_ context.Context, spec system.Spec, handle string) (system.Instance, error) {
	id, err := findProcess(spec, handle)
	if err != nil {
		return nil, err
	}
	l.watchLog(l.LogFile(spec.Name))
	return &adopted{id: id, poll: l.opts.Poll, stopTimeout: l.opts.StopTimeout}, nil
}
