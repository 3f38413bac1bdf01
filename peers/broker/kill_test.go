package broker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/broker"
	attend "hubbub/peers/collab"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"

	"go.uber.org/goleak"
)

// The test binary is also the broker that the tests kill.
const childVariable = "HUBBUB_TEST_BROKER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(childVariable); spec != "" {
		if err := child(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child runs a broker until it is killed. It says "ready" on its output.
func child(spec string) error {
	var at struct{ URL, Path, Agent string }
	if err := json.Unmarshal([]byte(spec), &at); err != nil {
		return err
	}
	if at.Agent != "" {
		return childAgent(at.URL, protocol.PeerID(at.Agent))
	}
	db, err := store.Open(at.Path, broker.Schema)
	if err != nil {
		return err
	}
	b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{Buses: []string{at.URL}}), &broker.Options{
		EndpointTimeout: time.Hour, OnReady: func() { fmt.Println("ready") },
	})
	return b.Run(context.Background())
}

// childAgent attends to the broker until it is killed, and prints the ids of its endpoint and of
// those in the wakes that it gets.
func childAgent(url string, id protocol.PeerID) error {
	p := peer.New(id, &peer.Options{Buses: []string{url}})
	c := attend.New(id, p.Send, nil)
	p.Handle(protocol.TypeCollabResult, c.Take)
	p.Handle(protocol.TypeCollabEvent, func(_ context.Context, d *peer.Delivery) error {
		fmt.Println("woken")
		return nil
	})
	ctx := context.Background()
	if err := p.Subscribe(ctx, protocol.Pattern(id)); err != nil {
		return err
	}
	go c.Attend(ctx, collab.AnnounceParams{}, func(context.Context) { fmt.Println(c.Endpoint()) })
	return p.Run(ctx)
}

// A killable is a broker process. Kill ends it with SIGKILL and starts another.
type killable struct {
	t    testing.TB
	spec string
	cmd  *exec.Cmd
}

func startKillable(t testing.TB, b *bustest.Bus, path string) *killable {
	t.Helper()
	spec, err := json.Marshal(object{"URL": b.URL(), "Path": path})
	if err != nil {
		t.Fatal(err)
	}
	k := &killable{t: t, spec: string(spec)}
	k.start()
	t.Cleanup(k.end)
	return k
}

func (k *killable) start() {
	k.t.Helper()
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env = append(os.Environ(), childVariable+"="+k.spec)
	k.cmd.Stderr = os.Stderr
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	var word string
	if _, err := fmt.Fscan(out, &word); err != nil || word != "ready" {
		k.t.Fatalf("the broker says %q, %v", word, err)
	}
}

func (k *killable) end() {
	k.cmd.Process.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended
	k.cmd.Wait()                          //nolint:errcheck // it was killed
}

func (k *killable) kill() { k.t.Helper(); k.end(); k.start() }

// askUntilAnswered repeats a request under the same requestId until it is answered, even if the broker is
// killed. A broker that starts gets a minute.
func (c *client) askUntilAnswered(requestID, method string, params any) protocol.CollabResult {
	raw, err := json.Marshal(params)
	if err != nil {
		c.t.Error(err)
	}
	content := protocol.CollabRequest{Method: method, Params: raw, RequestID: requestID}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		sent, err := c.Peer.Send(ctx, protocol.TopicBroker, c.NewMessage(protocol.TypeCollabRequest, content))
		cancel()
		if err != nil || sent.Addressee != protocol.AddresseeOK {
			<-time.After(10 * time.Millisecond) // the broker is down; ask again
			continue
		}
		limit := time.After(2 * time.Second)
		for waiting := true; waiting; {
			select {
			case r := <-c.results:
				if r.RequestID == requestID {
					return r
				}
			case <-limit:
				waiting = false
			}
		}
	}
	c.t.Errorf("%s %s was never answered", method, requestID)
	return protocol.CollabResult{}
}

// Answered requests and decided wakes survive SIGKILL at any time. Each message is stored once
// and wakes its agent once.
func TestBroker_SurvivesSIGKILL(t *testing.T) {
	b := bustest.Start(t, nil)
	path := filepath.Join(t.TempDir(), "broker.db")
	k := startKillable(t, b, path)
	lead := join(t, b, "agent:lead")
	lead.do("identity.announce", object{"endpointId": "e1"})
	type arrival struct{ event, message string }
	woken := make(chan arrival, 10_000)
	progress := make(chan struct{}, 10_000)
	lead.Refuse(func(d *bustest.Delivery) error {
		var e protocol.CollabEvent
		var w collab.Wake
		if d.Message.Type != protocol.TypeCollabEvent || d.Decode(&e) != nil || json.Unmarshal(e.Payload, &w) != nil {
			return nil
		}
		woken <- arrival{e.ID + " " + string(d.Message.MessageID), w.Message.ID}
		progress <- struct{}{}
		return nil
	})
	const clients, each, kills = 4, 25, 6
	join(t, b, "cli:setup").do("conversation.create", object{"id": "c", "kind": "group"})
	var wg sync.WaitGroup
	for n := range clients {
		c := join(t, b, protocol.PeerID(fmt.Sprint("cli:c", n)))
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("m-%d-%d", n, i)
				r := c.askUntilAnswered(id, "message.post", object{"id": id, "conversationId": "c", "text": "@lead " + id, "surface": "human"})
				if !r.OK {
					t.Errorf("%s: %+v", id, r.Error)
				}
				progress <- struct{}{}
			}
		})
	}
	for range kills {
		for range rand.IntN(2 * clients * each / kills) {
			wait(t, progress)
		}
		k.kill()
	}
	wg.Wait()
	got := map[string]map[string]bool{} // by message, the wakes that came for it
	for len(got) < clients*each {
		a := wait(t, woken)
		if got[a.message] == nil {
			got[a.message] = map[string]bool{}
		}
		got[a.message][a.event] = true
	}
	for message, events := range got {
		if len(events) != 1 {
			t.Errorf("%s woke with %d different wakes: %v", message, len(events), events)
		}
	}
	checkLog(t, join(t, b, "cli:check"), clients*each)
}

// checkLog reads the whole log and checks that it has no gap and each message once.
func checkLog(t *testing.T, c *client, want int) {
	t.Helper()
	posted, woken, seq := map[string]int{}, 0, 0.0
	var next any = 0
	for next != nil {
		page := c.do("events.list", object{"after": next, "limit": 100})
		for _, item := range page["events"].([]any) {
			e := item.(object)
			if seq++; e["seq"] != seq {
				t.Fatalf("event %v stands where %v was to come", e["seq"], seq)
			}
			switch e["type"] {
			case collab.EventMessagePosted.Name:
				posted[e["payload"].(object)["id"].(string)]++
			case collab.EventWoken.Name:
				woken++
			}
		}
		next = page["next"]
	}
	if len(posted) != want || woken != want {
		t.Errorf("%d messages and %d wakes are stored, want %d of each", len(posted), woken, want)
	}
	for id, n := range posted {
		if n != 1 {
			t.Errorf("%s is stored %d times", id, n)
		}
	}
}

// Events reach collab:events in order and without a gap, even across a SIGKILL.
func TestPublisher_SurvivesSIGKILL(t *testing.T) {
	b := bustest.Start(t, nil)
	k := startKillable(t, b, filepath.Join(t.TempDir(), "broker.db"))
	watch := join(t, b, "cli:watch", "collab:events")
	will := join(t, b, "cli:will")
	const count = 60
	will.askUntilAnswered("c", "conversation.create", object{"id": "c", "kind": "group"})
	for i := range count - 1 {
		if i == 20 || i == 40 {
			k.kill()
		}
		id := fmt.Sprint("m", i)
		will.askUntilAnswered(id, "message.post", object{"id": id, "conversationId": "c", "text": "x"})
	}
	last := 0.0
	for last < count {
		e := wait(t, watch.events)
		switch seq := decode(t, e.Metadata)["seq"].(float64); {
		case seq == last+1:
			last = seq
		case seq > last+1:
			t.Fatalf("fact %v came after %v", seq, last)
		}
	}
}

// TestWake_OfAKilledAgentIsNotReportedAsWoken checks that its death counts as soon as the bus
// reports it, and that the wake goes once to the process that returns, which is named.
func TestWake_OfAKilledAgentIsNotReportedAsWoken(t *testing.T) {
	b := bustest.Start(t, nil)
	start(t, b, filepath.Join(t.TempDir(), "broker.db"), &broker.Options{EndpointTimeout: time.Hour})
	watch, will := join(t, b, "cli:watch", "collab:events"), join(t, b, "cli:will")
	will.do("conversation.create", object{"id": "c", "kind": "group"})
	spec, err := json.Marshal(object{"URL": b.URL(), "Agent": "agent:lead"})
	if err != nil {
		t.Fatal(err)
	}
	agent := func() (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+string(spec))
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended
			cmd.Wait()                          //nolint:errcheck // it was killed
		})
		lines := bufio.NewScanner(out)
		lines.Scan() // its endpoint
		return cmd, lines
	}
	first, lines := agent()
	old := lines.Text()
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	watch.event(collab.EventOffline.Name) // without a wake that finds it absent
	if r := will.ask("message.post", object{"id": "m", "conversationId": "c", "text": "@lead hi"}); r.OK || r.Error.Code != "unavailable" {
		t.Fatalf("posted: %+v", r)
	}
	_, lines = agent()
	now := lines.Text()
	lines.Scan()
	says := lines.Text()
	if now == "woken" { // the wake may come before the answer to its announcement
		now, says = says, now
	}
	if now == old || says != "woken" {
		t.Errorf("endpoint %s after %s says %q", now, old, says)
	}
	why := will.do("wake.explain", object{"messageId": "m"})
	if raw, err := json.Marshal(why); err != nil || !strings.Contains(string(raw), `"endpointId":"`+now+`"`) || !strings.Contains(string(raw), `"outcome":"woken"`) {
		t.Errorf("explained as %s, %v", raw, err)
	}
}
