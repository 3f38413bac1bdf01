package load

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// usage is what a process has used so far.
type usage struct {
	cpu float64 // seconds
	rss int64   // bytes
}

// usage reads the bus's own metrics.
func (t Target) usage(ctx context.Context) (usage, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.HTTP+"/metrics", nil)
	if err != nil {
		return usage{}, err
	}
	if t.Token != "" {
		req.Header.Set("Authorization", "Bearer "+t.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return usage{}, fmt.Errorf("reading the bus's metrics: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return usage{}, fmt.Errorf("reading the bus's metrics: %s", resp.Status)
	}
	var u usage
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "process_cpu_seconds_total":
			u.cpu = number
		case "process_resident_memory_bytes":
			u.rss = int64(number)
		}
	}
	return u, lines.Err()
}

// clockTicks is the unit of CPU time in /proc on Linux.
const clockTicks = 100

// processUsage reads what another process has used, from /proc.
func processUsage(pid int) (usage, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 22 {
		return usage{}, fmt.Errorf("/proc/%d/stat is not understood", pid)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return usage{}, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	if err != nil {
		return usage{}, err
	}
	pages, err := strconv.ParseInt(fields[21], 10, 64)
	return usage{cpu: (user + system) / clockTicks, rss: pages * int64(os.Getpagesize())}, err
}
