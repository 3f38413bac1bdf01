package program

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// TestEnv_ExtendsItsStop checks that a stop ends the process after stopTimeout, at a second
// signal, or at the end of its extension, which is logged.
func TestEnv_ExtendsItsStop(t *testing.T) {
	for name, c := range map[string]struct {
		extend         []time.Duration // at each second, how much longer the stop takes
		ends, signal   time.Duration   // 0: never
		hangs          time.Duration   // of a Write; 0: never
		exits, lasting time.Duration
	}{
		"in time":                    {ends: 9 * time.Second, lasting: 9 * time.Second},
		"never":                      {exits: stopTimeout, lasting: stopTimeout},
		"never, at a second signal":  {signal: 4 * time.Second, exits: 4 * time.Second, lasting: 4 * time.Second},
		"in time, signaled twice":    {signal: sameStop / 2, ends: 9 * time.Second, lasting: 9 * time.Second},
		"never, signaled twice":      {signal: time.Microsecond, exits: stopTimeout, lasting: stopTimeout},
		"never, in a Write":          {hangs: time.Second, exits: time.Second, lasting: time.Second},
		"in time, despite a Write":   {hangs: 20 * time.Second, ends: 9 * time.Second, lasting: 9 * time.Second},
		"just after":                 {signal: sameStop, exits: sameStop, lasting: sameStop},
		"extended by less":           {extend: []time.Duration{time.Second}, exits: stopTimeout, lasting: stopTimeout},
		"extended once":              {extend: []time.Duration{20 * time.Second}, exits: 21*time.Second + stopMargin, lasting: 21*time.Second + stopMargin},
		"extended, and ends":         {extend: []time.Duration{20 * time.Second}, ends: 15 * time.Second, lasting: 15 * time.Second},
		"extended, a second signal":  {extend: []time.Duration{time.Hour}, signal: 11 * time.Second, exits: 11 * time.Second, lasting: 11 * time.Second},
		"extended again and again":   {extend: []time.Duration{9 * time.Second, 10 * time.Second, 11 * time.Second}, ends: 15 * time.Second, lasting: 15 * time.Second},
		"extended again, and no end": {extend: []time.Duration{9 * time.Second, 10 * time.Second}, exits: 12*time.Second + stopMargin, lasting: 12*time.Second + stopMargin},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log, stderr bytes.Buffer
				var exits time.Duration
				began := time.Now()
				e := &Env{Name: "hubbub-test", Log: zerolog.New(&log), notify: &notifier{}, Streams: Streams{Stderr: &stderr}}
				e.process.exit = func(code int) { exits = time.Since(began) * time.Duration(code) }
				if c.hangs > 0 {
					e.process.blocked = func(time.Duration) bool { return time.Since(began) >= c.hangs }
				}
				signals, done := make(chan os.Signal, 1), make(chan struct{})
				go func() {
					for i, by := range c.extend {
						time.Sleep(time.Second)
						e.ExtendStop(time.Now().Add(by))
						var line struct {
							Message string
							Until   time.Time
						}
						err := json.NewDecoder(&log).Decode(&line)
						if want := began.Add(time.Duration(i+1)*time.Second + by + stopMargin); err != nil || line.Message != "stopping takes longer" || !line.Until.Equal(want) {
							t.Errorf("the log says %+v (%v); want %s", line, err, want)
						}
					}
				}()
				if c.ends > 0 {
					time.AfterFunc(c.ends, func() { close(done) })
				}
				if c.signal > 0 {
					time.AfterFunc(c.signal, func() { signals <- os.Interrupt })
				}
				e.awaitEnd(signals, done)
				if took := time.Since(began); took != c.lasting || exits != c.exits {
					t.Errorf("it waited %s and ended the process after %s; want %s and %s: %s", took, exits, c.lasting, c.exits, &stderr)
				}
			})
		})
	}
}
