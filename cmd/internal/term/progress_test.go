package term

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress_StartsAfterOneSecond(t *testing.T) {
	for work, want := range map[time.Duration]string{
		900 * time.Millisecond:  "",
		2500 * time.Millisecond: "\r\x1b[Kchecking: 1 s\r\x1b[Kchecking: 7 rows, 2 s\r\x1b[K",
	} {
		synctest.Test(t, func(t *testing.T) {
			var terminal strings.Builder
			p := Begin(&terminal, "checking", "rows")
			time.AfterFunc(1500*time.Millisecond, func() { p.Add(7) })
			<-time.After(work)
			p.End()
			p.End() // ending twice is allowed
			if got := terminal.String(); got != want {
				t.Errorf("within %s it says %q; want %q", work, got, want)
			}
		})
	}
	var none *Progress
	none.Add(1)
	none.End()
}
