package segment

import "time"

// TimestampLayout is RFC 3339 in UTC with microseconds.
const TimestampLayout = "2006-01-02T15:04:05.000000Z"

// A timestamper formats times in microseconds for the column `ts`. It caches the text of the
// second, because rows come in order of time. It is not safe for concurrent use.
type timestamper struct {
	second int64
	text   [len(TimestampLayout)]byte
}

// format returns the text, valid until the next call.
func (t *timestamper) format(micros int64) []byte {
	second, rest := micros/1e6, micros%1e6
	if rest < 0 {
		second, rest = second-1, rest+1e6
	}
	if second != t.second || t.text[0] == 0 {
		t.second = second
		copy(t.text[:], time.Unix(second, 0).UTC().AppendFormat(nil, TimestampLayout))
	}
	for i := len(t.text) - 2; i > len(t.text)-8; i-- {
		t.text[i] = byte('0' + rest%10)
		rest /= 10
	}
	return t.text[:]
}
