package otlp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog/otlp"
	"hubbub/protocol/timetest"

	"github.com/rs/zerolog"
)

// A scriptedCollector gives the scripted responses first, and then correct ones.
type scriptedCollector struct {
	collector
	answers []func(w http.ResponseWriter)
	asked   []time.Duration // when, from the start
	begun   time.Time
}

func (m *scriptedCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.asked = append(m.asked, time.Since(m.begun))
	var answer func(w http.ResponseWriter)
	if len(m.answers) > 0 {
		answer, m.answers = m.answers[0], m.answers[1:]
	}
	m.mu.Unlock()
	if answer != nil {
		answer(w)
		return
	}
	m.collector.ServeHTTP(w, r)
}

func status(code int, header ...string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// hangUp ends the connection without an answer.
func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// pipes is a listener whose connections are in memory, so that time stands still
// while they wait.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve lets an exporter reach a collector in memory until the returned function is called, which
// waits for requests that hang. In a bubble, no stall of the machine uses up the two seconds of a
// stop.
func serve(t *testing.T, e *otlp.Exporter, collector http.Handler) (stop func()) {
	t.Helper()
	listener := make(pipes)
	server := &http.Server{Handler: collector}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	e.DialWith(listener.dial)
	return func() {
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}
}

// An exportOutcome is what an exporter has logged and sent.
type exportOutcome struct {
	sent, dropped int64
	log           string
	stopped       time.Duration // how long the stop took
}

// exports runs an exporter with a collector in memory until it must stop.
func exports(t *testing.T, m *scriptedCollector, offered int, stop time.Duration) (r exportOutcome) {
	t.Helper()
	var said bytes.Buffer
	log := zerolog.New(&said)
	e := otlp.New(otlp.Settings{Endpoint: "http://collector/v1/traces", Timeout: 10 * time.Second}, &log)
	stopServer := serve(t, e, m)
	m.begun = time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for i := range offered {
		e.Offer(1, message(int64(i), fmt.Sprint("m", i), "a", "b", `{}`, "ok"))
		synctest.Wait()
	}
	timetest.Advance(stop)
	cancel()
	at := time.Now()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.stopped = time.Since(at)
	r.sent, r.dropped = e.Stats()
	r.log = said.String()
	stopServer()
	return r
}

// TestExporter_RetriesTemporaryFailures covers the four statuses that OTLP names
// and broken connections, and no others.
func TestExporter_RetriesTemporaryFailures(t *testing.T) {
	date := func(w http.ResponseWriter) {
		status(503, "Retry-After", time.Now().Add(30*time.Second).UTC().Format(http.TimeFormat))(w)
	}
	for name, c := range map[string]struct {
		answers []func(w http.ResponseWriter)
		sent    int64
		asked   int
		pauses  [][2]time.Duration // bounds of the time between the requests
	}{
		"429":            {[]func(w http.ResponseWriter){status(429)}, 2, 2, [][2]time.Duration{{2, 6}}},
		"502, 503, 504":  {[]func(w http.ResponseWriter){status(502), status(503), status(504)}, 2, 4, [][2]time.Duration{{2, 6}, {4, 10}, {8, 18}}},
		"hangs up":       {[]func(w http.ResponseWriter){hangUp}, 2, 2, [][2]time.Duration{{2, 6}}},
		"seconds":        {[]func(w http.ResponseWriter){status(429, "Retry-After", "100")}, 2, 2, [][2]time.Duration{{100, 102}}},
		"a date":         {[]func(w http.ResponseWriter){date}, 2, 2, [][2]time.Duration{{29, 33}}},
		"a year":         {[]func(w http.ResponseWriter){status(503, "Retry-After", "31536000")}, 2, 2, [][2]time.Duration{{600, 602}}},
		"nonsense":       {[]func(w http.ResponseWriter){status(503, "Retry-After", "-1")}, 2, 2, [][2]time.Duration{{2, 6}}},
		"400":            {[]func(w http.ResponseWriter){status(400)}, 0, 1, nil},
		"401":            {[]func(w http.ResponseWriter){status(401, "Retry-After", "1")}, 0, 1, nil},
		"500":            {[]func(w http.ResponseWriter){status(500)}, 0, 1, nil},
		"five times 503": {[]func(w http.ResponseWriter){status(503), status(503), status(503), status(503), status(503)}, 0, 5, [][2]time.Duration{{2, 6}, {4, 10}, {8, 18}, {16, 34}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &scriptedCollector{answers: c.answers}
				r := exports(t, m, 1, time.Hour)
				if r.sent != c.sent || r.dropped != 2-c.sent || len(m.asked) != c.asked || int64(len(m.spans)) != c.sent {
					t.Errorf("sent %d, dropped %d, asked at %v, the collector has %d", r.sent, r.dropped, m.asked, len(m.spans))
				}
				if lost := strings.Contains(r.log, `"dropped":2`); lost != (c.sent == 0) || strings.Count(r.log, "\n") > 1 {
					t.Errorf("the log says %q", r.log)
				}
				for i, p := range c.pauses[:min(len(c.pauses), max(len(m.asked)-1, 0))] {
					if got := m.asked[i+1] - m.asked[i]; got < p[0]*time.Second || got > p[1]*time.Second {
						t.Errorf("pause %d is %s; want %d s to %d s", i+1, got, p[0], p[1])
					}
				}
			})
		})
	}
}

// TestExporter_QueuesDuringPause checks that a collector that asks for a pause
// gets no requests. Meanwhile the queue keeps what fits, and drops and logs the
// rest.
func TestExporter_QueuesDuringPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &scriptedCollector{answers: []func(w http.ResponseWriter){status(429, "Retry-After", "300")}}
		// 256 messages are in the refused request, 256 wait, and 88 do not fit.
		r := exports(t, m, 600, time.Hour)
		if r.sent != 2*512 || r.dropped != 4*88 || len(m.spans) != 2*512 {
			t.Errorf("sent %d, dropped %d, the collector has %d", r.sent, r.dropped, len(m.spans))
		}
		if len(m.asked) != 3 || m.asked[1] < 300*time.Second || m.asked[2] > 305*time.Second {
			t.Errorf("asked at %v", m.asked)
		}
		if strings.Count(r.log, "\n") != 1 || !strings.Contains(r.log, `"dropped":352`) || !strings.Contains(r.log, "HTTP 429") {
			t.Errorf("the log says %q", r.log)
		}
	})
}

// TestExporter_StopTriesOnce checks that a stop takes at most two seconds, whatever
// the collector does, and that every loss is logged.
func TestExporter_StopTriesOnce(t *testing.T) {
	hang := func(http.ResponseWriter) { time.Sleep(time.Minute) }
	for name, c := range map[string]struct {
		answers []func(w http.ResponseWriter)
		stop    time.Duration
		sent    int64
		asked   int
		most    time.Duration
	}{
		"it is back":             {[]func(w http.ResponseWriter){status(503, "Retry-After", "300")}, 10 * time.Second, 2, 2, 0},
		"it is not":              {[]func(w http.ResponseWriter){status(503), status(503)}, 3 * time.Second, 0, 2, 0},
		"it hangs":               {[]func(w http.ResponseWriter){status(503), hang}, 3 * time.Second, 0, 2, 2 * time.Second},
		"it hung before":         {[]func(w http.ResponseWriter){hang}, 5 * time.Second, 2, 2, 0},
		"it hung, and does so":   {[]func(w http.ResponseWriter){hang, hang}, 5 * time.Second, 0, 2, 2 * time.Second},
		"the first request ever": {nil, time.Second, 2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &scriptedCollector{answers: c.answers}
				r := exports(t, m, 1, c.stop)
				if r.sent != c.sent || r.dropped != 2-c.sent || len(m.asked) != c.asked || r.stopped > c.most {
					t.Errorf("sent %d, dropped %d, asked at %v, the stop took %s", r.sent, r.dropped, m.asked, r.stopped)
				}
				if lost := strings.Contains(r.log, `"dropped":2`); lost != (c.sent == 0) {
					t.Errorf("the log says %q", r.log)
				}
			})
		})
	}
}
