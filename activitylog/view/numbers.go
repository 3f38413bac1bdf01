package view

import (
	"fmt"
	"strings"
	"time"
)

// Short formats a duration with about three digits.
func Short(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Short(-d)
	case d < time.Second:
		return belowSecond(d)
	case d < 100*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return d.Round(time.Second).String()
	}
}

func belowSecond(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	default:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
}

// Long is like Short for durations of up to many days. It returns "" for a negative duration.
func Long(d time.Duration) string {
	switch {
	case d < 0:
		return ""
	case d < time.Second:
		return belowSecond(d)
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// Ago formats an age in one or two units, separated by the text between.
func Ago(d time.Duration, between string) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%s%02dm", int(d.Hours()), between, int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// Count formats a number with commas between thousands.
func Count(v any) string {
	digits := fmt.Sprint(v)
	if f, ok := v.(float64); ok {
		digits = fmt.Sprintf("%.0f", f)
	}
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Many returns a number and a noun, with a plural in s.
func Many(v any, word string) string { return Plural(v, word, word+"s") }

// Plural returns a number and a noun in the singular or the plural.
func Plural(v any, one, more string) string {
	n := Count(v)
	if n == "1" {
		more = one
	}
	return n + " " + more
}
