package activitylog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseTime parses a time of the column `ts`, or any RFC 3339 time.
func ParseTime(ts string) (time.Time, error) { return time.Parse(time.RFC3339Nano, ts) }

// ParseSpan parses a duration, such as 15m, or a number of days, such as 30d or 0.5d. The number
// of days must not be negative, and must be less than 36500.
func ParseSpan(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !(n >= 0 && n < 36500) { // NaN is neither
		return 0, fmt.Errorf("not a number of days: %q", text)
	}
	return time.Duration(n * float64(24*time.Hour)), nil
}
