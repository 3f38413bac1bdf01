package chorus_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// TestMain runs the tests, or, in a child process that a test started, a
// gateway that the test will kill.
func TestMain(m *testing.M) {
	if folder := os.Getenv("CHORUS_TEST_FOLDER"); folder != "" {
		if err := gatewayProcess(folder, os.Getenv("CHORUS_TEST_LISTEN"), os.Getenv("CHORUS_TEST_BUS")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func gatewayProcess(folder, listen, bus string) error {
	store, err := chorus.OpenStore(folder)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	go func() { // the end of the test, however it ends, is the end of the child
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return chorus.New(store, listener, &chorus.Options{
		Allow: loopback, ComposeWindow: -1, MinBackoff: time.Millisecond, OpenAgent: openAgent, Peer: &peer.Options{Buses: []string{bus}},
		OnReady: func() { fmt.Println("ready") },
	}).Run(context.Background())
}

// A child is a gateway in a process of its own.
type child struct {
	t                   *testing.T
	folder, listen, bus string
	cmd                 *exec.Cmd
}

func (c *child) start() {
	c.t.Helper()
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = append(os.Environ(), "CHORUS_TEST_FOLDER="+c.folder, "CHORUS_TEST_LISTEN="+c.listen, "CHORUS_TEST_BUS="+c.bus)
	c.cmd.Stderr = os.Stderr
	if _, err := c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	process := c.cmd.Process
	c.t.Cleanup(func() { _ = process.Kill() }) // for a test that fails in between
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		c.t.Fatalf("the child said %q, %v", line, err)
	}
}

func (c *child) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.cmd.Wait() // it was killed
}

// TestKill_LosesAndRepeatsNothing kills the gateway at every step. Every message with a 200
// reaches its agent, and its answer reaches the callback exactly once, or at most once if a kill
// may have hit the POST; then its agent is notified with "unknown".
func TestKill_LosesAndRepeatsNothing(t *testing.T) {
	k := newKillFixture(t)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	moments := []func(){
		func() {}, // right after the last 200
		func() { k.agent.Refuse(nil); k.handle() },     // an answer is stored
		func() { k.untilPosted() },                     // the first POST has come
		func() { k.handle(); k.handle(); k.handle() },  // some are on their way
		func() { k.holdMessages(hold); k.untilHeld() }, // in the middle of a POST
	}
	const each = 6
	sent := 0
	for round, moment := range moments {
		k.start()
		for i := range each {
			id := fmt.Sprintf("r%d-%d", round, i)
			if status := tryPost(k.inbox, asJSON(posted(fmt.Sprint("c", i), id, id, k.callback.url))); status != http.StatusOK {
				t.Fatalf("%s: %d", id, status)
			}
			sent++
		}
		moment()
		k.noteUnderWay()
		k.kill()
	}
	k.callback.responding(nil)
	k.start()
	defer k.kill()
	for len(k.got) < sent {
		k.handle()
	}
	waitFor(t, func() bool {
		for len(k.callback.calls) > 0 {
			k.note(<-k.callback.calls)
		}
		for k.agent.Pending() > 0 {
			k.handle()
		}
		return k.ended() >= sent
	})
	for id := range k.unknown {
		if !k.inFlight[id] && k.answered["re "+id] == 0 {
			t.Errorf("the answer to %s did not come, and was not under way when a kill came", id)
		}
	}
	for text, n := range k.answered {
		if n != 1 {
			t.Errorf("%q reached the callback %d times", text, n)
		}
	}
}

// A killFixture is a gateway in a process that the test kills, on a bus with an agent and a callback.
type killFixture struct {
	*child
	agent    *bustest.Scripted
	callback *receiver
	inbox    string
	held     chan struct{}
	server   *bustest.Bus

	got      map[string]int  // messages that the agent got, by text
	answered map[string]int  // answers that the callback got, by text
	replied  map[string]bool // messages whose answer the gateway accepted, by id
	inFlight map[string]bool // those whose answer had not arrived at a kill
	unknown  map[string]bool // messages whose answer has an unknown outcome, by id
}

func newKillFixture(t *testing.T) *killFixture {
	t.Helper()
	t.Parallel()
	b := bustest.Start(t, nil)
	c := &child{t: t, folder: filepath.Join(t.TempDir(), "chorus"), listen: bustest.FreeAddress(t), bus: b.URL()}
	store, err := chorus.OpenStore(c.folder)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := store.CreateInbox(context.Background(), "ops")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	spawner(t, b, "agent:a")
	return &killFixture{
		child: c, inbox: chorus.ConnectionString("http://"+c.listen, secret), held: make(chan struct{}, 100), server: b,
		agent: b.Join(t, "agent:a", "agent:a"), callback: newReceiver(t),
		got: map[string]int{}, answered: map[string]int{}, replied: map[string]bool{}, inFlight: map[string]bool{}, unknown: map[string]bool{},
	}
}

// handle takes the agent's next delivery, and answers a message that is new.
// Like a real agent it knows a repeated one by its sourceId.
func (k *killFixture) handle() {
	d := k.agent.Next(k.t)
	switch d.Message.Type {
	case protocol.TypeChatMessage:
		var m protocol.ChatMessage
		if err := d.Decode(&m); err != nil {
			k.t.Fatal(err)
		}
		if k.got[m.Text]++; k.got[m.Text] > 1 {
			return
		}
		reply := protocol.ChatReply{Text: "re " + m.Text, InReplyTo: m.SourceID, IdempotencyKey: m.SourceID}
		k.replied[m.Text] = true
		k.replies(d.Message.From.Topic(), reply)
	case protocol.TypeDeliveryStatus:
		var s protocol.DeliveryStatus
		if err := d.Decode(&s); err != nil {
			k.t.Fatal(err)
		}
		if s.Status == protocol.StatusUnknown {
			k.unknown[s.IdempotencyKey[strings.LastIndex(s.IdempotencyKey, ":")+1:]] = true
		}
	default: // configure
		k.handle()
	}
}

// replies repeats a reply until the gateway has accepted it, across restarts.
func (k *killFixture) replies(to protocol.Topic, reply protocol.ChatReply) {
	waitFor(k.t, func() bool {
		return k.agent.Send(k.t, to, protocol.TypeChatReply, reply).DeliveredTo > 0
	})
}

// noteUnderWay notes which answers a kill may hit now.
func (k *killFixture) noteUnderWay() {
	for len(k.callback.calls) > 0 {
		k.note(<-k.callback.calls)
	}
	for id := range k.replied {
		if k.answered["re "+id] == 0 {
			k.inFlight[id] = true
		}
	}
}

// note counts what came to the callback.
func (k *killFixture) note(c call) {
	if c.body["type"] == "message" {
		k.answered[c.body["content"].(string)]++
	}
}

// ended counts the messages whose answer arrived or never will.
func (k *killFixture) ended() int {
	n := len(k.answered)
	for id := range k.unknown {
		if k.answered["re "+id] == 0 {
			n++
		}
	}
	return n
}

// holdMessages makes the callback answer no more until hold is closed.
func (k *killFixture) holdMessages(hold chan struct{}) {
	k.callback.responding(func(http.ResponseWriter, *http.Request, int) bool {
		k.held <- struct{}{}
		<-hold
		return false
	})
}

// untilHeld handles what comes until the POST of an answer is under way. What comes first may be
// a repetition, or a status, and need no answer.
func (k *killFixture) untilHeld() {
	waitFor(k.t, func() bool {
		if k.agent.Pending() > 0 {
			k.handle()
		}
		return len(k.held) > 0
	})
}

// untilPosted handles what comes until an answer has come to the callback. What comes first may
// need no answer, and the previous answer may be one whose POST is not repeated.
func (k *killFixture) untilPosted() {
	waitFor(k.t, func() bool {
		if k.agent.Pending() > 0 && len(k.callback.calls) == 0 {
			k.handle()
		}
		return len(k.callback.calls) > 0
	})
	k.note(<-k.callback.calls)
}

func tryPost(url, body string) int {
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestKill_InterruptedDeliveryIsRepeated checks that the repetition has the same event and
// callback.
func TestKill_InterruptedDeliveryIsRepeated(t *testing.T) {
	k := newKillFixture(t)
	store, err := chorus.OpenStore(k.folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AddAgent(context.Background(), "ext", k.callback.url, chorus.AgentSettings{}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	k.holdMessages(hold)
	k.start()
	tg := k.server.Join(t, "tg:42", "tg:42")
	waitFor(t, func() bool {
		return tg.Send(t, "agent:ext", protocol.TypeTGMessage, dm("e1", "hello?")).DeliveredTo == 1
	})
	<-k.held
	first := k.callback.next()
	k.kill()
	k.callback.responding(nil)
	k.start()
	defer k.kill()
	again := k.callback.next()
	if asJSON(again.body) != asJSON(first.body) {
		t.Errorf("after the kill came %s; want %s", again.raw, first.raw)
	}
	if status, answer := post(t, again.body["callback"].(string), `{"type":"message","content":"here"}`); status != http.StatusOK {
		t.Errorf("the callback: %d %s", status, answer)
	}
	d := nextSaid(t, tg)
	if d.Message.InReplyTo == "" {
		t.Error("the reply does not name the message that it answers; traces would end here")
	}
	k.callback.none()
}

// TestKill_AcceptedEventSurvives kills the gateway before anything was sent. The parts of an
// answer and a report still reach the chat once, in order.
func TestKill_AcceptedEventSurvives(t *testing.T) {
	k := newKillFixture(t)
	store, err := chorus.OpenStore(k.folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.AddAgent(context.Background(), "ext", k.callback.url, chorus.AgentSettings{}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	k.start()
	tg := k.server.Join(t, "tg:42", "tg:42")
	waitFor(t, func() bool {
		return tg.Send(t, "agent:ext", protocol.TypeTGMessage, dm("e1", "hello?")).DeliveredTo == 1
	})
	callback := k.callback.next().body["callback"].(string)
	tg.Leave()
	for _, text := range []string{"one", "two", "three"} {
		if status, answer := post(t, callback, map[string]any{"type": "message", "content": text}, "Idempotency-Key", text); status != http.StatusOK {
			t.Fatalf("%s: %d %s", text, status, answer)
		}
	}
	k.kill()
	k.start()
	defer k.kill()
	if status, answer := post(t, callback, map[string]any{"type": "message", "content": "two"}, "Idempotency-Key", "two"); status != http.StatusOK {
		t.Errorf("repeated: %d %s", status, answer)
	}
	if status, answer := post(t, callback, map[string]any{"type": "message", "content": "four"}); status != http.StatusOK {
		t.Errorf("after the kill: %d %s", status, answer)
	}
	tg = k.server.Join(t, "tg:42", "tg:42")
	for _, want := range []string{"one", "two", "three", "four"} {
		if got := nextReply(t, tg).Text; got != want {
			t.Errorf("the chat got %q; want %q", got, want)
		}
	}
}
