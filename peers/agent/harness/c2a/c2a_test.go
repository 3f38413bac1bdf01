package c2a_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/c2a"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/protocol/retry"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	harnesstest.RunReferenceIfAsked()
	goleak.VerifyTestMain(m)
}

// fixture is a harness that drives the reference program.
type fixture struct {
	*c2a.Harness
	t     *testing.T
	state string
	tools *harnesstest.Tools
	calls chan string // tools as they are called

	mu       sync.Mutex
	progress []harness.Progress
}

// start runs the reference program with faults until the test ends.
func start(t *testing.T, change func(*c2a.Options), faults ...string) *fixture {
	t.Helper()
	r := newFixture(t, change, faults...)
	r.run()
	return r
}

func newFixture(t *testing.T, change func(*c2a.Options), faults ...string) *fixture {
	t.Helper()
	r := &fixture{t: t, state: filepath.Join(t.TempDir(), "state.json"), calls: make(chan string, 100)}
	r.tools = &harnesstest.Tools{Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
		r.calls <- c.Name
		return harness.Result{}, false
	}}
	o := &c2a.Options{
		Env: harnesstest.Environ(r.state, faults...), Grace: 500 * time.Millisecond,
		Backoff: retry.Backoff{Min: 1, Max: 1},
	}
	if change != nil {
		change(o)
	}
	r.Harness = c2a.New([]string{os.Args[0]}, o)
	return r
}

func (r *fixture) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- r.Run(ctx, harness.Host{Tools: r.tools, Progress: func(p harness.Progress) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.progress = append(r.progress, p)
		}})
	}()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
}

func turn(sequence int64) *harness.Turn {
	id := fmt.Sprintf("evt_%d", sequence)
	return &harness.Turn{ID: "turn_" + id, Attempt: 1, Event: harness.Event{
		EventID: id, Sequence: sequence, IdempotencyKey: id + ":agent_a",
		ChatEvent: harness.ChatEvent{Conversation: harness.Conversation{ID: "C1", Kind: "dm"}, Content: []harness.Part{{Type: "text", Text: "hello"}}},
		Decision:  harness.Decision{Policy: "must_respond", Directedness: "to_me", Mode: "buffered"},
	}}
}

// fast sends deliveries again soon, but leaves time for an answer on a busy machine.
func fast(o *c2a.Options) { o.AnswerTimeout = 2 * time.Second }

// delivered is one chat/deliver as the program got it.
type delivered struct {
	run, attempt int
	event, key   string
}

func (r *fixture) received(method string) []harnesstest.Received {
	r.t.Helper()
	all, err := harnesstest.ReadState(r.state)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(x harnesstest.Received) bool { return x.Method != method })
}

func (r *fixture) deliveries() []delivered {
	r.t.Helper()
	var out []delivered
	for _, x := range r.received("chat/deliver") {
		var p struct {
			EventID     string
			Reliability struct {
				Attempt        int
				IdempotencyKey string
			}
		}
		if err := json.Unmarshal(x.Params, &p); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, delivered{x.Run, p.Reliability.Attempt, p.EventID, p.Reliability.IdempotencyKey})
	}
	return out
}

// accept runs turns at the same time and fails the test unless all are accepted.
func (r *fixture) accept(turns ...*harness.Turn) []harness.Outcome {
	r.t.Helper()
	outcomes, errs := make([]harness.Outcome, len(turns)), make([]error, len(turns))
	var wg sync.WaitGroup
	for i, tn := range turns {
		wg.Go(func() { outcomes[i], errs[i] = r.Turn(r.t.Context(), tn, nil) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil || outcomes[i].State != harness.Accepted {
			r.t.Fatalf("%s: %+v, %v", turns[i].ID, outcomes[i], err)
		}
	}
	return outcomes
}

func TestTurn_DeliversAndTakesActions(t *testing.T) {
	r := start(t, nil)
	caps, err := r.Capabilities(t.Context())
	if err != nil || caps.ProtocolVersion != c2a.Version0602 || !caps.Injection.Notify {
		t.Fatalf("%+v, %v", caps, err)
	}
	r.accept(turn(1))
	if name := <-r.calls; name != "chat.send_message" {
		t.Fatalf("it called %s", name)
	}
	if c := r.tools.Calls()[0]; c.Arguments["inReplyTo"] != "evt_1" || c.Arguments["idempotencyKey"] != "evt_1:agent_a" {
		t.Errorf("%v", c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.progress) != 1 || r.progress[0].TurnID != "turn_evt_1" || r.progress[0].Total != 2 {
		t.Errorf("progress %+v", r.progress)
	}
	var p struct {
		ProtocolVersion string
		ClientInfo      struct{ Name string }
		Capabilities    map[string]map[string]bool
	}
	if err := json.Unmarshal(r.received("initialize")[0].Params, &p); err != nil {
		t.Fatal(err)
	}
	if p.ProtocolVersion != "2026-06-02" || p.ClientInfo.Name == "" || !p.Capabilities["injection"]["tool_mailbox"] || !p.Capabilities["utilities"]["cancellation"] {
		t.Errorf("initialize %+v", p)
	}
}

func TestTools_MayBeCalledRightAfterInitialize(t *testing.T) {
	r := start(t, nil, "eager")
	if name := <-r.calls; name != "chat.list_events" {
		t.Errorf("it called %s", name)
	}
}

func TestTurn_RepeatsAfterSilenceOrError(t *testing.T) {
	for _, fault := range []string{"silent:2", "refuse:2"} {
		t.Run(fault, func(t *testing.T) {
			r := start(t, fast, fault)
			var stored []int
			tn := turn(1)
			tn.Attempt = 4 // the agent was restarted
			tn.Attempted = func(n int) error { stored = append(stored, n); return nil }
			out := r.accept(tn)
			if want := []int{4, 5, 6}; !slices.Equal(stored, want) || out[0].Attempt != 6 {
				t.Errorf("stored %v, outcome %+v, want attempts %v", stored, out[0], want)
			}
			for i, d := range r.deliveries() {
				if d.event != "evt_1" || d.key != "evt_1:agent_a" || d.attempt != 4+i {
					t.Errorf("delivery %d: %+v", i, d)
				}
			}
		})
	}
}

func TestTurn_AcceptsALateAnswer(t *testing.T) {
	r := start(t, fast, "late")
	out := r.accept(turn(1))
	if got := r.deliveries(); len(got) != 2 || out[0].Attempt != 2 {
		t.Errorf("delivered %v, outcome %+v", got, out[0])
	}
}

// TestTurn_RedeliversInOrderAfterARestart crashes a program with three unanswered deliveries. The
// restarted program gets all three again, by sequence.
func TestTurn_RedeliversInOrderAfterARestart(t *testing.T) {
	r := newFixture(t, nil, "silent:2", "crash:3")
	var wg sync.WaitGroup
	for _, n := range []int64{3, 1, 2} {
		wg.Go(func() {
			if _, err := r.Turn(t.Context(), turn(n), nil); err != nil {
				t.Error(err)
			}
		})
	}
	harnesstest.Until(t, "three turns wait", func() bool { return c2a.Pending(r.Harness) == 3 })
	r.run()
	wg.Wait()
	want := []delivered{
		{1, 1, "evt_1", "evt_1:agent_a"}, {1, 1, "evt_2", "evt_2:agent_a"}, {1, 1, "evt_3", "evt_3:agent_a"},
		{2, 2, "evt_1", "evt_1:agent_a"}, {2, 2, "evt_2", "evt_2:agent_a"}, {2, 2, "evt_3", "evt_3:agent_a"},
	}
	if got := r.deliveries(); !slices.Equal(got, want) {
		t.Errorf("delivered %v\nwant %v", got, want)
	}
}

func TestTurn_NeverRepeatsAnAcceptedDelivery(t *testing.T) {
	r := start(t, nil, "crash-after:1")
	r.accept(turn(1))
	r.accept(turn(2))
	got := r.deliveries()
	if len(got) != 2 || got[0].event != "evt_1" || got[1].event != "evt_2" || got[1].run != 2 {
		t.Errorf("delivered %v", got)
	}
}

func TestSession_DropsInvalidAndLongLines(t *testing.T) {
	r := start(t, nil, "garbage")
	r.accept(turn(1))
	if len(r.received("initialize")) != 1 {
		t.Error("garbage restarted the program")
	}
	var codes []int
	for _, x := range r.received("error") {
		var e struct{ Code int }
		if err := json.Unmarshal(x.Params, &e); err != nil {
			t.Fatal(err)
		}
		codes = append(codes, e.Code)
	}
	if want := []int{-32600, -32700, -32700}; !slices.Equal(codes, want) { // no member, too long, cut off
		t.Errorf("errors %v, want %v", codes, want)
	}
}

// TestSession_SurvivesManyInvalidLines covers a program that reads none of the errors while it
// writes.
func TestSession_SurvivesManyInvalidLines(t *testing.T) {
	r := start(t, nil, "torrent")
	r.accept(turn(1))
	if len(r.received("initialize")) != 1 {
		t.Error("the program was started again")
	}
	if len(r.received("error")) == 0 {
		t.Error("no error was answered")
	}
}

func TestSession_DeliversNothingBeforeInitialize(t *testing.T) {
	r := start(t, func(o *c2a.Options) { o.InitTimeout = time.Second; o.Grace = 10 * time.Millisecond }, "mute")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 2)
	go func() { _, err := r.Capabilities(ctx); ended <- err }()
	go func() { _, err := r.Turn(ctx, turn(1), nil); ended <- err }()
	harnesstest.Until(t, "three runs", func() bool { return len(r.receivedSoon("initialize")) >= 3 })
	cancel(cause)
	for range 2 {
		if err := <-ended; !errors.Is(err, cause) {
			t.Errorf("err = %v", err)
		}
	}
	if got := r.deliveries(); len(got) != 0 {
		t.Errorf("delivered %v", got)
	}
}

func TestSession_RestartsAProgramThatDoesNotRead(t *testing.T) {
	r := start(t, func(o *c2a.Options) { o.Window = 1000; o.Grace = 10 * time.Millisecond }, "deaf")
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for n := range int64(300) {
		tn := turn(n)
		tn.Event.Content[0].Text = strings.Repeat("x", 4<<10)
		wg.Go(func() { r.Turn(ctx, tn, nil) }) //nolint:errcheck // cancelled below
	}
	harnesstest.Until(t, "a second run", func() bool { return len(r.receivedSoon("initialize")) >= 2 })
	cancel()
	wg.Wait()
}

func (r *fixture) receivedSoon(method string) []harnesstest.Received {
	all, _ := harnesstest.ReadState(r.state) // none before the first run
	return slices.DeleteFunc(all, func(x harnesstest.Received) bool { return x.Method != method })
}

func TestCapabilities_AreThoseOfBothSides(t *testing.T) {
	r := start(t, nil, "lacks:injection.notify", "lacks:chatTools.sendMessage", "lacks:utilities.progress", "silent:0")
	caps, err := r.Capabilities(t.Context())
	if err != nil || caps.Injection.Notify || !caps.Injection.Buffered {
		t.Fatalf("%+v, %v", caps, err)
	}
	knock := turn(1)
	knock.Event.Mode = "notify"
	if _, err := r.Turn(t.Context(), knock, nil); !errors.Is(err, harness.ErrModeUnsupported) {
		t.Errorf("a mode that it lacks gave %v", err)
	}
	r.accept(turn(2))
	r.waitDone("evt_2")
	if calls := r.tools.Calls(); len(calls) != 0 || len(r.progress) != 0 {
		t.Errorf("calls %v, progress %v", calls, r.progress)
	}
}

// waitDone waits until the program has handled an event.
func (r *fixture) waitDone(event string) {
	r.t.Helper()
	harnesstest.Until(r.t, event+" is done", func() bool {
		raw, err := os.ReadFile(r.state)
		var m struct{ Done map[string]bool }
		return err == nil && json.Unmarshal(raw, &m) == nil && m.Done[event+":agent_a"]
	})
}

func TestCancel_BeforeAndAfterAcceptance(t *testing.T) {
	r := start(t, nil, "silent:1")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := r.Turn(ctx, turn(1), nil); ended <- err }()
	harnesstest.Until(t, "a delivery", func() bool { return len(r.receivedSoon("chat/deliver")) == 1 })
	cancel(errors.New("the message was deleted"))
	if err := <-ended; err == nil || err.Error() != "the message was deleted" {
		t.Errorf("err = %v", err)
	}
	r.accept(turn(2))
	r.Cancel("turn_evt_2", "the message was edited")
	r.Cancel("turn_evt_2", "twice")
	r.Cancel("turn_of_another", "unknown")
	harnesstest.Until(t, "two cancellations", func() bool { return len(r.receivedSoon("notifications/cancelled")) == 2 })
	deliveries, cancelled := r.received("chat/deliver"), r.received("notifications/cancelled")
	for i, reason := range []string{"the message was deleted", "the message was edited"} {
		want := fmt.Sprintf(`{"reason":%q,"requestId":%q}`, reason, deliveries[i].ID)
		if string(cancelled[i].Params) != want {
			t.Errorf("cancelled %s, want %s", cancelled[i].Params, want)
		}
	}
	if len(cancelled) != 2 {
		t.Errorf("%d cancellations", len(cancelled))
	}
}

func TestInitialize_ProgramChoosesTheDraft(t *testing.T) {
	r := start(t, nil, "version:"+c2a.Version0624)
	caps, err := r.Capabilities(t.Context())
	if err != nil || caps.ProtocolVersion != c2a.Version0624 {
		t.Fatalf("%+v, %v", caps, err)
	}
	r.accept(turn(1))
	params := string(r.received("chat/deliver")[0].Params)
	if !strings.Contains(params, `"addressedToMe":true`) || !strings.Contains(params, `"content":"hello"`) || strings.Contains(params, "attention") {
		t.Errorf("params %s", params)
	}
}

func TestTurn_SendsNoUnstoredAttempt(t *testing.T) {
	r := start(t, nil)
	broken := errors.New("disk full")
	tn := turn(1)
	tn.Attempted = func(int) error { return broken }
	if _, err := r.Turn(t.Context(), tn, nil); !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
	r.accept(turn(2))
	if got := r.deliveries(); len(got) != 1 || got[0].event != "evt_2" {
		t.Errorf("delivered %v", got)
	}
}

func TestRun_EndsWithoutTheProgram(t *testing.T) {
	h := c2a.New([]string{"/no/such/program"}, nil)
	err := h.Run(t.Context(), harness.Host{})
	if !errors.Is(err, harness.ErrPermanent) {
		t.Errorf("err = %v", err)
	}
	if _, err := h.Turn(t.Context(), turn(1), nil); !errors.Is(err, harness.ErrPermanent) {
		t.Errorf("err = %v", err)
	}
	if _, err := h.Capabilities(t.Context()); !errors.Is(err, harness.ErrPermanent) {
		t.Errorf("err = %v", err)
	}
}

func TestTurn_EndsWithRun(t *testing.T) {
	h := c2a.New([]string{os.Args[0]}, &c2a.Options{Env: harnesstest.Environ(filepath.Join(t.TempDir(), "s"), "silent:9"), Grace: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- h.Run(ctx, harness.Host{}) }()
	if _, err := h.Capabilities(ctx); err != nil {
		t.Fatal(err)
	}
	turned := make(chan error, 1)
	go func() { _, err := h.Turn(t.Context(), turn(1), nil); turned <- err }()
	cancel()
	if err := <-turned; !errors.Is(err, harness.ErrStopped) {
		t.Errorf("turn: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
}
