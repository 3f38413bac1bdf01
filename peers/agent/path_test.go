package agent_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/scripted"
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

// TestADirectMessageIsAnswered walks the whole path over a real bus.
func TestADirectMessageIsAnswered(t *testing.T) {
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
	for len(seen) < 4 {
		event := content[map[string]any](t, system.NextOf(t, protocol.TypeAgentEvent))
		name, _ := event["event"].(string)
		if state, ok := event["state"].(string); ok {
			name += " " + state
		}
		if disposition, ok := event["disposition"].(string); ok {
			name += " " + disposition
		}
		if name != "progress" {
			seen = append(seen, name)
		}
	}
	slices.Sort(seen)
	equal(t, "records", seen, []string{"attention_decision", "disposition responded", "turn finished", "turn started"})
}
