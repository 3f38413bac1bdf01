package chorus_test

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/broker"
	"hubbub/peers/chorus"
	client "hubbub/peers/collab"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// startBroker runs a collaboration broker on a bus until stop is called.
func startBroker(t *testing.T, b *bustest.Bus, path string) (stop func()) {
	t.Helper()
	db, err := store.Open(path, broker.Schema)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	br := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{Buses: []string{b.URL()}}), &broker.Options{OnReady: func() { close(ready) }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- br.Run(ctx) }()
	<-ready
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		db.Close()
	}
	t.Cleanup(stop)
	return stop
}

// askAs makes a client of the broker with an identity of its own.
func askAs(t *testing.T, b *bustest.Bus, id protocol.PeerID) *client.Client {
	t.Helper()
	p := peer.New(id, &peer.Options{Buses: []string{b.URL()}})
	c := client.New(id, p.Send, nil)
	p.Handle(protocol.TypeCollabResult, c.Take)
	run(t, p, protocol.Pattern(id))
	return c
}

// awaitPresence waits until the bus has reported that a peer joined, which it does twice a second.
func awaitPresence(t *testing.T, b *bustest.Bus, id protocol.PeerID) {
	t.Helper()
	watcher := peer.New("cli:presence", &peer.Options{Buses: []string{b.URL()}})
	joined := make(chan struct{})
	report := sync.OnceFunc(func() { close(joined) })
	watcher.HandlePresence(func(p protocol.Presence) {
		if p.Peer == id && p.State == protocol.PresenceJoined {
			report()
		}
	})
	run(t, watcher, "cli:presence")
	select {
	case <-joined:
	case <-time.After(time.Minute):
		t.Fatalf("%s was not reported", id)
	}
}

// TestExternalAgent_IsWokenByTheBroker checks that an external agent is listed among the identities
// and gets the contract with its question, and that its answer is the answer to the question.
func TestExternalAgent_IsWokenByTheBroker(t *testing.T) {
	r := startNew(t, nil)
	startBroker(t, r.bus, filepath.Join(t.TempDir(), "broker.db"))
	outside := newReceiver(t)
	r.add("ext", outside.url, chorus.AgentSettings{Roles: []string{"ops"}, Aliases: []string{"Timber"}})
	will := askAs(t, r.bus, "cli:will")
	var known collab.Endpoint
	waitFor(t, func() bool {
		page, err := collab.IdentityList.Ask(t.Context(), will, collab.PageParams{})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			e, err := item.Read()
			if err != nil {
				t.Fatal(err)
			}
			if e.LogicalAgentID == "ext" {
				known = e
			}
		}
		return known.HarnessType == "chorus"
	})
	if strings.Join(known.Roles, " ") != "ops" || strings.Join(known.Aliases, " ") != "Timber" {
		t.Errorf("the broker knows %+v", known)
	}
	asked, err := collab.QuestionAsk.Ask(t.Context(), will, collab.QuestionParams{Title: "Is the deploy blocked?", AskedOfID: "@timber"})
	if err != nil {
		t.Fatal(err)
	}
	c := outside.next()
	channel, message := c.body["channel"].(map[string]any), c.body["message"].(map[string]any)
	if !strings.HasPrefix(channel["id"].(string), "collab:broker/") || !strings.Contains(message["content"].(string), "Is the deploy blocked?") {
		t.Errorf("posted %s", c.raw)
	}
	if text := channel["context"].(string); !strings.Contains(text, "How you work with others") {
		t.Errorf("the context has no contract: %s", text)
	}
	if status, answer := post(t, c.body["callback"].(string), `{"type":"message","content":"No, it is through."}`); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	waitFor(t, func() bool {
		got, err := collab.QuestionGet.Ask(t.Context(), will, collab.IDParams{ID: asked.Question.ID})
		if err != nil {
			t.Fatal(err)
		}
		return got.Question.Answer == "No, it is through."
	})
	outside.none()
}

// TestExternalAgent_WaitsForABroker checks that an event that another agent has claimed is not
// answered while the broker restarts.
func TestExternalAgent_WaitsForABroker(t *testing.T) {
	r := startNew(t, nil)
	path := filepath.Join(t.TempDir(), "broker.db")
	stop := startBroker(t, r.bus, path)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:-100", "tg:-100")
	r.add("ext", outside.url, chorus.AgentSettings{Roles: []string{"ops"}, Knocks: true})
	other := askAs(t, r.bus, "agent:other")
	if granted, err := other.Claim(t.Context(), "taken", time.Minute); err != nil || !granted.Granted {
		t.Fatalf("%+v, %v", granted, err)
	}
	says(t, tg, "agent:ext", inGroup("taken", "@ops who?", "role:ops"))
	callback := outside.next().body["callback"].(string)
	stop()
	watch := r.bus.Join(t, "cli:watch", "collab:*")
	status := make(chan int, 1)
	go func() {
		code, _ := post(t, callback, `{"type":"message","content":"mine"}`)
		status <- code
	}()
	watch.NextOf(t, protocol.TypeCollabRequest) // ext looks for the broker
	watch.Leave()
	startBroker(t, r.bus, path)
	if got := <-status; got != http.StatusForbidden {
		t.Errorf("an answer to what another agent has claimed: %d; want 403", got)
	}
}
