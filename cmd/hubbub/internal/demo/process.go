package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"

	"hubbub/peers/system"
	"hubbub/peers/system/process"
)

// AgentPID returns the process ID of an agent that the spawner with this data folder has started.
func AgentPID(ctx context.Context, data, name string) (pid int, err error) {
	handle, err := system.HandleOf(ctx, filepath.Join(data, "system.db"), system.AgentName(name))
	if err != nil {
		return 0, err
	}
	if pid = process.PID(handle); pid == 0 {
		return 0, fmt.Errorf("no process of agent %s was found", name)
	}
	return pid, nil
}

// Kill kills a process, as a crash would end it.
func Kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
