package activitylog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timestampLayout is RFC 3339 in UTC with exactly six digits of the second.
const timestampLayout = "2006-01-02T15:04:05.000000Z"

// A timestamper renders unix microseconds as the column `ts` holds them. It
// keeps the part down to the second, because rows come in order of time. It is
// not safe for concurrent use.
type timestamper struct {
	second int64
	text   [len(timestampLayout)]byte
}

// format returns the text, valid until the next call.
func (t *timestamper) format(micros int64) []byte {
	second, rest := micros/1e6, micros%1e6
	if rest < 0 {
		second, rest = second-1, rest+1e6
	}
	if second != t.second || t.text[0] == 0 {
		t.second = second
		copy(t.text[:], time.Unix(second, 0).UTC().AppendFormat(nil, timestampLayout))
	}
	for i := len(t.text) - 2; i > len(t.text)-8; i-- {
		t.text[i] = byte('0' + rest%10)
		rest /= 10
	}
	return t.text[:]
}

// ParseTime reads a time of the column `ts`, or any RFC 3339 time.
func ParseTime(ts string) (time.Time, error) { return time.Parse(time.RFC3339Nano, ts) }

// ParseSpan reads a duration, such as 15m; one in days, such as 30d or 0.5d, is
// neither negative nor as long as a century.
func ParseSpan(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !(n >= 0 && n < 36500) { // NaN is neither
		return 0, fmt.Errorf("no number of days: %q", text)
	}
	return time.Duration(n * float64(24*time.Hour)), nil
}
