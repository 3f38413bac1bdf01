package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A process is a measured process and what it used.
type process struct {
	name    string
	pid     int
	started float64 // seconds of processor time before the measurement
	used    float64 // and during it
	memory  int64   // bytes
	syncs   int     // -1 if unknown
}

// cpu returns the processor time that the process has used, in seconds. It is 0 where
// there is no /proc.
func (p *process) cpu() (seconds float64) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.pid))
	if err != nil {
		return 0
	}
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
			seconds += time.Duration(ns).Seconds()
		}
	}
	return seconds
}

// private returns the memory that only this process has, in bytes.
func (p *process) private() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "RssAnon:"); ok {
			//nolint:errcheck // 0 then
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

var syncLine = regexp.MustCompile(`(?m)^.* +(\d+)(?: +\d+)? +(?:fsync|fdatasync)$`)

// countSyncs counts the disk syncs that the processes make while work runs. The counts are -1 if
// strace is missing or may not follow the processes.
func countSyncs(ctx context.Context, processes []process, work func() error) error {
	tracers := make([]*tracer, len(processes))
	for i := range processes {
		processes[i].syncs = -1
		tracers[i] = trace(ctx, processes[i].pid)
	}
	failed := work()
	for i, t := range tracers {
		if t != nil {
			processes[i].syncs = t.stop()
		}
	}
	return failed
}

// A tracer counts the disk syncs of one process.
type tracer struct {
	cmd     *exec.Cmd
	summary bytes.Buffer
	read    sync.WaitGroup
}

// trace starts a tracer, or returns nil if that is not possible here.
func trace(ctx context.Context, pid int) *tracer {
	t := &tracer{cmd: exec.CommandContext(ctx, "strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-p",
		fmt.Sprint(pid))}
	output, err := t.cmd.StderrPipe()
	if err != nil || t.cmd.Start() != nil {
		return nil
	}
	r := bufio.NewReader(output)
	first, err := r.ReadString('\n')            // "strace: Process N attached"
	t.read.Go(func() { t.summary.ReadFrom(r) }) //nolint:errcheck // what is missing shows as 0
	if err != nil || !strings.Contains(first, "attached") {
		t.stop()
		return nil
	}
	return t
}

// stop stops the tracer and returns its count.
func (t *tracer) stop() (syncs int) {
	t.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it has ended then
	t.read.Wait()
	t.cmd.Wait() //nolint:errcheck // the signal ends it
	for _, found := range syncLine.FindAllStringSubmatch(t.summary.String(), -1) {
		n, _ := strconv.Atoi(found[1]) //nolint:errcheck // digits
		syncs += n
	}
	return syncs
}
