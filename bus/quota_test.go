package bus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
	"hubbub/protocol/wire"
)

// bounded is a credential that may do everything, with bounds of its own.
func bounded(name string, bounds grant.Limits) grant.Credential {
	all := []string{"*"}
	return grant.Credential{Name: name, Identities: all, Subscribe: all, Publish: all, SHA256: grant.Hash(name), Limits: bounds}
}

// A credentialClients opens sessions of one credential in memory.
type credentialClients struct {
	t          *testing.T
	bus        *bustest.Bus
	credential grant.Credential
	serving    *sync.WaitGroup
}

// inBubble runs a test with a bus on a fake clock.
func inBubble(t *testing.T, opts *bus.Options, test func(t *testing.T, newClients func(string, grant.Limits) *credentialClients)) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, opts)
		var serving sync.WaitGroup
		t.Cleanup(serving.Wait)
		test(t, func(name string, bounds grant.Limits) *credentialClients {
			return &credentialClients{t, b, bounded(name, bounds), &serving}
		})
	})
}

// connect opens a session that is not initialized.
func (n *credentialClients) connect() *raw {
	ours, theirs := wire.Pipe(nil)
	n.serving.Go(func() { n.bus.Server().ServeStream(theirs, "in memory", &n.credential) })
	n.t.Cleanup(func() { ours.Close(wire.CloseNormal, "") })
	return &raw{n.t, ours}
}

func (n *credentialClients) join(id string) *raw {
	r := n.connect()
	if m := r.request("initialize", `{"clientId":"`+id+`"}`); m.Error != nil {
		n.t.Fatalf("%s: %s", id, m.Error)
	}
	return r
}

// send sends a message and reports whether the bus took it. It fails the test if a
// refusal is anything but the failure rate, which names the flag.
func (r *raw) send(topic, text, flag string) bool {
	r.t.Helper()
	m := r.request("sendMessage", `{"topic":"`+topic+`","payload":`+payload("m", "cli:a", text)+`}`)
	if strings.Contains(string(m.Result), `"accepted":true`) {
		return true
	}
	for _, want := range []string{`"accepted":false`, `"messageId":"m"`, `"deliveredTo":0`, `"peer":"cli:a"`, `"status":"rate"`, "(--" + flag + ")"} {
		if !strings.Contains(string(m.Result), want) {
			r.t.Fatalf("%s %s; want %s", m.Result, m.Error, want)
		}
	}
	return false
}

// reached returns how often a limit was reached.
func (n *credentialClients) reached(limit string) uint64 {
	return n.bus.Server().Counters().Limits[limit]
}

func TestQuota_MessagesAtLimitAndPast(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, newClients func(string, grant.Limits) *credentialClients) {
		n := newClients("few", grant.Limits{Messages: 10})
		a := n.join("cli:a") // the connection and initialize count as messages
		flood := func(want int) {
			t.Helper()
			taken := 0
			for a.send("news", "x", "credential-messages") {
				taken++
			}
			if taken != want {
				t.Errorf("%d messages at once; want %d", taken, want)
			}
		}
		flood(18)
		if got := used(n.bus, "credential_messages"); got != 10 || n.reached("credential_messages") != 1 {
			t.Errorf("%d of the bound is in use, and it was reached %d times", got, n.reached("credential_messages"))
		}
		if m := a.request("subscribe", `{"topic":"x"}`); !strings.Contains(string(m.Error), "-32603") {
			t.Errorf("a subscription beyond it: %s %s; want -32603", m.Result, m.Error)
		}
		if m := a.request("ping", `{}`); m.Error != nil {
			t.Errorf("the session has ended: %s", m.Error)
		}
		if b := newClients("other", grant.Limits{}).join("cli:b"); b == nil || !strings.Contains(string(b.request("sendMessage", `{"topic":"x","payload":`+payload("m", "cli:b", "")+`}`).Result), `"accepted":true`) {
			t.Error("another credential is refused, too")
		}
		timetest.Advance(time.Second)
		flood(10)
		late := n.connect()
		if _, err := late.read(); wire.CloseCode(err) != wire.CloseTryLater {
			t.Errorf("a connection beyond it: %v; want 1013", err)
		}
		timetest.Advance(time.Hour)
		flood(20)
	})
}

func TestQuota_BytesAtLimitAndPast(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, newClients func(string, grant.Limits) *credentialClients) {
		n := newClients("short", grant.Limits{Bytes: 10_000})
		a := n.join("cli:a")
		text := strings.Repeat("x", 9_900)
		taken := 0
		for a.send("news", text, "credential-bytes") {
			taken++
		}
		if taken != 2 && taken != 3 || n.reached("credential_bytes") != 1 {
			t.Errorf("%d messages of 10,000 bytes at once; want those of 2 seconds", taken)
		}
		if timetest.Advance(30 * time.Second); !a.send("news", text, "credential-bytes") {
			t.Error("refused after half a minute")
		}
	})
}

// TestQuota_LogBytesAtLimitAndPast uses a peer that sends, one that gives long
// answers, and one that only connects and disconnects.
func TestQuota_LogBytesAtLimitAndPast(t *testing.T) {
	const bound = 50_000
	sender := bounded("sender", grant.Limits{LogBytes: bound})
	wordy, restless := sender, sender
	wordy.Name, restless.Name = "wordy", "restless"
	b, _, tokens := credentialed(t, sender, wordy, restless, bounded("other", grant.Limits{}))
	p := join(t, b, tokens["sender"], "cli:a")
	taken := 0
	for p.send("news", strings.Repeat("x", 1000), "credential-log-bytes") {
		taken++
	}
	if taken < 20 || taken > 50 || used(b, "credential_log_bytes") < bound {
		t.Errorf("%d messages of 1,000 bytes passed, %d bytes are in use; want about 35", taken, used(b, "credential_log_bytes"))
	}
	if m := p.request("subscribe", `{"topic":"news"}`); m.Error != nil {
		t.Errorf("a subscription is refused at once: %s", m.Error)
	}
	if n := len(rows(t, b, "event = 'rejected'")); n != 0 {
		t.Errorf("refusals left %d rows", n)
	}

	ear := join(t, b, tokens["wordy"], "agent:ear", "ear")
	other := join(t, b, tokens["other"], "cli:other")
	for range 60 { // answers of 1,000 bytes
		other.write(`{"jsonrpc":"2.0","id":7,"method":"sendMessage","params":{"topic":"ear","payload":` + payload("m", "cli:other", "") + `}}`)
		m, err := ear.read()
		if err != nil {
			t.Fatal(err)
		}
		ear.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true,"words":"` + strings.Repeat("y", 1000) + `"}}`)
		if m, err := other.read(); err != nil || !strings.Contains(string(m.Result), `"deliveredTo":1`) {
			t.Fatalf("%s %s, %v; want it delivered", m.Result, m.Error, err)
		}
	}
	with, without := len(rows(t, b, "event = 'process_finish' AND payload_json LIKE '%yyy%'")), len(rows(t, b, "event = 'process_finish' AND error LIKE '%not recorded%'"))
	if with+without != 60 || with > bound/1000 || with < bound/1000-5 {
		t.Errorf("%d wordy answers are in the log, %d are not", with, without)
	}

	for came := 0; ; came++ {
		s, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: tokens["restless"]})
		if err != nil {
			t.Fatal(err)
		}
		r := &raw{t, s}
		r.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"cli:` + strings.Repeat("z", 250) + `"}}`)
		_, err = r.read()
		s.Close(wire.CloseNormal, "")
		if wire.CloseCode(err) == wire.CloseTryLater {
			break
		}
		if came > bound/250 {
			t.Fatal("who comes and goes fills the log without end")
		}
	}
}

func TestQuota_SubscriptionsAtLimitAndPast(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, newClients func(string, grant.Limits) *credentialClients) {
		n := newClients("few", grant.Limits{Subscriptions: 3})
		a, b := n.join("cli:a"), n.join("cli:b")
		subscribe := func(r *raw, topic string, want bool) {
			t.Helper()
			m := r.request("subscribe", `{"topic":"`+topic+`"}`)
			if (m.Error == nil) != want || !want && !strings.Contains(string(m.Error), "--credential-subscriptions") {
				t.Errorf("%s: %s %s; want it taken: %t", topic, m.Result, m.Error, want)
			}
		}
		subscribe(a, "a", true)
		subscribe(a, "a", true) // the same again
		subscribe(a, "b", true)
		subscribe(b, "a", true)
		subscribe(b, "b*b*b*b*b*b", false)
		a.request("unsubscribe", `{"topic":"a"}`)
		subscribe(b, "b", true)
		subscribe(a, "a", false)
		b.stream.Close(wire.CloseNormal, "")
		synctest.Wait()
		subscribe(a, "c", true)
		subscribe(a, "d", true)
		subscribe(a, "e", false)
		if got := used(n.bus, "credential_subscriptions"); got != 3 || n.reached("credential_subscriptions") != 3 {
			t.Errorf("%d are in use, and the bound was reached %d times", got, n.reached("credential_subscriptions"))
		}
	})
}

// TestQuota_SessionsAtLimitAndPast checks that a session that takes over
// another one of the credential is accepted even if all places are taken.
func TestQuota_SessionsAtLimitAndPast(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, newClients func(string, grant.Limits) *credentialClients) {
		n := newClients("few", grant.Limits{Sessions: 2})
		newClients("other", grant.Limits{}).join("cli:other")
		first := n.join("cli:a")
		n.join("cli:b")
		third := n.connect()
		third.write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"cli:c"}}`)
		if _, err := third.read(); wire.CloseCode(err) != wire.CloseTryLater {
			t.Errorf("a third peer: %v; want 1013", err)
		}
		third.stream.Close(wire.CloseNormal, "")
		synctest.Wait()
		again := n.join("cli:a")
		if _, err := first.read(); wire.CloseCode(err) != protocol.CloseReplaced {
			t.Errorf("the session that was taken over: %v; want 4001", err)
		}
		first.stream.Close(wire.CloseNormal, "")
		synctest.Wait()
		n.connect() // takes the place that is kept for a session that takes over
		synctest.Wait()
		if _, err := n.connect().read(); wire.CloseCode(err) != wire.CloseTryLater {
			t.Errorf("a fourth connection: %v; want 1013", err)
		}
		if again.request("ping", "{}").Error != nil || n.reached("credential_sessions") != 2 {
			t.Errorf("the bound was reached %d times", n.reached("credential_sessions"))
		}
	})
}

// TestLimits_OfChangedFileApplyAtOnce edits credentials.toml while a session is connected.
func TestLimits_OfChangedFileApplyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), grant.FileName)
	file := grant.NewFile(path)
	token, err := file.Create(bounded("all", grant.Limits{Subscriptions: 1}))
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Start(t, &bus.Options{Credentials: file})
	p := join(t, b, token, "cli:a", "a")
	if m := p.request("subscribe", `{"topic":"b"}`); m.Error == nil {
		t.Error("a second subscription passed")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "credential-subscriptions = 1", "credential-subscriptions = 5", 1)
	if changed == string(text) {
		t.Fatalf("the file does not hold the bound: %s", text)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return p.request("subscribe", `{"topic":"b"}`).Error == nil })
	for i := range 3 {
		p.request("subscribe", fmt.Sprintf(`{"topic":"c%d"}`, i))
	}
	if m := p.request("subscribe", `{"topic":"d"}`); !strings.Contains(string(m.Error), "may have 5 subscriptions") {
		t.Errorf("a sixth subscription: %s %s", m.Result, m.Error)
	}
}

// TestOverhead_IsSlowedDown uses peers that cause more refusals and pings than their
// credential may send messages. All are answered, but no faster than that. Another credential is
// answered at once.
func TestOverhead_IsSlowedDown(t *testing.T) {
	const pace, burst, asked = 10, 20, 60
	for what, frame := range map[string]string{
		"pings":                  `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		"unknown methods":        `{"jsonrpc":"2.0","id":1,"method":"fly"}`,
		"frames without sense":   `{"jsonrpc":"2.0","id":1}`,
		"params without sense":   `{"jsonrpc":"2.0","id":1,"method":"sendMessage","params":{}}`,
		"answers to nothing":     `{"jsonrpc":"2.0","id":"7","result":{}}`,
		"answers to no delivery": `{"jsonrpc":"2.0","id":7,"result":{"processed":true}}`,
	} {
		inBubble(t, nil, func(t *testing.T, newClients func(string, grant.Limits) *credentialClients) {
			n := newClients("few", grant.Limits{Messages: pace})
			a := n.join("cli:a")
			began := time.Now()
			go func() {
				for range asked {
					a.write(frame)
				}
				a.write(`{"jsonrpc":"2.0","id":"last","method":"unsubscribe","params":{"topic":"x"}}`)
			}()
			for {
				m, err := a.read()
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if m.ID.String() == "last" {
					break
				}
			}
			// A second's worth is in debt when the last is read.
			if took := time.Since(began); took < (asked-burst)/pace*time.Second-time.Second || took > (asked-burst)/pace*time.Second+time.Second {
				t.Errorf("%s: %d are answered in %s; want about %d a second after the first %d", what, asked, took, pace, burst)
			}
			if n.reached("credential_messages") == 0 {
				t.Errorf("%s: the bound is not counted", what)
			}
			other := newClients("other", grant.Limits{Messages: pace}).join("cli:b")
			began = time.Now()
			if other.silent(); time.Since(began) > 0 {
				t.Errorf("%s: another credential waits %s", what, time.Since(began))
			}
		})
	}
}

// TestOverhead_RefusedMessagesAreSlowedDown makes a peer continue to send while
// its limit is reached: its refusals are limited, too, and its messages are
// accepted again after a wait.
func TestOverhead_RefusedMessagesAreSlowedDown(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, newClients func(string, grant.Limits) *credentialClients) {
		a := newClients("few", grant.Limits{Messages: 10}).join("cli:a")
		began, taken := time.Now(), 0
		for range 200 {
			if a.send("news", "x", "credential-messages") {
				taken++
			}
		}
		if took := time.Since(began); took < 8*time.Second || took > 10*time.Second || taken < 80 || taken > 120 {
			t.Errorf("200 messages took %s, and %d were taken; want half of them, 20 a second", took, taken)
		}
	})
}

// TestOverhead_WebSocketPingsAreSlowedDown sends the ping frames of WebSocket itself.
func TestOverhead_WebSocketPingsAreSlowedDown(t *testing.T) {
	b, _, tokens := credentialed(t, bounded("few", grant.Limits{Messages: 10}))
	s, err := wire.Dial(t.Context(), b.URL(), &wire.DialOptions{Token: tokens["few"]})
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, s, "cli:a")
	go func() {
		for _, err := r.read(); err == nil; _, err = r.read() {
			continue
		}
	}()
	for b.Server().Counters().Limits["credential_messages"] == 0 {
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
