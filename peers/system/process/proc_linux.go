package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"hubbub/peers/system"

	"golang.org/x/sys/unix"
)

// canFind says that processes can be found again.
const canFind = true

// attributes puts an agent into a process group of its own and, unless it shall
// be kept, has the kernel end it when the thread that started it ends.
func attributes(endWithUs bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if endWithUs {
		a.Pdeathsig = syscall.SIGTERM
	}
	return a
}

// awaitEnd waits until a child has ended and leaves it to be waited for.
func awaitEnd(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// limit bounds what a process may use.
func limit(pid int, l system.Limits) error {
	if l.Memory <= 0 {
		return nil
	}
	bound := &unix.Rlimit{Cur: uint64(l.Memory), Max: uint64(l.Memory)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, bound, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limiting its memory: %w", err)
	}
	return nil
}

// bootID names this boot of the machine.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// stat returns the identity of a process, and whether it has ended and waits for
// its parent.
func stat(pid int) (id identity, ended bool, err error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return id, false, err
	}
	// The second field is the program's name in parentheses, which may hold
	// anything; the others follow the last parenthesis.
	_, rest, found := strings.Cut(string(b), "(")
	if i := strings.LastIndexByte(rest, ')'); found && i >= 0 {
		rest = rest[i+1:]
	}
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return id, false, fmt.Errorf("process %d has no start time", pid)
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return id, false, fmt.Errorf("reading the start time of process %d: %w", pid, err)
	}
	return identity{PID: pid, Start: start, Boot: bootID()}, fields[0] == "Z" || fields[0] == "X", nil
}

// identify returns the identity of a child.
func identify(pid int) identity {
	id, _, err := stat(pid)
	if err != nil {
		return identity{PID: pid}
	}
	return id
}

// arguments returns those of a process, or none where they cannot be read.
func arguments(pid int) []string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// searchProcess looks for a process of this user whose arguments contain the
// agent's --id and --data, which together no other agent has.
func searchProcess(args []string) (identity, bool) {
	want := [][]byte{pair(args, "--id"), pair(args, "--data")}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return identity{}, false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err != nil || !bytes.Contains(line, want[0]) || !bytes.Contains(line, want[1]) {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		if group, err := unix.Getpgid(pid); err != nil || group != pid {
			continue // a child of the agent, which was not started by a spawner
		}
		if id, ended, err := stat(pid); err == nil && !ended {
			return id, true
		}
	}
	return identity{}, false
}

// pair returns an option and its value as they stand in a process's arguments.
func pair(args []string, option string) []byte {
	if v := value(args, option); v != "" {
		return []byte("\x00" + option + "\x00" + v + "\x00")
	}
	return []byte{0, 0, 0} // in no list of arguments
}
