package system

import (
	"context"
	"errors"
	"strings"
	"time"
)

// A Spec describes how an agent is started.
type Spec struct {
	Name      AgentName
	Command   string   // path of the program
	Args      []string // without the program's name
	Env       []string // "KEY=value"; may hold secrets
	Unit      []string // changes to the sandbox of a systemd unit, such as ProtectHome=no
	TokenFile string   // file with the agent's token, mode 0600, for launchers that copy it; may be empty
	Limits    Limits
}

// Limits are the resource limits of an agent. Zero means no limit.
type Limits struct {
	Memory  int64         // bytes
	Tasks   int64         `flag:"tasks-max" usage:"maximum number of processes and threads of an agent or, if agents are processes, of those that its user starts after it; 0 for no limit"`
	Files   int64         `flag:"files-max" usage:"maximum number of open files of each process of an agent; 0 for no limit"`
	Runtime time.Duration `flag:"runtime-max" usage:"how long an agent may run before it is restarted (default no limit)"`
}

// Paths are the paths of an agent's files as the agent sees them, and where people find its log.
type Paths struct {
	Data      string // data folder
	TokenFile string // file with the token
	Log       string // file with the log, or a command that shows it
}

// A Launcher starts and finds agents. Its methods may be called from any goroutine.
type Launcher interface {
	// Run serves the launcher until ctx ends, and returns when every goroutine that it started
	// has ended.
	Run(ctx context.Context) error

	// Paths returns the paths for an agent. It does no I/O.
	Paths(name AgentName) Paths

	// Start starts an agent that is not running. Its error wraps ErrPermanent if another attempt
	// would fail in the same way.
	Start(ctx context.Context, spec Spec) (Instance, error)

	// Find returns the running instance of an agent, or ErrNotRunning. handle is the last known
	// Instance.Handle. It may be empty or outdated: an instance under the same name is found
	// anyway.
	Find(ctx context.Context, spec Spec, handle string) (Instance, error)

	// Outlives reports whether agents keep running without the spawner.
	Outlives() bool
}

// An Instance is a running process or unit of an agent.
type Instance interface {
	// Handle returns a string from which Find finds the instance after a restart of the spawner.
	Handle() string

	// Wait returns why the instance ended (an *Exit), or the error of ctx.
	Wait(ctx context.Context) error

	// Stop asks the instance to end, kills it after a timeout, and returns when it has ended.
	Stop(ctx context.Context) error
}

// Errors of launchers.
var (
	// ErrNotRunning reports that no instance of the agent is running.
	ErrNotRunning = errors.New("the agent is not running")
	// ErrPermanent reports that another attempt would fail in the same way.
	ErrPermanent = errors.New("starting it again would fail in the same way")
)

// An Exit describes how an instance ended.
type Exit struct {
	Reason    string // "exit status 1", "killed", "out of memory"
	Output    string // end of its output, for the operator; may be empty
	Permanent bool   // probably started with wrong arguments; would fail again
}

// Error returns the reason and the output.
func (e *Exit) Error() string {
	if e.Output == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Output
}

// publicMessage returns the text of an error for people in chats, without output of the program.
func publicMessage(err error) string {
	exit, ok := errors.AsType[*Exit](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), exit.Error(), exit.Reason, 1)
}
