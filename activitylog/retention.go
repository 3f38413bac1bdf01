package activitylog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DefaultRetention is how much of a log is kept.
const DefaultRetention = "90d"

// A Retention limits how much of a log is kept, by age or by size. The zero Retention keeps
// everything.
type Retention struct {
	Age   time.Duration
	Bytes int64
}

// Forever reports whether everything is kept.
func (k Retention) Forever() bool { return k == Retention{} }

// byteUnits are the suffixes of a number of bytes, the longest first.
var byteUnits = []struct {
	name string
	size float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
}

// ParseRetention parses an age such as 90d or 36h, a number of bytes such as 20GiB or 500MB, or
// "forever".
func ParseRetention(text string) (k Retention, err error) {
	if text == "forever" {
		return k, nil
	}
	for _, unit := range byteUnits {
		digits, ok := strings.CutSuffix(text, unit.name)
		if !ok {
			continue
		}
		if n, err := strconv.ParseFloat(digits, 64); err == nil && n*unit.size >= 1 && n*unit.size < 1<<60 {
			return Retention{Bytes: int64(n * unit.size)}, nil
		}
		break
	}
	if k.Age, err = ParseSpan(text); err != nil || k.Age <= 0 {
		return Retention{}, fmt.Errorf("%q is neither an age such as 90d, nor bytes such as 20GiB, nor forever", text)
	}
	return k, nil
}

// String describes the retention in words.
func (k Retention) String() string {
	switch {
	case k.Forever():
		return "forever"
	case k.Age == 0:
		for i := len(byteUnits)/2 - 1; i >= 0; i-- {
			if u := byteUnits[i]; float64(k.Bytes) >= u.size {
				return strconv.FormatFloat(float64(k.Bytes)/u.size, 'f', -1, 64) + " " + u.name
			}
		}
		return fmt.Sprintf("%d bytes", k.Bytes)
	case k.Age%(24*time.Hour) == 0:
		return fmt.Sprintf("%d days", k.Age/(24*time.Hour))
	}
	return k.Age.String()
}

// A DiskUsage says how much disk space a log takes.
type DiskUsage struct {
	Bytes int64     // of all its files
	Since time.Time // the time of its first row; zero if it has none
}

// tooYoung is the age below which the size of a log allows no forecast.
const tooYoung = time.Hour

// Forecast estimates from the growth so far how many bytes the log will take, and how long it
// will take to reach that size. If everything is kept, bytes is the growth in a day. It returns
// false if the log is too young for an estimate.
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

// Describe describes the size of the log now, and the size that Forecast expects.
func (k Retention) Describe(f DiskUsage, now time.Time) string {
	says := fmt.Sprintf("It takes %s.", formatBytes(f.Bytes))
	bytes, in, known := k.Forecast(f, now)
	switch {
	case !known:
		return says + " Its growth can be estimated once it has run for an hour."
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
