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
// would hold secrets. The user had so many tasks before it.
func limit(pid int, l system.Limits, before int64) error {
	bounds := []bound{{"core", unix.RLIMIT_CORE, 0}}
	if l.Memory > 0 {
		bounds = append(bounds, bound{"memory", unix.RLIMIT_DATA, l.Memory})
	}
	if l.Files > 0 {
		bounds = append(bounds, bound{"open files", unix.RLIMIT_NOFILE, l.Files})
	}
	if l.Tasks > 0 { // the kernel counts those of the user, not of the agent
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

// startedBy returns the processes that are in the session of another, and not limited yet:
// it had started them before it was.
func startedBy(session int, limited map[int]bool) (pids []int) {
	all, _ := procfs.AllProcs() //nolint:errcheck // what cannot be seen is none of ours
	for _, p := range all {
		if _, s, err := stat(p.PID); err == nil && s.Session == session && !limited[p.PID] {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// A bound is the most that a process may use of a resource.
type bound struct {
	what     string
	resource int
	most     int64
}

func (b bound) set(pid int) error {
	var has unix.Rlimit
	err := unix.Prlimit(pid, b.resource, nil, &has)
	if err == nil {
		most := min(uint64(b.most), has.Max) // only root may have more than that
		err = unix.Prlimit(pid, b.resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limiting its %s: %w", b.what, err)
	}
	return nil
}

// tasksOfUser returns how many processes and threads this user has.
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
