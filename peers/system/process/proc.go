package process

import (
	"os"
	"strings"
	"sync"

	"github.com/prometheus/procfs"
)

// bootID identifies the current boot of the machine.
var bootID = sync.OnceValue(func() string {
	//nolint:errcheck // without it, process id and start time must do
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})

// stat returns the identity of a process and its state from /proc.
func stat(pid int) (identity, procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return identity{PID: pid}, procfs.ProcStat{}, err
	}
	s, err := p.Stat()
	return identity{PID: pid, Start: s.Starttime, Boot: bootID()}, s, err
}

// ended reports whether a process is a zombie.
func ended(s procfs.ProcStat) bool { return s.State == "Z" || s.State == "X" }

// arguments returns the arguments of a process, or nil if they cannot be read.
func arguments(pid int) []string {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return nil
	}
	args, _ := p.CmdLine() //nolint:errcheck // as said above
	return args
}

// searchProcess finds a process of this user with the agent's --id and --data. No other agent has
// the same pair.
func searchProcess(args []string) (identity, bool) {
	name, data := value(args, "--id"), value(args, "--data")
	all, err := procfs.AllProcs()
	if err != nil || name == "" || data == "" {
		return identity{}, false
	}
	for _, p := range all {
		theirs := arguments(p.PID)
		if p.PID == os.Getpid() || value(theirs, "--id") != name || value(theirs, "--data") != data {
			continue
		}
		status, err := p.NewStatus()
		if err != nil || int(status.UIDs[1]) != os.Geteuid() {
			continue
		}
		// Only a process that a spawner started leads a group; a child of the agent does not.
		if id, s, err := stat(p.PID); err == nil && !ended(s) && s.PGRP == p.PID {
			return id, true
		}
	}
	return identity{}, false
}
