package bridgetest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A Driver runs one bridge against its chat system.
type Driver struct {
	Message, Reply protocol.MessageType
	Prefix         string // of commands
	MayBeUnknown   bool   // a send that was interrupted ends as unknown

	// Launch starts the bridge as a process that dies at a point, "" for nowhere.
	Launch func(t *testing.T, bus, database, point string) *exec.Cmd
	// Bridge runs the bridge in this process until ctx ends.
	Bridge func(ctx context.Context, bus, database string) error
	// NewChat makes a direct chat with a person.
	NewChat func(t *testing.T) Chat
	// Open opens the database of the bridge when it has ended.
	Open func(database string) (*store.DB, error)

	Limit  func() // the chat system demands a pause of a second, instead of taking the next message
	Refuse func() // the chat system permanently refuses the next message
}

// A Chat is a direct chat with a person.
type Chat struct {
	Topic  protocol.Topic
	Person protocol.Topic // by which agents address the person
	Say    func(text string)
	Shown  func() []string // what the bot has said, in order
}

// An Agent answers every event once, and repeats an answer until the bridge has accepted it.
type Agent struct {
	*bustest.Scripted
	driver *Driver

	mu      sync.Mutex
	events  []protocol.ChatMessage // one per event
	status  map[string][]string    // by idempotency key
	changed chan struct{}          // closed at the next event or status
	todo    chan todo
}

type todo struct {
	to protocol.Topic
	m  protocol.ChatMessage
}

// A fixture is a bus with an agent and a spawner that assigns it to every chat.
type fixture struct {
	*Driver
	ctx    context.Context
	bus    *bustest.Bus
	agent  *Agent
	system *bustest.Scripted
	routes sync.Mutex // while it is held, no chat gets an agent

	database string
	stop     func() error // of the bridge in this process
}

func newFixture(t *testing.T, d *Driver) *fixture {
	t.Helper()
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	f := &fixture{Driver: d, ctx: ctx, bus: bustest.Start(t, nil)}
	t.Cleanup(wg.Wait)
	t.Cleanup(cancel)
	f.agent = f.join(t, "agent:lead")
	wg.Go(func() { f.agent.answerLoop(ctx) })
	system := f.bus.Join(t, protocol.PeerSystem, "system:*")
	f.system = system
	system.Refuse(func(d *peer.Delivery) error {
		var r protocol.SpawnRequest
		if d.Message.Type == protocol.TypeSpawnRequest && d.Decode(&r) == nil {
			m := system.NewMessage(protocol.TypeRouteAssigned,
				protocol.RouteAssigned{Topic: r.Topic, Agent: "agent:lead", RequestID: r.RequestID})
			wg.Go(func() {
				f.routes.Lock()
				defer f.routes.Unlock()
				_, _ = system.Peer.Send(ctx, r.Topic, m)
			})
		}
		return nil
	})
	return f
}

func (f *fixture) join(t *testing.T, id protocol.PeerID) *Agent {
	a := &Agent{Scripted: f.bus.Join(t, id, protocol.Pattern(id)), driver: f.Driver, status: map[string][]string{},
		changed: make(chan struct{}), todo: make(chan todo, 1000)}
	a.Refuse(func(d *peer.Delivery) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		var s protocol.DeliveryStatus
		var m protocol.ChatMessage
		switch {
		case d.Message.Type == protocol.TypeDeliveryStatus && d.Decode(&s) == nil:
			a.status[s.IdempotencyKey] = append(a.status[s.IdempotencyKey], s.Status)
		case d.Message.Type != f.Message || d.Decode(&m) != nil || m.Event == protocol.EventTyping,
			a.has(m.SourceID):
			return nil
		default:
			a.events = append(a.events, m)
			a.todo <- todo{d.Message.From.Topic(), m}
		}
		close(a.changed)
		a.changed = make(chan struct{})
		return nil
	})
	return a
}

// has reports whether the agent has an event. a.mu is held.
func (a *Agent) has(source string) bool {
	return slices.ContainsFunc(a.events, func(m protocol.ChatMessage) bool { return m.SourceID == source })
}

// answerLoop sends the answers in order, as an outbox does.
func (a *Agent) answerLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-a.todo:
			if next.m.Event == protocol.EventMessage && !strings.HasPrefix(next.m.Text, "quiet") {
				a.Say(ctx, next.to, &protocol.ChatReply{
					Text: "answer to " + next.m.Text, InReplyTo: next.m.SourceID, IdempotencyKey: next.m.Text,
				})
			}
		}
	}
}

// Say sends a reply until the bridge has accepted or rejected it. It returns the rejection.
func (a *Agent) Say(ctx context.Context, to protocol.Topic, reply *protocol.ChatReply) string {
	m := a.NewMessage(a.driver.Reply, reply)
	for ctx.Err() == nil {
		result, err := a.Peer.Send(ctx, to, m)
		if err == nil && result.Addressee == protocol.AddresseeOK {
			return ""
		}
		if err = peer.ClassifyAny(to, result, err); peer.OutcomeOf(err) == peer.Rejected {
			return err.Error()
		}
		select { // the bridge is a real process that may be starting
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return "the test has ended"
}

// await waits until a condition of the agent holds.
func (f *fixture) await(t *testing.T, a *Agent, what string, holds func() bool) {
	t.Helper()
	for {
		a.mu.Lock()
		held, changed := holds(), a.changed
		a.mu.Unlock()
		if held {
			return
		}
		select {
		case <-changed:
		case <-f.ctx.Done():
			t.Fatalf("never came: %s; events %+v, statuses %v", what, a.events, a.status)
		}
	}
}

// outcome returns the final status of the reply with a key, or "". a.mu is held.
func (a *Agent) outcome(key string) string {
	if list := a.status[key]; len(list) > 0 && list[len(list)-1] != protocol.StatusAccepted {
		return list[len(list)-1]
	}
	return ""
}

// texts returns the texts of events that begin with a prefix. a.mu is held.
func (a *Agent) texts(prefix string) (list []string) {
	for i := range a.events {
		if strings.HasPrefix(a.events[i].Text, prefix) {
			list = append(list, a.events[i].Text)
		}
	}
	return list
}

// Kill kills the bridge, as a process, at each point between receiving and acknowledging. Nothing
// may be lost, duplicated or reordered.
func Kill(t *testing.T, d *Driver, points ...string) {
	t.Helper()
	f := newFixture(t, d)
	for _, point := range points {
		t.Run(point, func(t *testing.T) { f.kill(t, point) })
	}
}

func (f *fixture) kill(t *testing.T, point string) {
	chat, database := f.NewChat(t), filepath.Join(t.TempDir(), "bridge.db")
	first, died := begin(f.Launch(t, f.bus.URL(), database, point))
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprintf("%s %d", point, i))
	}
	var saying sync.WaitGroup
	defer saying.Wait()
	saying.Go(func() { // a person may have to wait for the bot
		for _, text := range want {
			chat.Say(text)
		}
	})
	select {
	case <-died:
	case <-f.ctx.Done():
		_ = first.Process.Kill()
		t.Fatalf("the bridge never came to the point %q", point)
	}
	if s, ok := first.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Fatalf("the bridge ended unexpectedly: %v", first.ProcessState)
	}
	second, ended := begin(f.Launch(t, f.bus.URL(), database, ""))
	defer func() {
		_ = second.Process.Kill()
		<-ended
	}()
	a := f.agent
	f.await(t, a, "the outcomes", func() bool {
		return !slices.ContainsFunc(want, func(key string) bool { return a.outcome(key) == "" })
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.texts(point + " "); !slices.Equal(got, want) {
		t.Errorf("the agent got %q, want %q", got, want)
	}
	checkShown(t, point, want, chat.Shown(), a.outcome, f.MayBeUnknown)
}

// CheckShown compares the shown answers to the messages in want with their outcomes, after a kill
// at a point of a bridge whose outcomes can stay unknown.
func CheckShown(t *testing.T, point string, want, shown []string, outcome func(key string) string) {
	t.Helper()
	checkShown(t, point, want, shown, outcome, true)
}

func checkShown(
	t *testing.T, point string, want, shown []string, outcomeOf func(key string) string, mayBeUnknown bool,
) {
	t.Helper()
	at, unknown := -1, 0
	for _, key := range want {
		count := 0
		for j, text := range shown {
			if text == "answer to "+key {
				count++
				if j < at {
					t.Errorf("%q is out of order in %q", text, shown)
				}
				at = j
			}
		}
		outcome := outcomeOf(key)
		open := mayBeUnknown && outcome == protocol.StatusUnknown
		if open {
			unknown++
		}
		if count > 1 || !open && (count != 1 || outcome != protocol.StatusDelivered) {
			t.Errorf("the answer to %q was shown %d times and is %s", key, count, outcome)
		}
	}
	// The kill interrupts a send: always at these two points, and by chance at any other, where
	// an earlier message may be in progress.
	surely := mayBeUnknown && (point == "sending" || point == "sent")
	if unknown > 1 || unknown > 0 && point == "recorded" || surely && unknown != 1 {
		t.Errorf("%d sends ended as unknown, want at most the one under way", unknown)
	}
}

func begin(cmd *exec.Cmd) (*exec.Cmd, chan struct{}) {
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its end is checked by the caller
		close(ended)
	}()
	return cmd, ended
}
