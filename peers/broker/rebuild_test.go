package broker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// randomNames are the agents of random histories.
var randomNames = []string{"a", "b", "c"}

// randomParams returns functions that generate the params of a request, by its method.
func randomParams(rt *rapid.T) map[string]func() m {
	name := func(label string) string { return rapid.SampledFrom(randomNames).Draw(rt, label) }
	id := func(prefix string) string {
		return fmt.Sprintf("%s%d", prefix, rapid.IntRange(0, 3).Draw(rt, prefix))
	}
	return map[string]func() m{
		"identity.announce": func() m {
			n := name("agent")
			return m{"logicalAgentId": n, "endpointId": "e" + n, "wakePolicy": rapid.SampledFrom([]string{"auto", "manual"}).Draw(rt, "policy")}
		},
		"identity.heartbeat":  func() m { return m{"endpointId": "e" + name("agent")} },
		"conversation.create": func() m { return m{"id": id("c"), "kind": "group", "masterId": name("master")} },
		"message.post": func() m {
			text := rapid.SampledFrom([]string{"hi", "@a hi", "hi @b", "@a @c hi", "@nobody hi"}).Draw(rt, "text")
			p := m{"id": id("m"), "conversationId": id("c"), "text": text}
			if rapid.Bool().Draw(rt, "about work") {
				p["workItemId"] = id("w")
			}
			if rapid.Bool().Draw(rt, "with target") {
				p["targets"] = []string{name("target")}
			}
			return p
		},
		"question.ask": func() m { return m{"id": id("q"), "title": "t", "askedOfId": name("asked")} },
		"decision.ask": func() m {
			return m{"id": id("d"), "tool": "shell", "digest": "x", "mayDecide": []string{"tg:7"}, "expiresAt": "2026-06-01T12:30:00.000Z"}
		},
		"decision.decide":     func() m { return m{"id": id("d"), "verdict": "allow", "scope": "always"} },
		"decision.revoke":     func() m { return m{"id": id("d")} },
		"question.answer":     func() m { return m{"id": id("q"), "answer": "x"} },
		"question.close":      func() m { return m{"id": id("q")} },
		"question.reopen":     func() m { return m{"id": id("q")} },
		"question.spawn_work": func() m { return m{"id": id("q"), "wake": true} },
		"work_item.create": func() m {
			return m{"id": id("w"), "title": "t", "ownerId": name("owner"), "nextMoveOwnerId": name("next"), "wake": rapid.Bool().Draw(rt, "wake")}
		},
		"work_item.update": func() m {
			p := m{"id": id("w"), "state": rapid.SampledFrom(rules.Kinds[collab.KindWorkItem].States).Draw(rt, "state"), "nextMoveOwnerId": name("next")}
			if rapid.Bool().Draw(rt, "waits") {
				p["waitingOn"] = m{"kind": "work_item", "label": "x", "targetId": id("w")}
			}
			return p
		},
		"work_item.wake": func() m { return m{"id": id("w")} },
		"invocation.create": func() m {
			return m{"id": id("i"), "targetAgentId": name("target"), "text": "go", "workItemId": id("w")}
		},
		"delivery.claim": func() m { return m{"targetAgentId": name("agent"), "leaseMs": 1000} },
		"claim.acquire":  func() m { return m{"eventId": id("e"), "ttlMs": 1000} },
		"claim.release":  func() m { return m{"eventId": id("e"), "token": rapid.Int64Range(1, 9).Draw(rt, "token")} },
		"claim.decline":  func() m { return m{"eventId": id("e")} },
		"binding.set":    func() m { return m{"surface": "s", "externalId": id("x"), "agentId": name("agent")} },
	}
}

// A random history of requests, sweeps and missed wakes: the state that follows from the log is
// always the live one, refusals change nothing, one event wakes at most one agent, and unfinished
// work has its two owners. The same holds for a broker whose state is in its database and that is
// restarted at times.
func TestState_FollowsFromTheLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d, stored := newFixture(t), newStoredFixture(t)
		ask := func(from protocol.PeerID, method string, params m) {
			t.Helper()
			a, b := d.ask(from, method, params), stored.ask(from, method, params)
			if diff := cmp.Diff(a, b); diff != "" {
				rt.Fatalf("%s %v: with a database, -without:\n%s", method, params, diff)
			}
		}
		identities := []protocol.PeerID{"agent:a", "agent:b", "agent:c", "tg:7", "cli:will.1"}
		steps := randomParams(rt)
		methods := sortedKeys(steps)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			d.now = d.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "seconds")) * time.Second / 4)
			stored.now = d.now
			before := len(d.log)
			switch kind := rapid.IntRange(0, 20).Draw(rt, "kind"); {
			case kind == 0:
				later := time.Duration(rapid.IntRange(0, 15).Draw(rt, "minutes")) * time.Minute
				d.sweep(later)
				stored.sweep(later)
				stored.restart()
			case kind == 1 && len(d.sent) > 0:
				s := rapid.SampledFrom(d.sent).Draw(rt, "missed")
				for _, one := range []*fixture{d, stored} {
					tr := one.turn(protocol.PeerBroker)
					wakeHandler{tr}.missed(s.deliveryID, s.to, formatTime(d.now))
					one.end(tr)
				}
			case kind == 2 && len(d.state.flights.order) > 0:
				ask(rapid.SampledFrom(identities).Draw(rt, "from"), "flight.update", m{
					"id":    rapid.SampledFrom(d.state.flights.order).Draw(rt, "flight"),
					"state": rapid.SampledFrom([]collab.FlightState{collab.FlightRunning, collab.FlightCompleted, collab.FlightFailed}).Draw(rt, "flight state"),
				})
			default:
				method := rapid.SampledFrom(methods).Draw(rt, "method")
				ask(rapid.SampledFrom(identities).Draw(rt, "from"), method, steps[method]())
				if woken := countType(d.log[before:], collab.EventWoken.Name); woken > 1 && method != "identity.announce" && method != "identity.heartbeat" {
					rt.Fatalf("%s woke %d", method, woken)
				}
			}
		}
		for _, read := range []string{"work_item.list", "question.list", "identity.list", "events.list"} {
			ask("cli:will", read, nil)
		}
		for _, n := range randomNames {
			ask("cli:will", "delivery.list", m{"targetAgentId": n})
			ask("cli:will", "conversation.get", m{"id": "c" + fmt.Sprint(len(n))})
			ask("cli:will", "prompt.contract", m{"agentId": n})
		}
		for i := range 4 {
			ask("cli:will", "claim.get", m{"eventId": fmt.Sprint("e", i)})
			ask("cli:will", "binding.get", m{"surface": "s", "externalId": fmt.Sprint("x", i)})
			ask("cli:will", "wake.explain", m{"workItemId": fmt.Sprint("w", i)})
			ask("cli:will", "wake.explain", m{"messageId": fmt.Sprint("m", i)})
		}
		d.checkRebuild()
		d.checkInvariants(rt)
	})
}

func countType(events []collab.Event, kind string) (n int) {
	for _, e := range events {
		if e.Type == kind {
			n++
		}
	}
	return n
}

func (d *fixture) checkInvariants(t rapid.TB) {
	for i, e := range d.log {
		if e.Seq != int64(i+1) || e.Source == "" || e.Target == "" {
			t.Fatalf("event %d is %+v", i+1, e)
		}
	}
	for _, r := range d.state.records.list("", "", math.MaxInt) {
		if wrong := r.Validate(); len(wrong) > 0 {
			t.Fatalf("%+v is stored although %v", r, wrong)
		}
	}
	tokens := map[int64]string{}
	for _, e := range d.log {
		if e.Type != collab.EventClaimGranted.Name {
			continue
		}
		claim := parse(d.t, e.Payload)
		token, holder := int64(claim["token"].(float64)), fmt.Sprint(claim["eventId"], " ", claim["ownerIdentity"])
		if was, ok := tokens[token]; ok && was != holder {
			t.Fatalf("token %d was granted to %s and to %s", token, was, holder)
		}
		tokens[token] = holder
	}
	// A wake is never its own sender's. Another identity may have taken over the sender's name.
	for _, e := range d.log {
		if e.Type == collab.EventWoken.Name {
			w := parse(d.t, e.Payload)
			if w["sweep"] == nil && w["rule"] != nil && w["senderId"] == w["targetAgentId"] &&
				w["senderIdentity"] == w["targetIdentity"] && w["invocation"] == nil {
				t.Fatalf("a sender was woken by itself: %s", e.Payload)
			}
		}
	}
}
