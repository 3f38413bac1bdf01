package system

import (
	"context"
	"errors"
	"strings"
	"time"
)

// A Spec says how one agent is started.
type Spec struct {
	Name      AgentName
	Command   string   // path of the program
	Args      []string // without the program's name
	Env       []string // "KEY=value"; may hold secrets
	Unit      []string // what a unit of systemd changes of what confines it, such as ProtectHome=no
	TokenFile string   // file with the agent's token, mode 0600, for launchers that pass on a copy; may be empty
	Limits    Limits
}

// Limits bound what an agent may use. Zero means no limit of ours.
type Limits struct {
	Memory  int64         // bytes
	Tasks   int64         // processes and threads
	Files   int64         // open at once, in each process
	Runtime time.Duration // then the agent is ended and started again
}

// A Paths holds the paths of an agent's files, as the agent itself sees them, and
// where a person finds its log.
type Paths struct {
	Data      string // its data folder
	TokenFile string // the file with its token
	Log       string // the file with its log, or a command that shows it
}

// A Launcher starts agents and finds them again. Its methods may be called from
// any goroutine.
type Launcher interface {
	// Run serves the launcher until ctx ends, and returns when every goroutine
	// that it started has ended.
	Run(ctx context.Context) error

	// Paths returns where an agent will find its things. It does no I/O.
	Paths(name AgentName) Paths

	// Start starts an agent that is not running. An error wraps ErrPermanent if
	// trying again would fail in the same way.
	Start(ctx context.Context, spec Spec) (Instance, error)

	// Find returns the running instance of an agent, or ErrNotRunning. handle is
	// what Instance.Handle gave when it was started; it may be empty, or that of
	// an older instance: whatever runs under this name is found.
	Find(ctx context.Context, spec Spec, handle string) (Instance, error)

	// Outlives reports whether agents go on running without the spawner.
	Outlives() bool
}

// An Instance is one running process or unit of an agent.
type Instance interface {
	// Handle names the instance in the launcher's own words, so that Find finds
	// it after a restart of the spawner.
	Handle() string

	// Wait returns why the instance ended (an *Exit), or ctx's error.
	Wait(ctx context.Context) error

	// Stop asks the instance to end, kills it after a while, and returns when it has
	// ended.
	Stop(ctx context.Context) error
}

// Errors of launchers.
var (
	// ErrNotRunning says that no instance of the agent runs.
	ErrNotRunning = errors.New("the agent is not running")
	// ErrPermanent says that trying again would fail in the same way.
	ErrPermanent = errors.New("starting it again would fail in the same way")
)

// An Exit says how an instance ended.
type Exit struct {
	Reason    string // "exit status 1", "killed", "out of memory"
	Output    string // its last words, for the operator; may be empty
	Permanent bool   // it was probably called wrongly, and would end in the same way
}

// Error returns the reason with the last words.
func (e *Exit) Error() string {
	if e.Output == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Output
}

// publicMessage returns an error as people in chats are told it: without words of a program.
func publicMessage(err error) string {
	exit, ok := errors.AsType[*Exit](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), exit.Error(), exit.Reason, 1)
}
