package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ownedByUs reports whether a file belongs to the user of this process.
func ownedByUs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// FindAgent returns the process of the agent of that name whose data lies below
// a folder.
func FindAgent(data, name string) (pid int, err error) {
	list, err := processes()
	if err != nil {
		return 0, err
	}
	for pid, args := range list {
		i := slices.Index(args, "--id")
		if len(args) > 0 && strings.HasPrefix(filepath.Base(args[0]), "hubbub-agent") && i > 0 && i+1 < len(args) &&
			args[i+1] == name && strings.Contains(strings.Join(args, " "), data) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process of agent %s was found", name)
}

// processes returns the arguments of the running processes.
func processes() (map[int][]string, error) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return processesByPS()
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	list := map[int][]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			list[pid] = strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
		}
	}
	return list, nil
}

// processesByPS is for systems without /proc.
func processesByPS() (map[int][]string, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil, errors.Join(errors.New("ps cannot list the processes"), err)
	}
	list := map[int][]string{}
	for line := range bytes.Lines(out) {
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			list[pid] = fields[1:]
		}
	}
	return list, nil
}

// Kill ends a process as a crash would.
func Kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }
