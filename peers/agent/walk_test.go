package agent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// A walk is a random conversation of three agents and two people in one channel, whose bridge
// passes on to each agent what the others say.
type walk struct {
	*group
	r        *rand.Rand
	messages int // of people and of agents
	heard    int // of group.said
	chain    int // answers of agents to agents since a person spoke
	calls    int // for a person, since one spoke
}

// TestRandomWalk_KeepsTheBoundsOfAGroup checks that, whatever agents answer, no event is answered
// against its policy, no exchange of agents exceeds its bound, each agent calls a person in at
// most once for it, and every event that must be answered ends. HUBBUB_WALK is the number of
// messages.
func TestRandomWalk_KeepsTheBoundsOfAGroup(t *testing.T) {
	size := 60
	if n, err := strconv.Atoi(os.Getenv("HUBBUB_WALK")); err == nil {
		size = n
	}
	var mu sync.Mutex
	words := 0
	talkative := func(id protocol.PeerID) harness.Harness {
		return newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
			if t.Event.Knock != nil {
				call(tools, "chat.claim", map[string]any{"eventId": t.Event.EventID})
				return harness.Outcome{State: harness.Finished}, nil
			}
			mu.Lock()
			words++
			n := words
			mu.Unlock()
			next := members[(slices.Index(members, id)+1+n%2)%len(members)]
			text := "@" + next.Name() + " " + fresh(n) + "?"
			call(tools, "chat.send_message", map[string]any{"inReplyTo": t.Event.EventID, "text": text, "directedness": "to_me"})
			return harness.Outcome{State: harness.Finished}, nil
		})
	}
	inGroupOf(t, talkative, func(t *testing.T, g *group) {
		w := &walk{group: g, r: rand.New(rand.NewPCG(20, 9))}
		for logAt := 1000; w.messages < size; {
			if w.messages >= logAt {
				t.Logf("%d messages, %d of agents", w.messages, len(w.said))
				logAt += 1000
			}
			w.person()
			for quiet := 0; quiet < 3; {
				before := w.messages
				w.pass(time.Duration(3+w.r.IntN(20)) * time.Second)
				w.relay()
				if quiet++; w.messages > before {
					quiet = 0
				}
			}
		}
		w.pass(10 * time.Minute)
		w.relay()
		w.check()
	})
}

// person makes one of the two people write to one agent, to all, or to nobody.
func (w *walk) person() {
	w.messages++
	w.chain, w.calls = 0, 0
	texts := []string{"lunch?", "@a what is the state?", "@b look, please", "@c and you?", "@backend-agents who can check?", "thanks"}
	n := w.r.IntN(len(texts))
	mentions := [][]string{nil, {"agent:a"}, {"agent:b"}, {"agent:c"}, {"role:backend-agents"}, nil}[n]
	w.say(fmt.Sprint("p", w.messages), texts[n], []string{"77", "78"}[w.r.IntN(2)], "human", mentions...)
}

// relay forwards the messages from agents.
func (w *walk) relay() {
	for ; w.heard < len(w.said); w.heard++ {
		u := w.said[w.heard]
		w.messages++
		switch {
		case strings.HasPrefix(u.reply.Text, "Two agents have been"):
			if w.calls++; w.calls > len(members) {
				w.t.Errorf("a person was called %d times into one exchange", w.calls)
			}
		case strings.HasPrefix(u.reply.InReplyTo, "s"):
			if w.chain++; w.chain > attention.ExchangeTotal {
				w.t.Errorf("%d answers of agents to agents without a person: %+v", w.chain, u)
			}
		}
		var mentions []string
		for _, m := range members {
			if strings.Contains(u.reply.Text, "@"+m.Name()+" ") {
				mentions = append(mentions, string(m))
			}
		}
		for _, m := range members {
			if m == u.from {
				continue
			}
			event := by(post(fmt.Sprint("s", w.messages), u.reply.Text), string(u.from), "agent")
			event.Mentions, event.Directedness = mentions, u.reply.Directedness
			if r := w.tg.SendAs(w.t, "tg:42", m.Topic(), protocol.TypeTGMessage, event); r.DeliveredTo != 1 {
				w.t.Fatalf("%s to %s: %+v", event.SourceID, m, r)
			}
		}
	}
}

// check looks at what the agents recorded, and at each of their answers.
func (w *walk) check() {
	policy, ended := map[string]string{}, map[string]int{}
	for _, r := range w.notes {
		key := fmt.Sprint(r["agent"], " ", r["eventId"])
		switch {
		case r.is("attention_decision"):
			policy[key] = fmt.Sprint(r["policy"])
		case r.is("disposition") && attention.Disposition(fmt.Sprint(r["disposition"])).Final():
			ended[key]++
		}
	}
	for _, u := range w.said {
		p := policy[fmt.Sprint(u.from, " ", u.reply.InReplyTo)]
		called := strings.HasPrefix(u.reply.Text, "Two agents have been")
		if !called && p != "must_respond" && p != "may_respond" {
			w.t.Errorf("%s answered %s, whose policy is %q: %q", u.from, u.reply.InReplyTo, p, u.reply.Text)
		}
	}
	owed := 0
	for key, p := range policy {
		if p == "must_respond" {
			owed++
			if ended[key] != 1 {
				w.t.Errorf("%s must be answered, and ended %d times", key, ended[key])
			}
		}
	}
	w.t.Logf("%d messages, %d of agents, %d that must be answered", w.messages, len(w.said), owed)
	if owed == 0 || len(w.said) < w.messages/3 {
		w.t.Error("the walk went nowhere")
	}
}
