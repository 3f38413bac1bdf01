package activitylog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A DiskUsage says how much disk space a log takes.
type DiskUsage struct {
	Bytes int64     // of all its files
	Since time.Time // the time of its first row; zero if it has none
}

// DiskUsageOf returns the disk usage of the log at path. A missing log takes nothing.
func DiskUsageOf(ctx context.Context, path string) (f DiskUsage, err error) {
	files, err := filepath.Glob(strings.TrimSuffix(path, ".db") + "*.db*")
	if err != nil {
		return f, err
	}
	for _, name := range files {
		base := filepath.Base(name)
		if !strings.HasPrefix(base, filepath.Base(path)) && !IsSealed(path, base) {
			continue
		}
		if info, err := os.Stat(name); err == nil { // else it left meanwhile
			f.Bytes += info.Size()
		}
	}
	if f.Bytes == 0 {
		return f, nil
	}
	r := Open(path)
	defer r.Close()
	first, _, err := r.After(ctx, Filter{}, nil, 1)
	if err != nil || len(first) == 0 {
		return f, err
	}
	f.Since = first[0].Time()
	return f, nil
}

// tooYoung is the age below which the size of a log allows no forecast.
const tooYoung = time.Hour

// Forecast returns about how many bytes the log comes to if it goes on as it did, and how
// long it takes from now until it does. ok is false where nothing is known: the log is too
// young. Kept forever, it comes to no number, and bytes is what a day adds.
func (k Retention) Forecast(f DiskUsage, now time.Time) (bytes int64, in time.Duration, ok bool) {
	age := now.Sub(f.Since)
	if f.Since.IsZero() || age < tooYoung || f.Bytes == 0 {
		return 0, 0, false
	}
	rate := float64(f.Bytes) / float64(age) // bytes a nanosecond
	switch {
	case k.Forever():
		return int64(rate * float64(24*time.Hour)), 0, true
	case k.Bytes > 0:
		return max(k.Bytes, f.Bytes), time.Duration(max(0, min(float64(k.Bytes-f.Bytes)/rate, float64(1<<62)))), true
	}
	return int64(rate * float64(max(k.Age, age))), max(0, k.Age-age), true
}

// Describe says in words what k comes to on the disk.
func (k Retention) Describe(f DiskUsage, now time.Time) string {
	says := fmt.Sprintf("It takes %s.", formatBytes(f.Bytes))
	bytes, in, known := k.Forecast(f, now)
	switch {
	case !known:
		return says + " Its growth is known once it has run for an hour."
	case k.Forever():
		return says + fmt.Sprintf(" It grows by about %s a day without limit.", formatBytes(bytes))
	case in == 0:
		return says + fmt.Sprintf(" It stays at about %s.", formatBytes(bytes))
	}
	return says + fmt.Sprintf(" At this rate it will take about %s in %s.", formatBytes(bytes), formatDays(in))
}

func formatBytes(n int64) string {
	for i := len(byteUnits)/2 - 1; i >= 0; i-- {
		if u := byteUnits[i]; float64(n) >= u.size {
			return fmt.Sprintf("%.3g %s", float64(n)/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func formatDays(d time.Duration) string {
	const day = 24 * time.Hour
	if d < day+day/2 {
		return "a day"
	}
	return fmt.Sprintf("%d days", (d+day/2)/day)
}
