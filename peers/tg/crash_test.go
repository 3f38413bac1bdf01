package tg_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/bridge/bridgetest"
	"hubbub/peers/peer"
	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// A child configures a bridge that runs as a process: the test binary with this in its
// environment.
type child struct {
	API, Bus, Database, Token string
	Point                     string // where to die; empty for nowhere
	Passes                    int    // how often it passes the point before
	Webhook                   string // address of the webhook; empty for polling
}

const childVariable = "TG_TEST_CHILD"

func TestMain(m *testing.M) {
	if raw := os.Getenv(childVariable); raw != "" {
		if err := runChild(context.Background(), raw); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runChild(ctx context.Context, raw string) error {
	var c child
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		return err
	}
	db, err := tg.Open(c.Database)
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stderr)
	opts := &tg.Options{
		API: &botapi.Options{URL: c.API}, Peer: &peer.Options{Buses: []string{c.Bus}, Log: &log}, Log: &log,
		AllowAll: true, MinSendInterval: -1, GroupPerMinute: -1, FilesListen: tg.NoFiles, PollTimeout: 2 * time.Second,
	}
	if c.Webhook != "" {
		opts.WebhookURL, opts.WebhookListen = "http://"+c.Webhook+"/hook", c.Webhook
	}
	b := tg.New(c.Token, db, opts)
	var passed atomic.Int64
	b.CrashAt(func(point string) {
		if point == c.Point && int(passed.Add(1)) > c.Passes {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	return errors.Join(b.Run(ctx), db.Close())
}

// launch starts a bridge process. It returns the process and a channel that is closed when it
// ends.
func launch(t *testing.T, c child, log *syncBuffer) (*exec.Cmd, chan struct{}) {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(raw))
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its end is checked below
		close(ended)
	}()
	return cmd, ended
}

// An answerer is an agent that answers every event once and repeats an answer until the bridge
// has accepted it.
type answerer struct {
	*bustest.Scripted
	mu       sync.Mutex
	events   []string // texts in order, one per event
	known    map[string]bool
	status   map[string][]string // by idempotency key
	notified chan struct{}       // signals a new status
	todo     chan todo           // answers in the order of their events
	reply    func(m *protocol.ChatMessage) protocol.ChatReply
}

type todo struct {
	to protocol.Topic
	m  protocol.ChatMessage
}

func newAnswerer(t *testing.T, b *bustest.Bus, ctx context.Context, wg *sync.WaitGroup) *answerer {
	a := &answerer{Scripted: b.Join(t, "agent:lead", "agent:lead"), known: map[string]bool{}, status: map[string][]string{}, notified: make(chan struct{}, 1), todo: make(chan todo, 1000)}
	wg.Go(func() { a.answerLoop(ctx) })
	a.Refuse(func(d *peer.Delivery) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		var s protocol.DeliveryStatus
		if d.Message.Type == protocol.TypeDeliveryStatus && d.Decode(&s) == nil {
			a.status[s.IdempotencyKey] = append(a.status[s.IdempotencyKey], s.Status)
			select {
			case a.notified <- struct{}{}:
			default:
			}
		}
		var m protocol.ChatMessage
		if d.Message.Type != protocol.TypeTGMessage || d.Decode(&m) != nil || a.known[m.SourceID] {
			return nil
		}
		a.known[m.SourceID] = true
		a.events = append(a.events, m.Text)
		a.todo <- todo{d.Message.From.Topic(), m}
		return nil
	})
	return a
}

// answerLoop sends the answers in order, as an outbox does.
func (a *answerer) answerLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-a.todo:
			a.answer(ctx, next.to, next.m)
		}
	}
}

func (a *answerer) answer(ctx context.Context, to protocol.Topic, m protocol.ChatMessage) {
	content := protocol.ChatReply{Text: "answer to " + m.Text, InReplyTo: m.SourceID, IdempotencyKey: m.Text}
	if a.reply != nil {
		content = a.reply(&m)
	}
	r := a.NewMessage(protocol.TypeTGReply, content)
	for ctx.Err() == nil {
		result, err := a.Peer.Send(ctx, to, r)
		if err == nil && result.Addressee == protocol.AddresseeOK {
			return
		}
		select { // the bridge is a real process that may be starting
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (a *answerer) snapshot() (events []string, status map[string][]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status = map[string][]string{}
	for k, v := range a.status {
		status[k] = slices.Clone(v)
	}
	return slices.Clone(a.events), status
}

// TestSIGKILL_LosesAndDoublesNothing kills the bridge, as a process, at each point between
// receiving and acknowledging. Nothing may be lost, duplicated or reordered. Only a send in
// progress may end as unknown.
func TestSIGKILL_LosesAndDoublesNothing(t *testing.T) {
	bridgetest.Kill(t, newDriver(t), "received", "stored", "taken in", "asked", "assigned", "configured", "forwarding", "forwarded",
		"reply received", "reply stored", "sending", "sent", "recorded", "reported")
}

// TestSIGKILL_Webhook repeats TestSIGKILL_LosesAndDoublesNothing with a webhook.
func TestSIGKILL_Webhook(t *testing.T) {
	killBridgeAt(t, bustest.FreeAddress(t), "received", "stored", "taken in")
}

func killBridgeAt(t *testing.T, webhook string, points ...string) {
	t.Helper()
	api := tgtest.New(nil)
	web := httptest.NewServer(api)
	defer web.Close()
	defer web.CloseClientConnections()
	b := bustest.Start(t, nil)
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer wg.Wait()
	defer cancel()
	a := newAnswerer(t, b, ctx, &wg)
	system := b.Join(t, protocol.PeerSystem, "system:*")
	system.Refuse(func(d *peer.Delivery) error {
		var r protocol.SpawnRequest
		if d.Message.Type == protocol.TypeSpawnRequest && d.Decode(&r) == nil {
			m := system.NewMessage(protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: r.Topic, Agent: "agent:lead", RequestID: r.RequestID})
			wg.Go(func() { _, _ = system.Peer.Send(ctx, r.Topic, m) })
		}
		return nil
	})
	wg.Go(func() { _ = api.Run(ctx) }) // returns nil when ctx ends
	for _, point := range points {
		t.Run(point, func(t *testing.T) {
			crashAt(ctx, t, point, api, a, child{
				API: web.URL, Bus: b.URL(), Token: api.Token(), Database: filepath.Join(t.TempDir(), tg.Database), Point: point, Webhook: webhook,
			})
		})
	}
}

func crashAt(ctx context.Context, t *testing.T, point string, api *tgtest.Server, a *answerer, c child) {
	var log syncBuffer
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	will := api.User("Will")
	dm := api.DM(will)
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprintf("%s %d", point, i))
		api.Say(dm, will, want[i])
	}
	before, _ := a.snapshot()
	first, died := launch(t, c, &log)
	select {
	case <-died:
	case <-ctx.Done():
		_ = first.Process.Kill()
		t.Fatalf("the bridge never came to the point %q", point)
	}
	if s, ok := first.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Fatalf("the bridge ended unexpectedly: %v", first.ProcessState)
	}
	c.Point = ""
	second, ended := launch(t, c, &log)
	defer func() {
		_ = second.Process.Kill()
		<-ended
	}()
	settled := func(*tgtest.Server) bool {
		_, status := a.snapshot()
		for _, key := range want {
			if !slices.ContainsFunc(status[key], func(s string) bool { return s != protocol.StatusAccepted }) {
				return false
			}
		}
		return true
	}
	for !settled(api) {
		select {
		case <-a.notified:
		case <-ctx.Done():
			events, status := a.snapshot()
			t.Fatalf("not everything was settled: events %q, statuses %v, shown %q", events, status, api.Texts(dm.ID))
		}
	}
	events, status := a.snapshot()
	if got := events[len(before):]; !slices.Equal(got, want) {
		t.Errorf("the agent got %q, want %q", got, want)
	}
	bridgetest.CheckShown(t, point, want, api.Texts(dm.ID), func(key string) string { return status[key][len(status[key])-1] })
}

// awaitSettled waits until the reply with a key has a final status, and returns it.
func (a *answerer) awaitSettled(ctx context.Context, t *testing.T, key string) string {
	t.Helper()
	for {
		if _, status := a.snapshot(); len(status[key]) > 0 && status[key][len(status[key])-1] != protocol.StatusAccepted {
			return status[key][len(status[key])-1]
		}
		select {
		case <-a.notified:
		case <-ctx.Done():
			t.Fatalf("%s was never settled", key)
		}
	}
}

// TestSIGKILL_EditIsMadeOnce kills the bridge before and after an edit. The next bridge repeats
// the edit, which changes nothing. Nothing may be unknown or sent again.
func TestSIGKILL_EditIsMadeOnce(t *testing.T) {
	api := tgtest.New(nil)
	web := httptest.NewServer(api)
	defer web.Close()
	defer web.CloseClientConnections()
	b := bustest.Start(t, nil)
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer wg.Wait()
	defer cancel()
	a := newAnswerer(t, b, ctx, &wg)
	dm := api.DM(api.User("Will"))
	for _, point := range []string{"reply stored", "sending", "sent"} {
		t.Run(point, func(t *testing.T) {
			var log syncBuffer
			defer func() {
				if t.Failed() {
					t.Log(log.String())
				}
			}()
			c := child{API: web.URL, Bus: b.URL(), Token: api.Token(), Database: filepath.Join(t.TempDir(), tg.Database)}
			var saying sync.WaitGroup
			say := func(key string, r protocol.ChatReply) {
				r.IdempotencyKey = point + key
				m := a.NewMessage(protocol.TypeTGReply, r)
				saying.Go(func() {
					for ctx.Err() == nil {
						if result, err := a.Peer.Send(ctx, topic(dm.ID), m); err == nil && result.Addressee == protocol.AddresseeOK {
							return
						}
						select {
						case <-ctx.Done():
						case <-time.After(20 * time.Millisecond):
						}
					}
				})
			}
			first, ended := launch(t, c, &log)
			say(" question", protocol.ChatReply{Text: point + "?", Buttons: buttons})
			if got := a.awaitSettled(ctx, t, point+" question"); got != protocol.StatusDelivered {
				t.Fatalf("the question is %s", got)
			}
			_ = first.Process.Kill()
			<-ended
			dying := c
			dying.Point = point
			_, ended = launch(t, dying, &log)
			say(" decided", protocol.ChatReply{Text: point + ": denied", Edits: point + " question"})
			select {
			case <-ended:
			case <-ctx.Done():
				t.Fatalf("the bridge never came to the point %q", point)
			}
			last, ended := launch(t, c, &log)
			defer func() {
				_ = last.Process.Kill()
				<-ended
			}()
			if got := a.awaitSettled(ctx, t, point+" decided"); got != protocol.StatusDelivered {
				t.Errorf("the edit is %s", got)
			}
			saying.Wait() // the bridge of the next step must not receive it
			texts := api.Texts(dm.ID)
			edits := api.Calls("editMessageText")
			if texts[len(texts)-1] != point+"?" || len(edits) == 0 || edits[len(edits)-1].Message.Text != point+": denied" {
				t.Errorf("said %q, edited %+v", texts, edits)
			}
		})
	}
}

// TestSIGKILL_PressIsHandledOnce kills the bridge, as a process, at each step from a press to the
// edit that shows the result. The agent must receive the press once, and the message must be
// edited, not sent again.
func TestSIGKILL_PressIsHandledOnce(t *testing.T) {
	h := newKillFixture(t)
	for _, point := range []string{"stored", "taken in", "forwarding", "forwarded", "reply received"} {
		t.Run(point, func(t *testing.T) { h.press(t, "", point, 0) })
	}
	for _, point := range []string{"sending", "sent", "recorded"} { // of the edit, after the answer to the press
		t.Run("edit "+point, func(t *testing.T) { h.press(t, "", point, 1) })
	}
	for _, asking := range []string{"sent", "recorded"} { // the question itself
		t.Run("question "+asking, func(t *testing.T) { h.press(t, asking, "", 0) })
	}
}

// A killFixture is Telegram, a bus, and an agent that asks every user with buttons and edits its
// question after a press.
type killFixture struct {
	api *tgtest.Server
	url string
	bus *bustest.Bus
	ctx context.Context
	a   *answerer
}

func newKillFixture(t *testing.T) *killFixture {
	h := &killFixture{api: tgtest.New(nil), bus: bustest.Start(t, nil)}
	web := httptest.NewServer(h.api)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	h.url = web.URL
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	h.ctx = ctx
	h.a = newAnswerer(t, h.bus, ctx, &wg)
	h.a.reply = func(m *protocol.ChatMessage) protocol.ChatReply {
		name, _, pressed := strings.Cut(m.Text, "=")
		if pressed {
			return protocol.ChatReply{Text: "decided: " + m.Text, Edits: "ask " + name, IdempotencyKey: "told " + name}
		}
		return protocol.ChatReply{Text: "may I?", IdempotencyKey: "ask " + name, Buttons: []protocol.Button{{Text: "Allow", Value: name + "=allow"}}}
	}
	system := h.bus.Join(t, protocol.PeerSystem, "system:*")
	system.Refuse(func(d *peer.Delivery) error {
		var r protocol.SpawnRequest
		if d.Message.Type == protocol.TypeSpawnRequest && d.Decode(&r) == nil {
			m := system.NewMessage(protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: r.Topic, Agent: "agent:lead", RequestID: r.RequestID})
			wg.Go(func() { _, _ = system.Peer.Send(ctx, r.Topic, m) })
		}
		return nil
	})
	wg.Go(func() { _ = h.api.Run(ctx) }) // returns nil when ctx ends
	return h
}

// run runs the bridge until it dies at a point or, without a point, until the condition holds.
func (h *killFixture) run(t *testing.T, c child, point string, holds func() bool) {
	t.Helper()
	var log syncBuffer
	c.Point = point
	cmd, died := launch(t, c, &log)
	defer func() {
		_ = cmd.Process.Kill()
		<-died
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	if point != "" {
		select {
		case <-died:
		case <-h.ctx.Done():
			t.Fatalf("the bridge never came to the point %q", point)
		}
		return
	}
	timedOut := make(chan struct{})
	stop := context.AfterFunc(h.ctx, func() { close(timedOut) })
	defer stop()
	for !holds() {
		select {
		case <-h.a.notified:
		case <-timedOut:
			t.Fatalf("it never came about; the chat shows %q", h.api.Texts(0))
		}
	}
}

// hasSettled reports whether the reply with a key has a status other than accepted.
func (h *killFixture) hasSettled(key string) bool {
	_, status := h.a.snapshot()
	return slices.ContainsFunc(status[key], func(s string) bool { return s != protocol.StatusAccepted })
}

// press makes the agent ask and a user press a button, with a bridge that is killed at one point
// of either.
func (h *killFixture) press(t *testing.T, asking, point string, passes int) {
	will := h.api.User("Will")
	dm := h.api.DM(will)
	name := strings.ReplaceAll(t.Name(), " ", "-")
	name = name[strings.LastIndexByte(name, '/')+1:]
	c := child{API: h.url, Bus: h.bus.URL(), Token: h.api.Token(), Database: filepath.Join(t.TempDir(), tg.Database)}
	h.api.Say(dm, will, name)
	if asking != "" {
		h.run(t, c, asking, nil)
	}
	h.run(t, c, "", func() bool { return h.hasSettled("ask " + name) })
	shown := h.api.Messages(dm.ID)
	if len(shown) != 1 || shown[0].ReplyMarkup == nil {
		t.Fatalf("the question is shown %d times", len(shown))
	}
	h.api.Press(shown[0], will, name+"=allow")
	if point != "" {
		c.Passes = passes
		h.run(t, c, point, nil)
	}
	h.run(t, c, "", func() bool { return h.hasSettled("told " + name) })
	shown = h.api.Messages(dm.ID)
	if len(shown) != 1 || shown[0].Text != "decided: "+name+"=allow" || shown[0].ReplyMarkup != nil {
		t.Errorf("shown %d messages, the first says %q", len(shown), shown[0].Text)
	}
	heard := 0
	events, _ := h.a.snapshot()
	for _, said := range events {
		if said == name+"=allow" {
			heard++
		}
	}
	if heard != 1 {
		t.Errorf("the agent heard of %d presses", heard)
	}
}
