package defaults

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
)

type options struct {
	Name  string
	Count int
	Wait  time.Duration
	Now   func() time.Time
	Log   *zerolog.Logger
}

func fill(o *options) options {
	d := Of(o)
	Set(&d.Name, "standard")
	Set(&d.Wait, time.Minute)
	Set(&d.Now, time.Now)
	Positive(&d.Count, 7)
	Log(&d.Log)
	return d
}

func TestWhatIsLeftOutIsFilledIn(t *testing.T) {
	for _, o := range []*options{nil, {}} {
		if d := fill(o); d.Name != "standard" || d.Count != 7 || d.Wait != time.Minute || d.Now == nil || d.Log == nil {
			t.Errorf("%+v becomes %+v", o, d)
		}
	}
}

func TestWhatIsSetStays(t *testing.T) {
	log := zerolog.Nop()
	at := time.Unix(1, 0)
	given := options{Name: "own", Count: 1, Wait: -1, Now: func() time.Time { return at }, Log: &log}
	if d := fill(&given); d.Name != "own" || d.Count != 1 || d.Wait != -1 || d.Now() != at || d.Log != &log {
		t.Errorf("%+v", d)
	}
	if d := fill(&options{Count: -1}); d.Count != 7 {
		t.Errorf("a count of -1 becomes %d", d.Count)
	}
	if given.Count = 0; fill(&given).Count != 7 || given.Count != 0 {
		t.Error("the caller's options were changed")
	}
}
