package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/cmd/internal/fleet"
)

// TestMain lets the test's own binary be the children.
func TestMain(m *testing.M) {
	if role := os.Getenv("FLEET_TEST_ROLE"); role != "" {
		play(role)
		return
	}
	os.Exit(m.Run())
}

// play is one child: it logs "ready" and runs until it is stopped.
func play(role string) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	fmt.Fprintf(os.Stderr, `{"level":"info","message":"started","pid":%d}`+"\n", os.Getpid())
	switch role {
	case "usage":
		os.Exit(2)
	case "fails":
		os.Exit(1)
	case "recovers":
		path := os.Getenv("FLEET_TEST_FILE")
		starts, _ := os.ReadFile(path) // none at first
		if len(starts) < 7 {
			_ = os.WriteFile(path, append(starts, '.'), 0o600)
			os.Exit(1)
		}
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintln(os.Stderr, `{"level":"info","message":"ready"}`)
	switch role {
	case "recovers":
		fmt.Fprintln(os.Stderr, `{"level":"info","message":"working"}`)
	case "extends":
		until := time.Now().Add(time.Minute).Format(time.RFC3339Nano)
		fmt.Fprintf(os.Stderr, `{"level":"warn","until":%q,"message":"stopping takes longer"}`+"\n", until)
	}
	<-term
	fmt.Fprint(os.Stderr, "stopped, with no line's end")
}

// A lineLog keeps what a fleet says.
type lineLog struct {
	mu    sync.Mutex
	lines []string
	grown chan struct{}
}

func newLineLog() *lineLog { return &lineLog{grown: make(chan struct{}, 1)} }

func (j *lineLog) add(s string) {
	j.mu.Lock()
	j.lines = append(j.lines, s)
	j.mu.Unlock()
	select {
	case j.grown <- struct{}{}:
	default:
	}
}

func (j *lineLog) index(part string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.IndexFunc(j.lines, func(l string) bool { return strings.Contains(l, part) })
}

// await waits until some line contains part.
func (j *lineLog) await(t *testing.T, part string) {
	t.Helper()
	for j.index(part) < 0 {
		select {
		case <-j.grown:
		case <-t.Context().Done():
			t.Fatalf("never: %q", part)
		}
	}
}

func (j *lineLog) options() *fleet.Options {
	return &fleet.Options{
		Line:        func(name string, line []byte) { j.add(name + "| " + string(line)) },
		Event:       func(name, text string) { j.add(name + "! " + text) },
		MinBackoff:  time.Millisecond,
		StopTimeout: time.Minute,
	}
}

func as(name, role string, stage int) fleet.Child {
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		panic(err)
	}
	return fleet.Child{Name: name, Path: self, Stage: stage, Env: []string{"FLEET_TEST_ROLE=" + role, "GORACE=atexit_sleep_ms=0"}}
}

// start runs a fleet; the returned function stops it and gives Run's error.
func start(t *testing.T, f *fleet.Fleet) func() error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	var once sync.Once
	var err error
	stop := func() error { once.Do(func() { cancel(); err = <-done }); return err }
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestFleet_StartsAndStopsInOrder(t *testing.T) {
	j := newLineLog()
	f := fleet.New([]fleet.Child{as("peer", "stays", 1), as("bus", "stays", 0)}, j.options())
	stop := start(t, f)
	if err := f.Ready(t.Context(), "peer"); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	order := []string{`bus| {"level":"info","message":"ready"}`, `peer| {"level":"info","message":"started"`, "peer| stopped", "bus| stopped"}
	last := -1
	for _, want := range order {
		at := j.index(want)
		if at <= last {
			t.Errorf("%q is line %d, after line %d: %q", want, at, last, j.lines)
		}
		last = at
	}
	if f.PID("peer") != 0 || f.PID("bus") != 0 {
		t.Error("a child still runs")
	}
}

// TestFleet_PassesALineOnBeforeItActs checks that nothing that follows from a child's readiness can
// be logged before it, and that a child that is ready has a process.
func TestFleet_PassesALineOnBeforeItActs(t *testing.T) {
	j := newLineLog()
	o := j.options()
	var f *fleet.Fleet
	over, cancel := context.WithCancel(t.Context())
	cancel()
	o.Line = func(_ string, line []byte) {
		if strings.Contains(string(line), `"ready"`) && (f.Ready(over, "bus") == nil || f.PID("bus") == 0) {
			t.Errorf("the bus has process %d and is ready before its line is logged", f.PID("bus"))
		}
	}
	f = fleet.New([]fleet.Child{as("bus", "stays", 0)}, o)
	start(t, f)
	if err := f.Ready(t.Context(), "bus"); err != nil {
		t.Fatal(err)
	}
}

// TestFleet_WaitsForAnExtendedStop stops a child that announces how long its stop may take.
func TestFleet_WaitsForAnExtendedStop(t *testing.T) {
	j := newLineLog()
	o := j.options()
	o.StopTimeout = 2 // no process ends in a nanosecond
	extended := make(chan time.Time, 1)
	o.OnStopExtended = func(until time.Time) { extended <- until }
	f := fleet.New([]fleet.Child{as("bus", "extends", 0)}, o)
	stop := start(t, f)
	if until := <-extended; time.Until(until) < 30*time.Second {
		t.Errorf("the stop is extended until %s", until)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if j.index("bus| stopped") < 0 || j.index("does not stop") >= 0 {
		t.Errorf("the child did not stop by itself: %q", j.lines)
	}
}

func TestFleet_RestartsAKilledChild(t *testing.T) {
	j := newLineLog()
	f := fleet.New([]fleet.Child{as("bus", "stays", 0)}, j.options())
	start(t, f)
	if err := f.Ready(t.Context(), "bus"); err != nil {
		t.Fatal(err)
	}
	first := f.PID("bus")
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	j.await(t, "bus! ended (signal: killed); starting again")
	if err := f.Ready(t.Context(), "bus"); err != nil { // the next one
		t.Fatal(err)
	}
	if second := f.PID("bus"); second == first || second == 0 {
		t.Errorf("pid %d, then %d", first, second)
	}
}

func TestFleet_KeepsAChildDownAfterWrongUsage(t *testing.T) {
	j := newLineLog()
	f := fleet.New([]fleet.Child{as("bus", "stays", 0), as("peer", "usage", 1)}, j.options())
	start(t, f)
	j.await(t, "peer! was called wrongly and stays down")
	if err := f.Ready(t.Context(), "peer"); err == nil {
		t.Error("a child that stays down was ready")
	}
	if f.PID("bus") == 0 {
		t.Error("the bus went down with it")
	}
}

func TestFleet_EndsWithItsFirstStage(t *testing.T) {
	j := newLineLog()
	f := fleet.New([]fleet.Child{as("bus", "fails", 0), as("peer", "stays", 1)}, j.options())
	err := f.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "bus stays down") {
		t.Errorf("Run: %v", err)
	}
	if j.index("bus! ended 6 times in a row and stays down (exit status 1)") < 0 {
		t.Errorf("not said: %q", j.lines)
	}
}

// TestFleet_KeepsTryingAFailingChild runs a child whose first seven starts fail.
func TestFleet_KeepsTryingAFailingChild(t *testing.T) {
	j := newLineLog()
	o := j.options()
	o.RestPause = time.Millisecond
	lock := filepath.Join(t.TempDir(), "starts")
	peer := as("peer", "recovers", 1)
	peer.Env = append(peer.Env, "FLEET_TEST_FILE="+lock)
	f := fleet.New([]fleet.Child{as("bus", "stays", 0), peer}, o)
	start(t, f)
	j.await(t, "peer! ended 7 times in a row (exit status 1); starting again in 1ms")
	j.await(t, `peer| {"level":"info","message":"working"}`) // a line is logged before it counts
	if err := f.Ready(t.Context(), "peer"); err != nil {
		t.Errorf("Ready after it came up: %v", err)
	}
}

func TestFleet_KillsAChildThatIgnoresSIGTERM(t *testing.T) {
	j := newLineLog()
	o := j.options()
	o.StopTimeout = time.Millisecond
	f := fleet.New([]fleet.Child{as("bus", "deaf", 0)}, o)
	stop := start(t, f)
	if err := f.Ready(t.Context(), "bus"); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if j.index("bus! does not stop; killing it") < 0 {
		t.Errorf("not said: %q", j.lines)
	}
}

func TestFleet_ReportsAMissingProgram(t *testing.T) {
	j := newLineLog()
	f := fleet.New([]fleet.Child{{Name: "bus", Path: "/no/such/program"}}, j.options())
	if err := f.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("Run: %v", err)
	}
	if err := f.Ready(t.Context(), "tg"); !errors.Is(err, fleet.ErrNoChild) {
		t.Errorf("a child that does not exist: %v", err)
	}
}

func TestPrinter_FormatsLines(t *testing.T) {
	line := []byte(`{"level":"warn","time":"2026-11-21T12:00:00.5Z","message":"slow\u001b[31m","took":1.5,"who":"a b","peer":"tg:1"}`)
	for name, c := range map[string]struct {
		format fleet.Format
		want   []string
	}{
		"plain":  {fleet.Plain, []string{" tg     slow\uFFFD[31m peer=tg:1 took=1.5 who=\"a b\"\n", " tg     panic: no JSON\n"}},
		"colour": {fleet.Colour, []string{"\x1b[36mtg    \x1b[0m \x1b[33mslow"}},
		"json":   {fleet.JSON, []string{`"program":"tg"`, `"took":1.5`, `"message":"panic: no JSON"`}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			p := fleet.NewPrinter(&b, c.format, 6)
			p.Line("tg", line)
			p.Line("tg", []byte("panic: no JSON"))
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("lacks %q:\n%s", want, b.String())
				}
			}
		})
	}
}
