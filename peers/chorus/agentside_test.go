package chorus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
)

// TestInbox_DeliversMessageAndReturnsAnswer plays the whole agent side: inbox, spawn as for a
// Telegram chat, reply, activity, callback.
func TestInbox_DeliversMessageAndReturnsAnswer(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	system := r.bus.Join(t, protocol.PeerSystem, "system:*")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")

	target := callback.url + "/cb/tok_xyz?a=1&b=%20c"
	status, _ := post(t, inbox, map[string]any{
		"channel": map[string]any{"id": "ch/1 ä", "name": "ops-team", "service": "Miriad", "context": "a channel"},
		"message": map[string]any{"id": "m1", "sender": "alice", "content": "What's the weather in Oslo? <&>"}, "callback": target,
	})
	if status != http.StatusOK {
		t.Fatalf("status %d; want 200", status)
	}
	const channel = protocol.PeerID("chorus:ops.ch%2F1%20%C3%A4")
	spawn := system.Next(t)
	if spawn.Message.Type != protocol.TypeSpawnRequest || spawn.Message.From != channel || spawn.Topic != protocol.TopicSpawn {
		t.Fatalf("got %s from %s on %s; want a spawn_request from %s", spawn.Message.Type, spawn.Message.From, spawn.Topic, channel)
	}
	system.Send(t, channel.Topic(), protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: channel.Topic(), Agent: "agent:a"})

	configure := agent.Next(t)
	var talk protocol.Configure
	if err := configure.Decode(&talk); err != nil || configure.Message.Type != protocol.TypeConfigure || talk.TalkTo != channel.Topic() {
		t.Fatalf("got %s %s, %v; want configure talkto %s", configure.Message.Type, configure.Message.Content, err, channel)
	}
	d := agent.Next(t)
	var m protocol.ChatMessage
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if d.Message.Type != protocol.TypeChatMessage || d.Message.From != channel || m.Text != "What's the weather in Oslo? <&>" ||
		m.Author.DisplayName != "alice" || m.Chat.Title != "ops-team" || m.Chat.Service != "Miriad" || m.Chat.Kind != "channel" || !slices.Equal(m.Mentions, []string{"agent:a"}) {
		t.Fatalf("chat_message from %s: %s", d.Message.From, d.Message.Content)
	}
	if strings.Contains(string(d.Raw), "tok_xyz") || m.MCP != nil {
		t.Fatalf("the callback or tools travel on the bus: %s", d.Raw)
	}

	agent.Send(t, channel.Topic(), protocol.TypeAgentEvent, map[string]any{"event": "status", "status": "looking", "inReplyTo": m.SourceID})
	agent.Send(t, channel.Topic(), protocol.TypeAgentEvent, map[string]any{
		"event": "tool_call", "name": "web_search", "args": map[string]any{"query": "oslo"}, "id": "tc_001", "inReplyTo": m.SourceID})
	agent.Send(t, channel.Topic(), protocol.TypeAgentEvent, map[string]any{"event": "tool_result", "id": "tc_001", "content": "3°C", "inReplyTo": m.SourceID})
	reply := protocol.ChatReply{Text: "3°C and cloudy", InReplyTo: m.SourceID, IdempotencyKey: "k1"}
	agent.Send(t, channel.Topic(), protocol.TypeChatReply, reply)
	agent.Send(t, channel.Topic(), protocol.TypeChatReply, reply) // the same once more

	want := []map[string]any{
		{"type": "lifecycle", "status": "processing"},
		{"type": "status", "status": "looking"},
		{"type": "tool_call", "name": "web_search", "args": map[string]any{"query": "oslo"}, "id": "tc_001"},
		{"type": "tool_result", "id": "tc_001", "content": "3°C"},
		{"type": "message", "content": "3°C and cloudy"},
		{"type": "lifecycle", "status": "idle"},
	}
	for _, w := range want {
		c := callback.next()
		if got, want := asJSON(c.body), asJSON(w); got != want {
			t.Errorf("callback got %s; want %s", got, want)
		}
		if c.method != http.MethodPost || c.uri != "/cb/tok_xyz?a=1&b=%20c" {
			t.Errorf("%s %s; want the callback's URL as it was given", c.method, c.uri)
		}
		if c.header.Get("Content-Type") != "application/json" || c.header.Get("Authorization") != "" {
			t.Errorf("headers %v; want JSON and no Authorization", c.header)
		}
	}
	outcome := agent.NextOf(t, protocol.TypeDeliveryStatus)
	var s protocol.DeliveryStatus
	if err := outcome.Decode(&s); err != nil || s.Status != protocol.StatusDelivered || s.IdempotencyKey != "k1" || s.SourceID != "" {
		t.Errorf("delivery_status %s, %v; want delivered, with no id that a chat gave it", outcome.Message.Content, err)
	}
	callback.none()
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestInbox_TakesARepeatedMessageOnce(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	other := r.inbox("other")
	for range 3 {
		if status, _ := post(t, inbox, posted("c", "m1", "first", callback.url)); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	post(t, inbox, posted("c", "m2", "second", callback.url))
	post(t, inbox, posted("d", "m1", "elsewhere", callback.url))
	post(t, other, posted("c", "m1", "another inbox", callback.url))
	texts := map[string]int{}
	for range 4 {
		var m protocol.ChatMessage
		if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
			t.Fatal(err)
		}
		texts[m.Text]++
	}
	for _, text := range []string{"first", "second", "elsewhere", "another inbox"} {
		if texts[text] != 1 {
			t.Errorf("%q came %d times; want once", text, texts[text])
		}
	}
}

func TestInbox_KeepsTheOrderOfMessages(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	inbox := r.inbox("ops")
	for _, id := range []string{"m1", "m2", "m3", "m4", "m5"} {
		post(t, inbox, posted("c", id, id, callback.url))
	}
	agent := r.bus.Join(t, "agent:a", "agent:a")
	declines := 2
	agent.Refuse(func(d *bustest.Delivery) error {
		if d.Message.Type == protocol.TypeChatMessage && declines > 0 {
			declines--
			return context.DeadlineExceeded
		}
		return nil
	})
	spawner(t, r.bus, "agent:a")
	for _, id := range []string{"m1", "m2", "m3", "m4", "m5"} {
		var m protocol.ChatMessage
		if err := agent.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil || m.Text != id {
			t.Fatalf("got %q, %v; want %q", m.Text, err, id)
		}
	}
}

// TestCallbacks_KeepTheOrderOfAnswers checks messages that have a callback each: the channel
// receives the answers in order, even if one of them is repeated.
func TestCallbacks_KeepTheOrderOfAnswers(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	calls := 0
	callback.responding(func(w http.ResponseWriter, req *http.Request, _ int) bool {
		if req.URL.Path != "/m3" {
			return false
		}
		if calls++; calls != 2 { // its message
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	inbox := r.inbox("ops")
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	var ids, want []string
	for n := range 20 {
		id := fmt.Sprint("m", n)
		ids = append(ids, id)
		post(t, inbox, posted("c", id, id, callback.url+"/"+id))
	}
	for range ids {
		d := agent.NextOf(t, protocol.TypeChatMessage)
		agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "answer", InReplyTo: string(d.Message.MessageID)})
	}
	for _, id := range ids {
		kinds := []string{"lifecycle:processing", "message", "lifecycle:idle"}
		if id == "m3" {
			kinds = slices.Insert(kinds, 1, "message") // the refused one
		}
		for _, kind := range kinds {
			want = append(want, "/"+id+" "+kind)
		}
	}
	for i, w := range want {
		c := callback.next()
		if got := c.uri + " " + c.kind(); got != w {
			t.Fatalf("call %d is %s; want %s", i, got, w)
		}
	}
}

func TestInbox_RequestsADeadAgentAgain(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	post(t, inbox, posted("c", "m1", "one", callback.url))
	agent.NextOf(t, protocol.TypeChatMessage)
	agent.Send(t, "chorus:ops.c", protocol.TypeChatReply, protocol.ChatReply{Text: "x"})
	agent.NextOf(t, protocol.TypeDeliveryStatus) // by now the first message is taken
	agent.Leave()
	watch := r.bus.Join(t, "cli:watch", "system:spawn")
	post(t, inbox, posted("c", "m2", "two", callback.url))
	watch.NextOf(t, protocol.TypeSpawnRequest)
	again := r.bus.Join(t, "agent:a", "agent:a")
	again.NextOf(t, protocol.TypeConfigure)
	var m protocol.ChatMessage
	if err := again.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil || m.Text != "two" {
		t.Errorf("got %q, %v; want two", m.Text, err)
	}
}

// TestReply_OfAnOperatorLeavesNoDeadLetter lets a command line answer a service and exit. Nobody is
// notified of the outcome, and it leaves nothing for a person to look at.
func TestReply_OfAnOperatorLeavesNoDeadLetter(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	post(t, r.inbox("ops"), posted("c", "m1", "one", callback.url))
	agent.NextOf(t, protocol.TypeChatMessage)
	gone := r.bus.Join(t, "cli:pub-1")
	gone.Send(t, "chorus:ops.c", protocol.TypeChatReply, protocol.ChatReply{Text: "from a command that ends"})
	gone.Leave()
	db, err := store.OpenExisting(filepath.Join(r.folder, "chorus.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waitFor(t, func() bool {
		var state, reason string
		err := storetest.Scan(db, []any{&state, &reason}, `SELECT state, error FROM outbox WHERE destination = 'cli:pub-1'`)
		if err != nil && !errors.Is(err, storetest.ErrNoRow) {
			t.Fatalf("the report is %q (%s): %v", state, reason, err)
		}
		return state == string(outbox.StateDropped) && strings.Contains(reason, "cli:pub-1 has left")
	})
}

func TestInbox_ReportsOnceThatNoAgentIsAvailable(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	system := r.bus.Join(t, protocol.PeerSystem, "system:*")
	post(t, r.inbox("ops"), posted("c", "m1", "one", callback.url))
	system.NextOf(t, protocol.TypeSpawnRequest)
	for range 3 {
		system.Send(t, "chorus:ops.c", protocol.TypeSpawnResult, protocol.SpawnResult{Topic: "chorus:ops.c", Status: protocol.SpawnFailed, Error: "no"})
	}
	if c := callback.next(); c.body["type"] != "error" || c.body["code"] != "no_agent" {
		t.Errorf("callback got %s; want an error with the code no_agent", c.raw)
	}
	agent := r.bus.Join(t, "agent:late", "agent:late")
	system.Send(t, "chorus:ops.c", protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: "chorus:ops.c", Agent: "agent:late"})
	agent.NextOf(t, protocol.TypeChatMessage) // the message stayed
	callback.none()
}

// TestInbox_HandsOverWhatIsBeingDelivered gives a channel another agent while the first one hangs at a message.
func TestInbox_HandsOverWhatIsBeingDelivered(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	system := r.bus.Join(t, protocol.PeerSystem, "system:*")
	first, second := r.bus.Join(t, "agent:a", "agent:a"), r.bus.Join(t, "agent:b", "agent:b")
	takes, fails := make(chan struct{}, 100), make(chan struct{})
	first.Refuse(func(d *peer.Delivery) error {
		if d.Message.Type != protocol.TypeChatMessage {
			return nil
		}
		takes <- struct{}{}
		<-fails
		return errors.New("not now")
	})
	route := func(agent protocol.PeerID) {
		system.Send(t, "chorus:ops.c", protocol.TypeRouteAssigned, protocol.RouteAssigned{Topic: "chorus:ops.c", Agent: agent})
	}
	post(t, r.inbox("ops"), posted("c", "m1", "one", callback.url))
	system.NextOf(t, protocol.TypeSpawnRequest)
	route("agent:a")
	<-takes
	route("agent:b")
	close(fails)
	m := second.NextOf(t, protocol.TypeChatMessage).Message
	db, err := store.OpenExisting(filepath.Join(r.folder, "chorus.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waitFor(t, func() bool {
		var dropped int
		err := storetest.Scan(db, []any{&dropped}, `SELECT count(*) FROM outbox WHERE state = 'dropped'`)
		return err == nil && dropped == 1
	})
	reply := protocol.ChatReply{Text: "answer", InReplyTo: string(m.MessageID)}
	second.Send(t, "chorus:ops.c", protocol.TypeChatReply, reply)
	for c := callback.next(); c.body["content"] != "answer"; c = callback.next() {
		if c.body["type"] == "error" {
			t.Fatalf("the service was told %s", c.raw)
		}
	}
}

func TestCallbacks_RetryAfter5xxOnly(t *testing.T) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	answer := func(t *testing.T, callback *receiver, id string) string {
		t.Helper()
		post(t, inbox, posted("c-"+id, id, id, callback.url))
		d := agent.NextOf(t, protocol.TypeChatMessage)
		agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "answer " + id, InReplyTo: string(d.Message.MessageID)})
		return nextOutcome(t, agent)
	}
	t.Run("5xx then 200", func(t *testing.T) {
		callback := newReceiver(t)
		callback.responding(func(w http.ResponseWriter, _ *http.Request, n int) bool {
			if n == 1 || n == 2 || n == 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		})
		if got := answer(t, callback, "a"); got != "accepted delivered " {
			t.Errorf("outcome %q; want accepted, then delivered", got)
		}
		if got := callback.types(6); got != "lifecycle:processing message message message message lifecycle:idle" {
			t.Errorf("calls %s", got)
		}
	})
	t.Run("5xx for ever", func(t *testing.T) {
		callback := newReceiver(t)
		callback.responding(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		})
		if got := answer(t, callback, "b"); !strings.HasPrefix(got, "accepted failed ") || !strings.Contains(got, "500") {
			t.Errorf("outcome %q; want accepted, then failed with the status", got)
		}
		if got := callback.types(5); got != "lifecycle:processing"+strings.Repeat(" message", 4) {
			t.Errorf("calls %s; want no lifecycle where it is not taken", got)
		}
	})
	t.Run("4xx", func(t *testing.T) {
		callback := newReceiver(t)
		callback.responding(func(w http.ResponseWriter, _ *http.Request, _ int) bool {
			w.WriteHeader(http.StatusGone)
			return true
		})
		if got := answer(t, callback, "c"); !strings.HasPrefix(got, "failed ") {
			t.Errorf("outcome %q; want failed", got)
		}
		if got := callback.types(2); got != "lifecycle:processing message" {
			t.Errorf("calls %s; want none repeated, and no lifecycle where it is not taken", got)
		}
	})
	t.Run("broken connection", func(t *testing.T) {
		callback := newReceiver(t)
		callback.responding(func(w http.ResponseWriter, _ *http.Request, n int) bool {
			if n != 1 {
				return false
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			conn.Close()
			return true
		})
		if got := answer(t, callback, "d"); got != "accepted delivered " {
			t.Errorf("outcome %q; want accepted, then delivered", got)
		}
		if got := callback.types(4); got != "lifecycle:processing message message lifecycle:idle" {
			t.Errorf("calls %s", got)
		}
	})
}

// TestCallbacks_DoNotRepeatAnUnansweredPost checks that a post without an answer is not sent again,
// since the service may have it, and that the channel's next events do not wait for it.
func TestCallbacks_DoNotRepeatAnUnansweredPost(t *testing.T) {
	r := startNew(t, func(o *chorus.Options) { o.PostTimeout = 8 * time.Second })
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	callback := newReceiver(t)
	callback.responding(func(_ http.ResponseWriter, req *http.Request, n int) bool {
		if n == 1 { // the first message
			<-req.Context().Done()
		}
		return false
	})
	inbox := r.inbox("ops")
	for _, id := range []string{"one", "two"} {
		post(t, inbox, posted("c", id, id, callback.url))
		d := agent.NextOf(t, protocol.TypeChatMessage)
		agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: id, InReplyTo: string(d.Message.MessageID), IdempotencyKey: id})
	}
	for _, want := range []protocol.DeliveryStatus{{IdempotencyKey: "one", Status: protocol.StatusUnknown}, {IdempotencyKey: "two", Status: protocol.StatusDelivered}} {
		var s protocol.DeliveryStatus
		if err := agent.NextOf(t, protocol.TypeDeliveryStatus).Decode(&s); err != nil || s.Status != want.Status || s.IdempotencyKey != want.IdempotencyKey {
			t.Errorf("%+v, %v; want %s %s", s, err, want.IdempotencyKey, want.Status)
		}
	}
	const each = "lifecycle:processing message lifecycle:idle"
	if got := callback.types(6); got != each+" "+each {
		t.Errorf("calls %s", got)
	}
}

func TestCallbacks_SlowOneDelaysNoOther(t *testing.T) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	release := make(chan struct{})
	slow, quick := newReceiver(t), newReceiver(t)
	slow.responding(func(http.ResponseWriter, *http.Request, int) bool { <-release; return false })
	defer close(release)
	post(t, inbox, posted("slow", "m", "slow", slow.url))
	d := agent.NextOf(t, protocol.TypeChatMessage)
	agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "x"})
	slow.next()
	post(t, inbox, posted("quick", "m", "quick", quick.url))
	d = agent.NextOf(t, protocol.TypeChatMessage)
	agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "y"})
	if got := quick.types(3); got != "lifecycle:processing message lifecycle:idle" {
		t.Errorf("calls %s", got)
	}
}

// TestInbox_AcceptedMessageSurvivesARestart accepts a message without an agent and without a bus,
// then starts both.
func TestInbox_AcceptedMessageSurvivesARestart(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t, nil)
	folder := filepath.Join(t.TempDir(), "chorus")
	callback := newReceiver(t)
	r := start(t, b, folder, nil)
	post(t, r.inbox("ops"), posted("c", "m1", "kept", callback.url))
	r.stop()
	agent := b.Join(t, "agent:a", "agent:a")
	spawner(t, b, "agent:a")
	start(t, b, folder, nil)
	d := agent.NextOf(t, protocol.TypeChatMessage)
	var m protocol.ChatMessage
	if err := d.Decode(&m); err != nil || m.Text != "kept" {
		t.Fatalf("got %q, %v", m.Text, err)
	}
	agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "and answered", InReplyTo: m.SourceID})
	if got := callback.types(3); got != "lifecycle:processing message lifecycle:idle" {
		t.Errorf("calls %s", got)
	}
}

// TestVisibility_PrivateReplyIsNotShownToChannel checks a channel of several people and one of two.
func TestVisibility_PrivateReplyIsNotShownToChannel(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	for _, c := range []struct{ channel, context, visibility, want string }{
		{"all", "", "dm", protocol.StatusFailed},
		{"all", "", "ephemeral", protocol.StatusFailed},
		{"all", "", "channel", protocol.StatusDelivered},
		{"two", "direct message", "dm", protocol.StatusDelivered},
	} {
		m := posted(c.channel, c.channel+c.visibility, "hello", callback.url)
		m["channel"].(map[string]any)["context"] = c.context
		post(t, inbox, m)
		d := agent.NextOf(t, protocol.TypeChatMessage)
		agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "x", Visibility: c.visibility})
		var s protocol.DeliveryStatus
		if err := agent.NextOf(t, protocol.TypeDeliveryStatus).Decode(&s); err != nil || s.Status != c.want {
			t.Errorf("%+v: %+v, %v", c, s, err)
		}
	}
}

func TestReply_ToUnknownChannelIsRejected(t *testing.T) {
	r := startNew(t, nil)
	agent := r.bus.Join(t, "agent:a", "agent:a")
	res := agent.Send(t, "chorus:ops.nowhere", protocol.TypeChatReply, protocol.ChatReply{Text: "x"})
	if res.DeliveredTo != 0 || len(res.Failures) != 1 || res.Failures[0].Status != protocol.OutcomeRejected {
		t.Errorf("result %+v; want it rejected", res)
	}
}

// TestCallbacks_SurroundATurnWithLifecycle checks the calls that each event of a turn causes.
func TestCallbacks_SurroundATurnWithLifecycle(t *testing.T) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	activity := func(event string) func(protocol.Topic) {
		return func(to protocol.Topic) {
			agent.Send(t, to, protocol.TypeAgentEvent, map[string]any{"event": event, "status": "s", "message": "broken", "code": "x"})
		}
	}
	reply := func(c protocol.ChatReply) func(protocol.Topic) {
		return func(to protocol.Topic) { agent.Send(t, to, protocol.TypeChatReply, c) }
	}
	tests := []struct {
		name string
		does []func(protocol.Topic)
		want string
	}{
		{"error", []func(protocol.Topic){activity("status"), activity("error")}, "lifecycle:processing status error lifecycle:idle"},
		{"typing", []func(protocol.Topic){reply(protocol.ChatReply{Typing: true}), reply(protocol.ChatReply{Typing: true}), reply(protocol.ChatReply{Text: "t"}), reply(protocol.ChatReply{Typing: true})},
			"lifecycle:processing message lifecycle:idle"},
		{"signal", []func(protocol.Topic){reply(protocol.ChatReply{Signal: "working"}), reply(protocol.ChatReply{Signal: "done"})}, "lifecycle:processing status status lifecycle:idle"},
		{"after", []func(protocol.Topic){reply(protocol.ChatReply{Text: "t"}), activity("status")},
			"lifecycle:processing message lifecycle:idle lifecycle:processing status lifecycle:idle"},
	}
	for _, tt := range tests {
		callback := newReceiver(t)
		post(t, inbox, posted("c", tt.name, tt.name, callback.url))
		d := agent.NextOf(t, protocol.TypeChatMessage)
		for _, do := range tt.does {
			do(d.Message.From.Topic())
		}
		if got := callback.types(len(strings.Fields(tt.want))); got != tt.want {
			t.Errorf("%s: %s; want %s", tt.name, got, tt.want)
		}
	}
}

func TestGateway_StopsDespiteAHungService(t *testing.T) {
	r := startNew(t, func(o *chorus.Options) { o.StopTimeout = 50 * time.Millisecond })
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	arrived, release := make(chan struct{}), make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case arrived <- struct{}{}:
		case <-release:
		}
		<-release
	}))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(release) })
	post(t, r.inbox("ops"), posted("c", "m", "x", hung.URL))
	d := agent.NextOf(t, protocol.TypeChatMessage)
	agent.Send(t, d.Message.From.Topic(), protocol.TypeChatReply, protocol.ChatReply{Text: "x"})
	<-arrived
	r.stop() // or the test hangs
}
