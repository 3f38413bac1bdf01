package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/scripted"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/timetest"
)

// A group is three scripted agents with one role and the collaboration broker,
// in a chat whose bridge the test plays.
type group struct {
	t      *testing.T
	bus    *bustest.Bus
	tg     *bustest.Scripted
	system *bustest.Scripted
	will   *bustest.Scripted
	said   []sentReply // texts, in the order in which they reached the chat
	turns  map[string][]protocol.PeerID
	notes  []record
}

// A sentReply is what an agent of the group said.
type sentReply struct {
	from  protocol.PeerID
	reply protocol.ChatReply
}

var members = []protocol.PeerID{"agent:a", "agent:b", "agent:c"}

func inGroup(t *testing.T, test func(t *testing.T, g *group)) {
	t.Helper()
	inGroupOf(t, func(protocol.PeerID) harness.Harness { return scripted.New(nil) }, test)
}

func inGroupOf(t *testing.T, model func(protocol.PeerID) harness.Harness, test func(t *testing.T, g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &group{t: t, bus: bustest.StartInMemory(t, nil), turns: map[string][]protocol.PeerID{}}
		g.system = g.bus.Join(t, "agent:system", "system:*")
		g.tg = g.bus.Join(t, "tg:bot", "tg:*")
		g.will = g.bus.Join(t, "cli:will", "cli:will")
		dir := t.TempDir()
		var stops []func()
		start := func(run func(context.Context) error) {
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- run(ctx) }()
			stops = append(stops, func() {
				cancel()
				if err := <-done; err != nil {
					t.Errorf("a program of the group ended: %v", err)
				}
			})
		}
		db, err := store.Open(filepath.Join(dir, "broker.db"), broker.Schema)
		if err != nil {
			t.Fatal(err)
		}
		start(func(ctx context.Context) error {
			b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{Dial: g.bus.Dial}), nil)
			return errors.Join(b.Run(ctx), db.Close())
		})
		for _, id := range members {
			db, err := agent.Open(filepath.Join(dir, id.Name()+".db"))
			if err != nil {
				t.Fatal(err)
			}
			start(func(ctx context.Context) error {
				a := agent.New(id, db, model(id), &agent.Options{Roles: []string{"backend-agents"}, DeferFor: 30 * time.Second, Peer: &peer.Options{Dial: g.bus.Dial}})
				return errors.Join(a.Run(ctx), db.Close())
			})
		}
		defer func() {
			for _, stop := range slices.Backward(stops) {
				stop()
			}
		}()
		g.pass(40 * time.Second) // everybody is announced
		test(t, g)
	})
}

// pass lets time pass and collects the messages and records.
func (g *group) pass(d time.Duration) {
	timetest.Advance(d)
	for g.tg.Pending() > 0 {
		d := g.tg.Next(g.t)
		if r := content[protocol.ChatReply](g.t, d); d.Message.Type == protocol.TypeTGReply && r.Text != "" {
			g.said = append(g.said, sentReply{d.Message.From, r})
		}
	}
	for g.system.Pending() > 0 {
		d := g.system.Next(g.t)
		if d.Topic != protocol.TopicAttention {
			continue
		}
		r := content[record](g.t, d)
		g.notes = append(g.notes, r)
		if r.is("turn") && r["state"] == "started" && r["mode"] != "notify" {
			id := fmt.Sprint(r["eventId"])
			g.turns[id] = append(g.turns[id], d.Message.From)
		}
	}
}

// say gives a message to every agent but its author, as a bridge does.
func (g *group) say(id, text, author, kind string, mentions ...string) {
	g.t.Helper()
	for _, member := range members {
		if string(member) == author {
			continue
		}
		m := by(post(id, text), author, kind)
		m.Mentions = mentions
		if r := g.tg.SendAs(g.t, "tg:42", member.Topic(), protocol.TypeTGMessage, m); r.DeliveredTo != 1 {
			g.t.Fatalf("%s to %s: %+v", id, member, r)
		}
	}
}

func TestGroup_OneOfARoleAnswers(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		for i := range 3 {
			id := fmt.Sprint("e", i)
			g.say(id, "@backend-agents can someone check the deploy?", "77", "human", "role:backend-agents")
			g.pass(20 * time.Second)
			if len(g.said) != i+1 || len(g.turns[id]) != 1 || g.said[i].from != g.turns[id][0] {
				t.Fatalf("%s: said %+v, turns %v", id, g.said, g.turns[id])
			}
			claim := g.said[i].reply.Claim
			if claim == nil || claim.EventID != id || i > 0 && claim.Token <= g.said[i-1].reply.Claim.Token {
				t.Errorf("%s is answered with the claim %+v", id, claim)
			}
		}
	})
}

func TestGroup_OnlyTheMentionedAgentTakesATurn(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.say("e1", "is anybody hungry?", "77", "human")
		g.say("e2", "@b what is the state?", "77", "human", "agent:b")
		g.pass(20 * time.Second)
		if len(g.said) != 1 || g.said[0].from != "agent:b" || len(g.turns) != 1 || !slices.Equal(g.turns["e2"], []protocol.PeerID{"agent:b"}) {
			t.Errorf("said %+v, turns %v", g.said, g.turns)
		}
	})
}

func TestGroup_BrokerWakesOne(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		for _, r := range []protocol.CollabRequest{
			{RequestID: "1", Method: "conversation.create", Params: []byte(`{"id":"c1","kind":"group","title":"ops","memberIds":["a","b","c"],"masterId":"c"}`)},
			{RequestID: "2", Method: "message.post", Params: []byte(`{"conversationId":"c1","text":"@a can you look at it? @b knows more","surface":"human"}`)},
		} {
			g.will.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, r)
			g.pass(time.Second)
		}
		g.pass(20 * time.Second)
		var woken []protocol.PeerID
		for _, who := range g.turns {
			woken = append(woken, who...)
		}
		if !slices.Equal(woken, []protocol.PeerID{"agent:a"}) {
			t.Errorf("turns %v", g.turns)
		}
	})
}

// TestGroup_ExchangeOfTwoAgentsEnds plays a bridge that shows each agent the other's messages
// as mentions. After ten messages in a minute a person is called in, once.
func TestGroup_ExchangeOfTwoAgentsEnds(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		g.say("e0", "@a what do you think?", "77", "human", "agent:a")
		other := map[protocol.PeerID]string{"agent:a": "agent:b", "agent:b": "agent:a"}
		shown := 0
		for range 120 {
			g.pass(time.Second)
			for ; shown < len(g.said); shown++ {
				s := g.said[shown]
				g.say(fmt.Sprint("r", shown), s.reply.Text+" And you?", string(s.from), "agent", other[s.from])
			}
		}
		called := 0
		for _, s := range g.said {
			if strings.HasPrefix(s.reply.Text, "Two agents have been talking here") {
				called++
			}
			if s.from == "agent:c" {
				t.Errorf("the third one says %q", s.reply.Text)
			}
		}
		if called != 1 || len(g.said) > 12 {
			t.Errorf("%d messages, a person was called in %d times: %+v", len(g.said), called, g.said)
		}
	})
}

// TestGroup_DeferredFlightWaits checks the broker's records of a flight that is invoked,
// deferred, resumed and completed.
func TestGroup_DeferredFlightWaits(t *testing.T) {
	inGroup(t, func(t *testing.T, g *group) {
		states := func() (list []string) {
			for g.will.Pending() > 0 {
				g.will.Next(t)
			}
			g.will.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest,
				protocol.CollabRequest{RequestID: fmt.Sprint("list ", time.Now()), Method: "events.list", Params: []byte(`{"limit":1000}`)})
			g.pass(time.Second)
			var page struct {
				Events []struct {
					Type    string
					Payload struct{ State string }
				}
			}
			if err := json.Unmarshal(content[protocol.CollabResult](t, g.will.NextOf(t, protocol.TypeCollabResult)).Result, &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Events {
				if e.Type == collab.EventFlight.Name {
					list = append(list, e.Payload.State)
				}
			}
			return list
		}
		g.will.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, protocol.CollabRequest{
			RequestID: "1", Method: "invocation.create", Params: []byte(`{"targetAgentId":"a","text":"look at the deploy, no hurry"}`),
		})
		g.pass(20 * time.Second)
		equal(t, "states", states(), []string{"queued", "waking", "running", "waiting"})
		g.pass(30 * time.Second)
		equal(t, "states", states(), []string{"queued", "waking", "running", "waiting", "running", "completed"})
	})
}
