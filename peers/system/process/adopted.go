package process

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"hubbub/peers/proc"
	"hubbub/peers/system"
	"hubbub/protocol/retry"
)

// An identity identifies a process permanently. The kernel reuses process ids, but not with the
// same start time in the same boot of the machine.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`
}

func (id identity) String() string {
	b, _ := json.Marshal(id) //nolint:errcheck // it always marshals
	return string(b)
}

// alive reports whether the process is running. A zombie is not.
func (id identity) alive() bool {
	now, s, err := stat(id.PID)
	return err == nil && !ended(s) && now == id
}

// PID returns the process id in a handle of this package, or 0 if that process is not running.
func PID(handle string) int {
	var id identity
	if json.Unmarshal([]byte(handle), &id) != nil || id.PID <= 1 || syscall.Kill(id.PID, 0) != nil {
		return 0
	}
	return id.PID
}

// findProcess returns the process of an agent: the one that handle names, else one with the
// agent's arguments.
func findProcess(spec system.Spec, handle string) (identity, error) {
	var id identity
	if handle != "" && json.Unmarshal([]byte(handle), &id) == nil && id.PID > 1 && id.alive() &&
		!elsewhere(id.PID, spec.Args) {
		return id, nil
	}
	if id, ok := searchProcess(spec.Args); ok {
		return id, nil
	}
	return identity{}, system.ErrNotRunning
}

// elsewhere reports whether a process uses another data folder than an agent with these
// arguments. The spawner's database is then a copy, such as a restored backup beside the original
// system, and the process belongs to the original. A folder that was moved is the same folder.
func elsewhere(pid int, args []string) bool {
	theirs, err := os.Stat(value(arguments(pid), "--data"))
	if err != nil {
		return false
	}
	ours, err := os.Stat(value(args, "--data"))
	return err != nil || !os.SameFile(theirs, ours)
}

// value returns the value of an option, or "".
func value(args []string, option string) string {
	if i := slices.Index(args, option); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// An adopted instance is a process that was started before this run of the spawner.
type adopted struct {
	id          identity
	poll        time.Duration
	stopTimeout time.Duration
}

func (a *adopted) Handle() string { return a.id.String() }

// Wait polls the process. It is not a child of the spawner, so its exit status is unknown.
func (a *adopted) Wait(ctx context.Context) error {
	for a.id.alive() {
		if !retry.Sleep(ctx, a.poll) {
			return ctx.Err()
		}
	}
	if now, _, err := stat(a.id.PID); err != nil || now == a.id { // its number was not reused
		proc.KillSession(a.id.PID)
	}
	return &system.Exit{Reason: "ended; its exit status is unknown because an earlier run of the spawner started it"}
}

func (a *adopted) Stop(ctx context.Context) error {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if a.id.alive() {
			_ = syscall.Kill(-a.id.PID, sig) // its process group; it may have just ended
		}
		deadline, cancel := context.WithTimeout(ctx, a.stopTimeout)
		a.Wait(deadline) //nolint:errcheck // alive says it
		cancel()
		if !a.id.alive() {
			return nil
		}
		ctx = context.WithoutCancel(ctx)
	}
	return fmt.Errorf("process %d did not end", a.id.PID)
}
