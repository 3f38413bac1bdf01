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

// limit sets the limits of a process and its descendants. Core dumps are disabled, since they
// would contain secrets. before is the user's number of tasks without the process.
func limit(pid int, l system.Limits, before int64) error {
	bounds := []bound{{"core", unix.RLIMIT_CORE, 0}}
	if l.Memory > 0 {
		bounds = append(bounds, bound{"memory", unix.RLIMIT_DATA, l.Memory})
	}
	if l.Files > 0 {
		bounds = append(bounds, bound{"open files", unix.RLIMIT_NOFILE, l.Files})
	}
	if l.Tasks > 0 { // the kernel counts the tasks of the user
		bounds = append(bounds, bound{"processes", unix.RLIMIT_NPROC, l.Tasks + before})
	}
	limited := map[int]bool{}
	for next := []int{pid}; len(next) > 0; next = startedBy(pid, limited) {
		for _, pid := range next {
			for _, b := range bounds {
				if err := b.set(pid); err != nil {
					return err
				}
			}
			limited[pid] = true
		}
	}
	return nil
}

// startedBy returns the processes in a session that were started before the limits were set.
func startedBy(session int, limited map[int]bool) (pids []int) {
	all, _ := procfs.AllProcs() //nolint:errcheck // what cannot be seen is none of ours
	for _, p := range all {
		if _, s, err := stat(p.PID); err == nil && s.Session == session && !limited[p.PID] {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// A bound is the limit of a resource.
type bound struct {
	what     string
	resource int
	most     int64
}

func (b bound) set(pid int) error {
	var has unix.Rlimit
	err := unix.Prlimit(pid, b.resource, nil, &has)
	if err == nil {
		most := min(uint64(b.most), has.Max) // only root may raise it
		err = unix.Prlimit(pid, b.resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limiting its %s: %w", b.what, err)
	}
	return nil
}

// tasksOfUser returns the number of processes and threads of this user.
func tasksOfUser() (n int64) {
	all, _ := procfs.AllProcs() //nolint:errcheck // what cannot be seen is not counted
	for _, p := range all {
		if status, err := p.NewStatus(); err == nil && int(status.UIDs[0]) == unix.Geteuid() {
			if _, s, err := stat(p.PID); err == nil {
				n += int64(s.NumThreads)
			}
		}
	}
	return n
}
