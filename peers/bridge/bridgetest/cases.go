package bridgetest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// cases are what every bridge does in a direct chat, in this order, with one bridge.
var cases = []struct {
	name string
	run  func(t *testing.T, f *fixture, c *Chat)
}{
	{"a message gets an agent and an answer", firstMessage},
	{"a key is shown once", keyOnce},
	{"an edit replaces a message", edit},
	{"answers keep their order over a pause and a restart", order},
	{"a refusal for good is reported", refusal},
	{"replies that can never be shown are rejected", rejections},
	{"a question to a person reaches their chat", question},
	{"a message from a hook reaches agents alone", hook},
	{"the other agents hear what one says", otherAgents},
	{"halt and resume reach the agents", commands},
	{"a stopped chat is silent", stopped},
	{"a stop follows the message that waits for an agent", stoppedEarly},
}

// Run runs the cases against a bridge in this process.
func Run(t *testing.T, d *Driver) {
	t.Helper()
	f := newFixture(t, d)
	f.database = filepath.Join(t.TempDir(), "bridge.db")
	f.start()
	t.Cleanup(func() { // the fixture's context ends afterwards
		if err := f.stop(); err != nil {
			t.Errorf("the bridge ended: %v", err)
		}
		f.checkDeadLetters(t)
	})
	chat := d.NewChat(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, f, &chat) })
	}
}

// start starts the bridge.
func (f *fixture) start() {
	ctx, cancel := context.WithCancel(f.ctx)
	done := make(chan error, 1)
	go func() { done <- f.Bridge(ctx, f.bus.URL(), f.database) }()
	f.stop = func() error {
		cancel()
		return <-done
	}
}

// checkDeadLetters checks that an operator can see what was never shown: the reply that was refused,
// and those to a stopped chat.
func (f *fixture) checkDeadLetters(t *testing.T) {
	db, err := f.Open(f.database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dead, err := store.ReadAll(context.Background(), db,
		store.Scalar[string], `SELECT error FROM outbox WHERE state = 'dead' ORDER BY id`)
	stopped := 0
	for _, reason := range dead {
		if strings.Contains(reason, "stopped") {
			stopped++
		}
	}
	if err != nil || stopped == 0 || len(dead) != stopped+1 {
		t.Errorf("dead letters: %q, %v", dead, err)
	}
}

// shown waits until the bot has said a text, and returns how often.
func (f *fixture) shown(t *testing.T, c *Chat, text string) (n int) {
	t.Helper()
	for {
		for _, said := range c.Shown() {
			if strings.Contains(said, text) {
				n++
			}
		}
		if n > 0 {
			return n
		}
		select {
		case <-f.ctx.Done():
			t.Fatalf("never shown: %q in %q", text, c.Shown())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// say sends a reply and waits for its outcome, which must be delivered.
func (f *fixture) say(t *testing.T, c *Chat, a *Agent, r protocol.ChatReply) {
	t.Helper()
	if refused := a.Say(f.ctx, c.Topic, &r); refused != "" {
		t.Fatalf("%q was rejected: %s", r.Text, refused)
	}
	f.await(t, a, "the outcome of "+r.IdempotencyKey, func() bool { return a.outcome(r.IdempotencyKey) != "" })
	a.mu.Lock()
	defer a.mu.Unlock()
	if got := a.outcome(r.IdempotencyKey); got != protocol.StatusDelivered {
		t.Errorf("%q is %s", r.Text, got)
	}
}

func firstMessage(t *testing.T, f *fixture, c *Chat) {
	c.Say("is it blocked?")
	if n := f.shown(t, c, "answer to is it blocked?"); n != 1 {
		t.Errorf("the answer is shown %d times", n)
	}
	f.agent.mu.Lock()
	defer f.agent.mu.Unlock()
	m := f.agent.events[0]
	if m.Chat.Kind != "dm" || m.Author.Kind != "human" || m.SourceID == "" || m.Sequence == 0 {
		t.Errorf("the agent got %+v", m)
	}
}

func keyOnce(t *testing.T, f *fixture, c *Chat) {
	for range 2 {
		f.say(t, c, f.agent, protocol.ChatReply{Text: "only once", IdempotencyKey: "once"})
	}
	f.say(t, c, f.agent, protocol.ChatReply{Text: "after it", IdempotencyKey: "after"})
	if n := f.shown(t, c, "only once"); n != 1 {
		t.Errorf("it is shown %d times", n)
	}
}

func edit(t *testing.T, f *fixture, c *Chat) {
	f.say(t, c, f.agent, protocol.ChatReply{Text: "working on it", IdempotencyKey: "interim"})
	before := len(c.Shown())
	f.say(t, c, f.agent, protocol.ChatReply{Text: "it is done", IdempotencyKey: "final", Edits: "interim"})
	f.shown(t, c, "it is done")
	if after := len(c.Shown()); after > before {
		t.Errorf("the edit is another message: %q", c.Shown())
	}
}

func order(t *testing.T, f *fixture, c *Chat) {
	f.Limit()
	var want []string
	for i := range 5 {
		want = append(want, fmt.Sprint("in order ", i))
		for range 2 { // the first acknowledgement never came
			r := protocol.ChatReply{Text: want[i], IdempotencyKey: want[i]}
			if refused := f.agent.Say(f.ctx, c.Topic, &r); refused != "" {
				t.Fatal(refused)
			}
		}
	}
	f.await(t, f.agent, "word that the first one waits", func() bool { return len(f.agent.status[want[0]]) > 0 })
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.await(t, f.agent, "the outcomes", func() bool {
		return !slices.ContainsFunc(want, func(key string) bool { return f.agent.outcome(key) == "" })
	})
	got := slices.DeleteFunc(c.Shown(), func(text string) bool { return !strings.HasPrefix(text, "in order") })
	if !slices.Equal(got, want) {
		t.Errorf("people read %q", got)
	}
	f.agent.mu.Lock()
	defer f.agent.mu.Unlock()
	got, want = f.agent.status[want[0]], []string{protocol.StatusAccepted, protocol.StatusDelivered}
	if !slices.Equal(got, want) {
		t.Errorf("the agent was told %q, want %q", got, want)
	}
}

func refusal(t *testing.T, f *fixture, c *Chat) {
	f.Refuse()
	f.fail(t, c, "refused permanently")
	f.shown(t, c, "An answer could not be shown here")
	f.say(t, c, f.agent, protocol.ChatReply{Text: "after a refusal", IdempotencyKey: "after a refusal"})
}

// fail sends a reply that the bridge accepts and cannot show.
func (f *fixture) fail(t *testing.T, c *Chat, text string) {
	t.Helper()
	if refused := f.agent.Say(f.ctx, c.Topic, &protocol.ChatReply{Text: text, IdempotencyKey: text}); refused != "" {
		t.Fatal(refused)
	}
	f.await(t, f.agent, "the outcome of "+text, func() bool { return f.agent.outcome(text) != "" })
	f.agent.mu.Lock()
	defer f.agent.mu.Unlock()
	if got := f.agent.outcome(text); got != protocol.StatusFailed || slices.Contains(c.Shown(), text) {
		t.Errorf("%q is %s, and people read %q", text, got, c.Shown())
	}
}

func question(t *testing.T, f *fixture, c *Chat) {
	f.say(t, &Chat{Topic: c.Person}, f.agent, protocol.ChatReply{Text: "Which branch?", IdempotencyKey: "question"})
	if n := f.shown(t, c, "Which branch?"); n != 1 {
		t.Errorf("it is shown %d times", n)
	}
}

func hook(t *testing.T, f *fixture, c *Chat) {
	gateway := f.bus.Join(t, "chorus:gateway")
	defer gateway.Leave()
	m := protocol.ChatMessage{
		Text: "quiet: the build is red", Event: protocol.EventStatus, SourceID: "hook:ci:1",
		Author: &protocol.Author{ID: "hook:ci", Kind: "human", DisplayName: "Will"},
	}
	for range 2 {
		if r := gateway.Send(t, c.Topic, protocol.TypeChatMessage, m); r.DeliveredTo != 1 {
			t.Fatalf("the hook's message was not taken: %+v", r)
		}
	}
	c.Say("quiet: after the hook")
	f.await(t, f.agent, "what came after it", func() bool { return len(f.agent.texts("quiet: after the hook")) == 1 })
	f.agent.mu.Lock()
	defer f.agent.mu.Unlock()
	i := slices.IndexFunc(f.agent.events, func(got protocol.ChatMessage) bool { return got.SourceID == m.SourceID })
	if i != len(f.agent.events)-2 {
		t.Fatalf("the agent got %+v", f.agent.events)
	}
	if by := f.agent.events[i].Author; by.Kind != "system" || by.DisplayName != "ci" {
		t.Errorf("its author is %+v", by)
	}
	m.SourceID = "hook:other:1"
	if r := gateway.Send(t, c.Topic, protocol.TypeChatMessage, m); r.DeliveredTo != 0 {
		t.Error("a hook spoke as another one")
	}
	if slices.Contains(c.Shown(), m.Text) {
		t.Errorf("people read %q", c.Shown())
	}
}

func rejections(t *testing.T, f *fixture, c *Chat) {
	for name, r := range map[string]protocol.ChatReply{
		"white space":    {Text: " \n\t"},
		"a huge text":    {Text: strings.Repeat("x", 70_000)},
		"an odd signal":  {Signal: "bored", InReplyTo: "x"},
		"a lone signal":  {Signal: "seen"},
		"an empty file":  {File: &protocol.File{Name: "a"}},
		"a file's path":  {File: &protocol.File{Name: "../a", Data: []byte("x")}},
		"a huge file":    {File: &protocol.File{Name: "a", Data: make([]byte, protocol.MaxFileData+1)}},
		"a long caption": {Text: strings.Repeat("x", 2000), File: &protocol.File{Name: "a", Data: []byte("x")}},
		"a long draft":   {Typing: true, Draft: strings.Repeat("x", protocol.MaxDraft+1)},
	} {
		r.IdempotencyKey = name
		if refused := f.agent.Say(f.ctx, c.Topic, &r); refused == "" {
			t.Errorf("%s was accepted", name)
		}
	}
}

func otherAgents(t *testing.T, f *fixture, c *Chat) {
	second := f.join(t, "agent:second")
	cli := f.bus.Join(t, "cli:operator")
	defer cli.Leave()
	route := protocol.RouteAssigned{Agent: "agent:second"}
	if r := cli.Send(t, c.Topic, protocol.TypeRouteAssigned, route); r.DeliveredTo != 1 {
		t.Fatalf("the route was not taken: %+v", r)
	}
	f.say(t, c, f.agent, protocol.ChatReply{Text: "quiet word of lead", IdempotencyKey: "quiet"})
	f.await(t, second, "what lead said", func() bool { return len(second.texts("quiet word")) == 1 })
	second.mu.Lock()
	defer second.mu.Unlock()
	i := slices.IndexFunc(second.events, func(m protocol.ChatMessage) bool { return m.Text == "quiet word of lead" })
	heard := second.events[i]
	if heard.Author.Kind != "agent" || heard.Author.ID != "agent:lead" || heard.Chat.Kind != "channel" {
		t.Errorf("the other agent got %+v", heard)
	}
}

func commands(t *testing.T, f *fixture, c *Chat) {
	c.Say(f.Prefix + "halt")
	f.shown(t, c, "to stop working here until "+f.Prefix+"resume")
	c.Say(f.Prefix + "resume")
	f.shown(t, c, "to continue")
	c.Say(f.Prefix + "agents")
	f.shown(t, c, "Agents of this chat:")
	c.Say(f.Prefix + "help me choose a laptop")
	f.await(t, f.agent, "a question", func() bool { return len(f.agent.texts(f.Prefix+"help me")) == 1 })
}

func stopped(t *testing.T, f *fixture, c *Chat) {
	c.Say(f.Prefix + "stop")
	f.shown(t, c, "Stopped. The agents don't see messages")
	c.Say("quiet: not heard")
	f.shown(t, c, "This chat is stopped, so the agents don't see your message")
	f.fail(t, c, "said in a stopped chat")
	c.Say(f.Prefix + "start")
	f.shown(t, c, "This chat is running again")
	c.Say("quiet: heard again")
	f.await(t, f.agent, "a message after the stop", func() bool { return len(f.agent.texts("quiet: heard again")) == 1 })
	f.agent.mu.Lock()
	defer f.agent.mu.Unlock()
	if got := f.agent.texts("quiet: not heard"); len(got) > 0 {
		t.Errorf("the agent got %q in a stopped chat", got)
	}
}

func stoppedEarly(t *testing.T, f *fixture, _ *Chat) {
	f.routes.Lock()
	assign := sync.OnceFunc(f.routes.Unlock)
	defer assign()
	c := f.NewChat(t)
	c.Say("quiet: deploy to prod")
	for f.system.NextOf(t, protocol.TypeSpawnRequest).Message.From.Topic() != c.Topic {
	}
	c.Say(f.Prefix + "stop")
	f.shown(t, &c, "Stopped. The agents don't see messages")
	assign()
	f.await(t, f.agent, "the stop", func() bool {
		got := f.agent.events
		i := slices.IndexFunc(got, func(m protocol.ChatMessage) bool { return m.Text == "quiet: deploy to prod" })
		return i >= 0 && len(got) > i+1 && got[i+1].Signal == protocol.SignalStop &&
			slices.Contains(got[i+1].Mentions, "agent:lead")
	})
}
