package tg_test

import (
	"context"
	"errors"

	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
	"hubbub/protocol/timetest"

	"github.com/go-telegram/bot/models"
	"github.com/rs/zerolog"
)

// A fixture is a bus, a Bot API and a bridge between them in a synctest bubble.
type fixture struct {
	t    *testing.T
	api  *tgtest.Server
	bus  *bustest.Bus
	db   *store.DB
	path string
	opts tg.Options
	log  *syncBuffer

	system *bustest.Scripted
	cancel context.CancelFunc
	done   chan error
}

// withFixture runs a test in a bubble with a bridge that admits everybody.
func withFixture(t *testing.T, test func(t *testing.T, h *fixture)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := &fixture{
			t: t, api: tgtest.New(nil), bus: bustest.StartInMemory(t, nil),
			path: filepath.Join(dir, "tg.db"), log: &syncBuffer{}, opts: tg.Options{AllowAll: true, FilesListen: tg.NoFiles},
		}
		defer h.close()
		test(t, h)
	})
}

// start runs the bridge and waits until it is connected.
func (h *fixture) start() {
	h.t.Helper()
	if h.db == nil {
		h.db = storetest.Open(h.t, "tg", h.path, tg.Open)
	}
	log := zerolog.New(h.log).Level(zerolog.DebugLevel)
	opts := h.opts
	opts.Log = &log
	opts.Peer = &peer.Options{Dial: h.bus.Dial, Log: &log}
	if opts.API == nil {
		opts.API = &botapi.Options{Transport: h.api.Transport()}
	}
	ready := make(chan struct{})
	opts.OnReady = func() { close(ready) }
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan error, 1)
	bridge := tg.New(h.api.Token(), h.db, &opts)
	go func() { h.done <- bridge.Run(ctx) }()
	select {
	case <-ready:
	case err := <-h.done:
		h.done <- err
		h.t.Logf("the bridge ended at once: %v", err)
	}
}

// stop ends the bridge and returns Run's error.
func (h *fixture) stop() error {
	if h.cancel == nil {
		return nil
	}
	h.cancel()
	err := <-h.done
	h.cancel = nil
	return err
}

func (h *fixture) close() {
	if err := h.stop(); err != nil && !errors.Is(err, tg.ErrToken) && !errors.Is(err, peer.ErrReplaced) {
		h.t.Errorf("the bridge ended: %v", err)
	}
	if h.system != nil {
		h.system.Leave()
	}
	h.bus.Stop()
	if h.db != nil {
		h.db.Close()
	}
	if h.t.Failed() {
		h.t.Log(h.log.String())
	}
}

// startSpawner joins an agent:system that answers every spawn request with a route to the given
// agent.
func (h *fixture) startSpawner(agent protocol.PeerID) {
	h.system = h.bus.Join(h.t, protocol.PeerSystem, "system:*")
	h.system.Refuse(func(d *peer.Delivery) error {
		var r protocol.SpawnRequest
		if d.Message.Type != protocol.TypeSpawnRequest || d.Decode(&r) != nil {
			return nil
		}
		go func() {
			m := protocol.NewMessage(protocol.TypeRouteAssigned, protocol.PeerSystem, protocol.RouteAssigned{Topic: r.Topic, Agent: agent, RequestID: r.RequestID})
			_, _ = h.system.Peer.Send(context.Background(), r.Topic, m)
		}()
		return nil
	})
}

// assign assigns an agent to a chat as an operator does.
func (h *fixture) assign(chat int64, agent protocol.PeerID) {
	h.t.Helper()
	cli := h.bus.Join(h.t, "cli:operator")
	defer cli.Leave()
	if r := cli.Send(h.t, topic(chat), protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: agent}); r.DeliveredTo != 1 {
		h.t.Fatalf("the route was not taken: %+v", r)
	}
}

func topic(chat int64) protocol.Topic {
	return protocol.Topic("tg:" + itoa(chat))
}

// next returns an agent's next tg_message.
func next(t *testing.T, agent *bustest.Scripted) protocol.ChatMessage {
	t.Helper()
	d := agent.NextOf(t, protocol.TypeTGMessage)
	var m protocol.ChatMessage
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// status returns the agent's next delivery_status.
func status(t *testing.T, agent *bustest.Scripted) protocol.DeliveryStatus {
	t.Helper()
	var s protocol.DeliveryStatus
	if err := agent.NextOf(t, protocol.TypeDeliveryStatus).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// pass advances the clock of the bubble.
func (h *fixture) pass(d time.Duration) { timetest.Advance(d) }

// texts waits until the bot has sent n messages to a chat and everything is idle, and returns
// them.
func (h *fixture) texts(chat int64, n int) []string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	err := h.api.Await(ctx, func(s *tgtest.Server) bool { return len(s.Texts(chat)) >= n })
	h.pass(2 * time.Second)
	got := h.api.Texts(chat)
	if err != nil || len(got) != n {
		h.t.Fatalf("sent to %d: %q; want %d messages", chat, got, n)
	}
	return got
}

func (h *fixture) dm(name string) (models.User, models.Chat) {
	u := h.api.User(name)
	return u, h.api.DM(u)
}

// A syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) has(text string) bool { return strings.Contains(s.String(), text) }
