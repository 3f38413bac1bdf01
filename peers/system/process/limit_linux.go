package process

import (
	"errors"
	"fmt"

	"hubbub/peers/system"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// canFind reports whether processes can be found again.
const canFind = true

// limit bounds what a process, and whatever it starts, may use. No core is ever left: it
// would hold secrets.
func limit(pid int, l system.Limits) error {
	bounds := []struct {
		what     string
		resource int
		most     int64 // 0 where nothing is bounded
	}{
		{"memory", unix.RLIMIT_DATA, l.Memory},
		{"open files", unix.RLIMIT_NOFILE, l.Files},
		{"processes", unix.RLIMIT_NPROC, l.Tasks},
		{"core", unix.RLIMIT_CORE, 0},
	}
	for _, b := range bounds {
		if b.most <= 0 && b.resource != unix.RLIMIT_CORE {
			continue
		}
		if b.resource == unix.RLIMIT_NPROC { // the kernel counts those of the user, not of the agent
			b.most += tasksOfUser(unix.Geteuid())
		}
		var has unix.Rlimit
		err := unix.Prlimit(pid, b.resource, nil, &has)
		if err == nil {
			most := min(uint64(b.most), has.Max) // only root may have more than that
			err = unix.Prlimit(pid, b.resource, &unix.Rlimit{Cur: most, Max: most}, nil)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("limiting its %s: %w", b.what, err)
		}
	}
	return nil
}

// tasksOfUser returns how many processes and threads a user has.
func tasksOfUser(uid int) (n int64) {
	all, _ := procfs.AllProcs() //nolint:errcheck // what cannot be seen is not counted
	for _, p := range all {
		if status, err := p.NewStatus(); err == nil && int(status.UIDs[0]) == uid {
			if s, err := p.Stat(); err == nil {
				n += int64(s.NumThreads)
			}
		}
	}
	return n
}
