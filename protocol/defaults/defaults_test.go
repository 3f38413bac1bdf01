package defaults

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
)

type options struct {
	Name   string        `default:"standard"`
	Count  int           `positive:"7"`
	Bytes  int64         `default:"64<<20"`
	Wait   time.Duration `default:"1m30s"`
	Pause  time.Duration `positive:"2s"`
	Nested struct {
		Rate int `default:"3"`
	}
	Plain int
	Now   func() time.Time
	Log   *zerolog.Logger
	inner struct{ plain int }
}

func complete(o *options) options {
	d := Of(o)
	Set(&d.Now, time.Now)
	Log(&d.Log)
	return d
}

func TestOf_FillsInWhatIsLeftOut(t *testing.T) {
	for _, o := range []*options{nil, {}} {
		d := complete(o)
		if d.Name != "standard" || d.Count != 7 || d.Bytes != 64<<20 || d.Wait != 90*time.Second || d.Pause != 2*time.Second ||
			d.Nested.Rate != 3 || d.Plain != 0 || d.Now == nil || d.Log == nil || d.inner.plain != 0 {
			t.Errorf("%+v becomes %+v", o, d)
		}
	}
}

func TestOf_KeepsWhatIsSet(t *testing.T) {
	log := zerolog.Nop()
	at := time.Unix(1, 0)
	given := options{Name: "own", Count: 1, Bytes: -2, Wait: -1, Pause: 1, Now: func() time.Time { return at }, Log: &log}
	given.Nested.Rate = -4
	if d := complete(&given); d.Name != "own" || d.Count != 1 || d.Bytes != -2 || d.Wait != -1 || d.Pause != 1 ||
		d.Nested.Rate != -4 || d.Now() != at || d.Log != &log {
		t.Errorf("%+v", d)
	}
	if d := complete(&options{Count: -1, Pause: -1}); d.Count != 7 || d.Pause != 2*time.Second {
		t.Errorf("negative values become %d and %s", d.Count, d.Pause)
	}
	if given.Count = 0; complete(&given).Count != 7 || given.Count != 0 {
		t.Error("the caller's options were changed")
	}
}

func TestOf_RefusesWrongTags(t *testing.T) {
	for name, of := range map[string]func(){
		"no number": func() {
			Of(&struct {
				N int `default:"many"`
			}{})
		},
		"no shift": func() {
			Of(&struct {
				N int `default:"1<<x"`
			}{})
		},
		"no duration": func() {
			Of(&struct {
				D time.Duration `positive:"10"`
			}{})
		},
		"a function": func() {
			Of(&struct {
				F func() `default:"f"`
			}{})
		},
		"a list": func() {
			Of(&struct {
				L []int `default:"1"`
			}{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the tag is accepted")
				}
			}()
			of()
		})
	}
}
