package cmd_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// resources are the resources that a program uses at one moment.
type resources struct {
	memory     int // resident, in kB
	files      int // open
	threads    int
	goroutines int // of the bus, which reports them; otherwise 0
}

// resourceUsage measures every program of the system. The agents are added up.
func (s *fixture) resourceUsage() (map[string]resources, error) {
	all := map[string]resources{}
	for name, p := range s.run {
		f, err := measure(p.cmd.Process.Pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = f
	}
	bus := all["bus"]
	var err error
	if bus.goroutines, err = goroutines(s.bus); err != nil {
		return nil, err
	}
	all["bus"] = bus
	var agents resources
	for _, pid := range s.agents() {
		f, err := measure(pid)
		if err != nil {
			continue // it has ended
		}
		agents.memory += f.memory
		agents.files += f.files
		agents.threads += f.threads
	}
	all["agents"] = agents
	return all, nil
}

// agents returns the process IDs of the system's agents.
func (s *fixture) agents() []int {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var pids []int
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(raw), s.data) {
			continue
		}
		program, _, _ := strings.Cut(string(raw), "\x00")
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil && filepath.Base(program) == "hubbub-agent" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

func measure(pid int) (f resources, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	status, err := os.Open(dir + "/status")
	if err != nil {
		return f, err
	}
	defer status.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch key {
		case "VmRSS":
			f.memory = n
		case "Threads":
			f.threads = n
		}
	}
	open, err := os.ReadDir(dir + "/fd")
	f.files = len(open)
	return f, err
}

// goroutines returns the number of goroutines of a bus.
func goroutines(bus string) (int, error) {
	resp, err := http.Get("http://" + bus + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, fmt.Errorf("the bus does not say how many goroutines it has")
}
