package agent_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// A stub is a harness that a test plays: turn decides what each turn does.
type stub struct {
	mu    sync.Mutex
	caps  harness.Capabilities
	ready bool
	turn  func(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error)
	turns []harness.Turn
	host  harness.Host
	gone  []string // cancelled turns with their reasons
}

func newStub(turn func(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error)) *stub {
	return &stub{turn: turn, ready: true, caps: harness.Capabilities{Injection: harness.AllInjection}}
}

// silent ends every turn without doing anything.
func silent(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return harness.Outcome{State: harness.Finished}, nil
}

// answering ends every turn with a text.
func answering(text string) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(_ context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		return harness.Outcome{State: harness.Finished, FinalText: text}, nil
	}
}

// accepting stores every delivery, as a c2a program does.
func accepting(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return harness.Outcome{State: harness.Accepted}, nil
}

func (s *stub) Run(ctx context.Context, host harness.Host) error {
	s.mu.Lock()
	s.host = host
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (s *stub) Capabilities(ctx context.Context) (harness.Capabilities, error) {
	s.mu.Lock()
	caps, ready := s.caps, s.ready
	s.mu.Unlock()
	if !ready {
		<-ctx.Done()
		return caps, fmt.Errorf("%w; it said: no key", context.Cause(ctx))
	}
	return caps, nil
}

func (s *stub) setReady(ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = ready
}

func (s *stub) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	s.mu.Lock()
	s.turns = append(s.turns, *t)
	turn := s.turn
	s.mu.Unlock()
	if err := t.Attempted(t.Attempt); err != nil {
		return harness.Outcome{}, err
	}
	return turn(ctx, t, tools)
}

func (s *stub) Cancel(id, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = append(s.gone, id+": "+reason)
}

func (s *stub) seen() []harness.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]harness.Turn{}, s.turns...)
}

// A fixture is one agent on a bus with a Telegram bridge, on a clock that tests advance by
// sleeping.
type fixture struct {
	t      *testing.T
	bus    *bustest.Bus
	tg     *bustest.Scripted
	system *bustest.Scripted
	stub   *stub
	path   string
	opts   agent.Options
	agent  *agent.Agent
	db     *store.DB
	stop   func()

	replies            []protocol.ChatReply
	typing, typingEnds int
	drafts             []string
	records            []record
}

// A record is one agent_event of system:attention.
type record map[string]any

func (r record) is(event string) bool { return r["event"] == event }

// withFixture runs a test of the agent "agent:lead" on a clock of its own.
func withFixture(t *testing.T, s *stub, opts *agent.Options, test func(t *testing.T, w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, stub: s, bus: bustest.StartInMemory(t, nil), path: filepath.Join(t.TempDir(), "agent.db")}
		if opts != nil {
			w.opts = *opts
		}
		w.system = w.bus.Join(t, "agent:system", "system:*")
		w.tg = w.bus.Join(t, "tg:bot", "tg:*")
		w.start()
		defer func() { w.stop() }()
		test(t, w)
	})
}

func (w *fixture) start() {
	w.t.Helper()
	db := storetest.Open(w.t, "agent", w.path, agent.Open)
	opts := w.opts
	w.stub.caps.Asynchronous, w.stub.caps.UsesSystemPrompt = opts.HarnessType == "c2a", opts.HarnessType == "openai"
	opts.Peer = &peer.Options{Dial: w.bus.Dial, Token: "secret"}
	opts.Zone = cmp.Or(opts.Zone, time.UTC)
	w.db, w.agent = db, agent.New("agent:lead", db, w.stub, &opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	a := w.agent
	go func() { done <- a.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the agent ended: %v", err)
		}
		db.Close()
	}
	w.sleep(time.Second)
}

// pause lets d go by for a goroutine of the bubble that is not the test's.
func pause(d time.Duration) { time.Sleep(d) }

// sleep lets time pass and everything settle.
func (w *fixture) sleep(d time.Duration) {
	timetest.Advance(d)
	w.collect()
}

func (w *fixture) collect() {
	for w.tg.Pending() > 0 {
		d := w.tg.Next(w.t)
		if d.Message.Type != protocol.TypeTGReply {
			continue
		}
		r := content[protocol.ChatReply](w.t, d)
		if r.Typing {
			w.typing++
			if r.Draft != "" {
				w.drafts = append(w.drafts, r.Draft)
			}
			continue
		}
		if bytes.Contains(d.Message.Content, []byte(`"typing":false`)) {
			w.typingEnds++
			continue
		}
		w.replies = append(w.replies, r)
	}
	for w.system.Pending() > 0 {
		d := w.system.Next(w.t)
		if d.Topic == protocol.TopicAttention {
			w.records = append(w.records, content[record](w.t, d))
		}
	}
}

// say sends a chat message from tg:42 and fails unless it was accepted.
func (w *fixture) say(m protocol.ChatMessage) {
	w.t.Helper()
	r := w.tg.SendAs(w.t, "tg:42", "agent:lead", protocol.TypeTGMessage, m)
	if r.DeliveredTo != 1 {
		w.t.Fatalf("message %s: %+v", m.SourceID, r)
	}
}

// dm is a direct message from Will.
func dm(id, text string) protocol.ChatMessage {
	return protocol.ChatMessage{
		SourceID: id, Text: text, Chat: &protocol.Chat{ID: "42", Kind: "dm"}, Author: &protocol.Author{ID: "77", Kind: "human", DisplayName: "Will"},
	}
}

// post is a message from Will in a channel.
func post(id, text string) protocol.ChatMessage {
	m := dm(id, text)
	m.Chat = &protocol.Chat{ID: "C1", Kind: "channel", Title: "ops"}
	return m
}

func inThread(m protocol.ChatMessage, thread string) protocol.ChatMessage {
	m.Chat = &protocol.Chat{ID: "C1", Kind: "thread", ThreadID: thread}
	return m
}

func by(m protocol.ChatMessage, id, kind string) protocol.ChatMessage {
	m.Author = &protocol.Author{ID: id, Kind: kind}
	return m
}

func edit(m protocol.ChatMessage, text string, sequence int64) protocol.ChatMessage {
	m.Event, m.Text, m.Sequence = "edit", text, sequence
	return m
}

// dispositions lists "eventId disposition reason" in the order of the records.
func (w *fixture) dispositions() []string {
	var list []string
	for _, r := range w.records {
		if r.is("disposition") {
			list = append(list, fmt.Sprintf("%s %s", r["eventId"], r["disposition"]))
		}
	}
	return list
}

func (w *fixture) refusals() []string {
	var list []string
	for _, r := range w.records {
		if r.is("refusal") {
			list = append(list, fmt.Sprintf("%s %s %s", r["eventId"], r["tool"], r["reason"]))
		}
	}
	return list
}

// turnStates lists "eventId attempt state" of the turn records.
func (w *fixture) turnStates() []string {
	var list []string
	for _, r := range w.records {
		if r.is("turn") {
			list = append(list, fmt.Sprintf("%s %v %s", r["eventId"], r["attempt"], r["state"]))
		}
	}
	return list
}

func (w *fixture) wantDispositions(want ...string) {
	w.t.Helper()
	equal(w.t, "dispositions", w.dispositions(), want)
}

func (w *fixture) wantTexts(want ...string) {
	w.t.Helper()
	var got []string
	for _, r := range w.replies {
		if r.Signal != "" {
			got = append(got, "signal "+r.Signal)
		} else {
			got = append(got, r.Text)
		}
	}
	equal(w.t, "replies", got, want)
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != len(want) {
		t.Errorf("%s are\n%q\nwant\n%q", what, got, want)
	}
}

// call calls one tool and decodes its structured result.
func call(tools harness.Tools, name string, args any) (map[string]any, harness.Result) {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	r := tools.Call(context.Background(), name, raw)
	var m map[string]any
	if len(r.StructuredContent) > 0 {
		if err := json.Unmarshal(r.StructuredContent, &m); err != nil {
			panic(err)
		}
	}
	return m, r
}

// tools are the agent's tools outside of any turn.
func (w *fixture) tools() harness.Tools { return w.agent.Tools() }
