package load

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hubbub/protocol/wire"
)

// A usage is the use of resources by a process up to now.
type usage struct {
	cpu        float64 // seconds
	rss        int64   // bytes
	goroutines int
	queued     int // rows that wait for the activity log
}

// usage reads the bus's own metrics once its log has caught up, because writing the rows of a
// workload is part of its cost.
func (b Bus) usage(ctx context.Context) (usage, error) {
	const patience = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		u, err := b.metrics(ctx)
		if err != nil || u.queued == 0 {
			return u, err
		}
		select {
		case <-ctx.Done():
			return usage{}, fmt.Errorf("the activity log did not catch up within %s: %d rows wait", patience, u.queued)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var busClient = wire.NewHTTPClient()

func (b Bus) metrics(ctx context.Context) (usage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.HTTP+"/metrics", nil)
	if err != nil {
		return usage{}, err
	}
	if b.Token != "" {
		req.Header.Set("Authorization", "Bearer "+b.Token)
	}
	resp, err := busClient.Do(req)
	if err != nil {
		return usage{}, fmt.Errorf("reading the bus's metrics: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	if resp.StatusCode != http.StatusOK {
		return usage{}, fmt.Errorf("reading the bus's metrics: %s", resp.Status)
	}
	var u usage
	exact := false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch name {
		case "hubbub_cpu_seconds_total":
			u.cpu, exact = number, true
		case "process_cpu_seconds_total": // in steps of 10 ms
			if !exact {
				u.cpu = number
			}
		case "process_resident_memory_bytes":
			u.rss = int64(number)
		case "go_goroutines":
			u.goroutines = int(number)
		case "hubbub_activity_queue_rows":
			u.queued = int(number)
		}
	}
	return u, lines.Err()
}

// ownCPU returns the seconds of processor time that this process has used.
func ownCPU() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()
}
