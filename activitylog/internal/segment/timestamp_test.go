package segment

import (
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"

	"pgregory.net/rapid"
)

func TestTimestamp_IsRFC3339WithSixDigits(t *testing.T) {
	var ts timestamper
	for _, c := range []struct {
		micros int64
		want   string
	}{
		{0, "1970-01-01T00:00:00.000000Z"},
		{999_999, "1970-01-01T00:00:00.999999Z"},
		{1_000_000, "1970-01-01T00:00:01.000000Z"},
		{-1, "1969-12-31T23:59:59.999999Z"},
		{1771329600000045, "2026-02-17T12:00:00.000045Z"},
	} {
		if got := string(ts.format(c.micros)); got != c.want {
			t.Errorf("%d: %s, want %s", c.micros, got, c.want)
		}
	}
}

func TestTimestamp_AgreesWithPackageTime(t *testing.T) {
	var ts timestamper
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(-62135596800e6, 253402300799e6).Draw(t, "micros")
		want := protocol.FormatTime(time.UnixMicro(micros))
		if got := string(ts.format(micros)); got != want {
			t.Fatalf("%d: %s, want %s", micros, got, want)
		}
		back, err := activitylog.ParseTime(want)
		if err != nil || back.UnixMicro() != micros {
			t.Fatalf("%s read back as %v, %v", want, back, err)
		}
	})
}
