package agent_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// start runs an agent on a bus until the test ends.
func start(t *testing.T, b *bustest.Bus, id protocol.PeerID, h harness.Harness, opts *agent.Options) {
	t.Helper()
	db, err := agent.Open(filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	if opts == nil {
		opts = &agent.Options{}
	}
	opts.Peer = &peer.Options{Dial: b.Dial}
	a := agent.New(id, db, h, opts)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the agent ended: %v", err)
		}
		db.Close()
	})
}

func content[T any](t *testing.T, d *bustest.Delivery) T {
	t.Helper()
	var v T
	if err := d.Decode(&v); err != nil {
		t.Fatalf("content %s: %v", d.Message.Content, err)
	}
	return v
}

// TestDirectMessage_IsAnswered follows a message over a real bus.
func TestDirectMessage_IsAnswered(t *testing.T) {
	b := bustest.Start(t, nil)
	system := b.Join(t, "agent:system", "system:*")
	tg := b.Join(t, "tg:bot", "tg:*")
	start(t, b, "agent:lead", scripted.New(nil), &agent.Options{ComposeWindow: 50 * time.Millisecond})
	if online := content[protocol.AgentOnline](t, system.Next(t)); online.Agent != "agent:lead" || online.Event != "online" {
		t.Fatalf("online says %+v", online)
	}
	if r := tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeConfigure, protocol.Configure{TalkTo: "tg:42"}); r.DeliveredTo != 1 {
		t.Fatalf("configure: %+v", r)
	}
	r := tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, protocol.ChatMessage{Text: "hello", SourceID: "tg:bot:42:1"})
	if r.DeliveredTo != 1 {
		t.Fatalf("tg_message: %+v", r)
	}
	d := tg.NextOf(t, protocol.TypeTGReply)
	reply := content[protocol.ChatReply](t, d)
	if d.Topic != "tg:42" || d.Message.From != "agent:lead" || d.Message.InReplyTo != r.MessageID || reply.InReplyTo != "tg:bot:42:1" || reply.IdempotencyKey == "" || reply.Text == "" {
		t.Errorf("reply is %s on %s: %+v", d.Message.Content, d.Topic, d.Message)
	}
	var seen []string
	for len(seen) < 5 {
		event := content[map[string]any](t, system.NextOf(t, protocol.TypeAgentEvent))
		name, _ := event["event"].(string)
		if state, ok := event["state"].(string); ok {
			name += " " + state
		}
		if disposition, ok := event["disposition"].(string); ok {
			name += " " + disposition
		}
		seen = append(seen, name)
	}
	slices.Sort(seen)
	equal(t, "records", seen, []string{"attention_decision", "disposition responded", "tool", "turn finished", "turn started"})
}

// TestReply_ToAnEndedCommandIsNotADeadLetter checks that the log records that nobody received it.
func TestReply_ToAnEndedCommandIsNotADeadLetter(t *testing.T) {
	withFixture(t, newStub(answering("done")), nil, func(t *testing.T, w *fixture) {
		pub := w.bus.Join(t, "cli:pub-1")
		pub.Send(t, "agent:lead", protocol.TypeTGMessage, dm("e1", "deploy"))
		pub.Leave()
		w.sleep(5 * time.Minute) // longer than any backoff
		w.wantDispositions("e1 failed")
		items, err := outbox.New(w.db, nil, nil).List(t.Context(), &outbox.Filter{Destination: "cli:pub-1"})
		if err != nil || len(items) != 1 || items[0].State != outbox.StateDropped || !strings.Contains(items[0].Error, "cli:pub-1 has left") {
			t.Errorf("%+v, %v", items, err)
		}
	})
}

// TestReply_QuotesItsMessageInGroups covers groups and threads. In a direct chat the answer
// quotes nothing. Neither does a signal, which is set on its message.
func TestReply_QuotesItsMessageInGroups(t *testing.T) {
	turn := func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		call(tools, "chat.react", map[string]any{"signal": "working"})
		return harness.Outcome{State: harness.Finished, FinalText: "done"}, nil
	}
	for name, c := range map[string]struct {
		said protocol.ChatMessage
		want string
	}{
		"a direct chat": {dm("1", "@lead deploy"), ""},
		"a group":       {post("1", "@lead deploy"), "1"},
		"a thread":      {inThread(dm("1", "@lead deploy"), "T1"), "1"},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, newStub(turn), nil, func(t *testing.T, w *fixture) {
				w.say(c.said)
				w.sleep(10 * time.Second)
				if len(w.replies) != 2 || w.replies[0].Signal != "working" || w.replies[0].ReplyTo != "" || w.replies[1].Text != "done" || w.replies[1].ReplyTo != c.want {
					t.Errorf("replies %+v", w.replies)
				}
			})
		})
	}
}
