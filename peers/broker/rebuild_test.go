package broker

import (
	"fmt"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"

	"pgregory.net/rapid"
)

// A random history of requests, sweeps and missed wakes: the state that the log
// alone gives is always the live one, refusals leave nothing behind, one event
// wakes one agent at most, and work that is not finished has its two owners.
func TestTheLogAloneGivesTheState(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newDesk(t)
		names := []string{"a", "b", "c"}
		identities := []protocol.PeerID{"agent:a", "agent:b", "agent:c", "tg:7", "cli:will.1"}
		name := func(label string) string { return rapid.SampledFrom(names).Draw(rt, label) }
		id := func(prefix string) string {
			return fmt.Sprintf("%s%d", prefix, rapid.IntRange(0, 3).Draw(rt, prefix))
		}
		steps := map[string]func() m{
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
			"question.ask":        func() m { return m{"id": id("q"), "title": "t", "askedOfId": name("asked")} },
			"question.answer":     func() m { return m{"id": id("q"), "answer": "x"} },
			"question.close":      func() m { return m{"id": id("q")} },
			"question.reopen":     func() m { return m{"id": id("q")} },
			"question.spawn_work": func() m { return m{"id": id("q"), "wake": true} },
			"work_item.create": func() m {
				return m{"id": id("w"), "title": "t", "ownerId": name("owner"), "nextMoveOwnerId": name("next"), "wake": rapid.Bool().Draw(rt, "wake")}
			},
			"work_item.update": func() m {
				p := m{"id": id("w"), "state": rapid.SampledFrom(kinds[collab.KindWorkItem].states).Draw(rt, "state"), "nextMoveOwnerId": name("next")}
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
		methods := sortedKeys(steps)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			d.now = d.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(rt, "seconds")) * time.Second / 4)
			before := len(d.log)
			switch kind := rapid.IntRange(0, 20).Draw(rt, "kind"); {
			case kind == 0:
				d.sweep(time.Duration(rapid.IntRange(0, 15).Draw(rt, "minutes")) * time.Minute)
			case kind == 1 && len(d.sent) > 0:
				s := rapid.SampledFrom(d.sent).Draw(rt, "missed")
				tr := d.turn(protocol.PeerBroker)
				tr.missed(s.deliveryID, s.to, stamp(d.now))
				d.end(tr)
			case kind == 2 && len(d.state.flights) > 0:
				d.ask(rapid.SampledFrom(identities).Draw(rt, "from"), "flight.update", m{
					"id":    rapid.SampledFrom(sortedKeys(d.state.flights)).Draw(rt, "flight"),
					"state": rapid.SampledFrom([]collab.FlightState{collab.FlightRunning, collab.FlightCompleted, collab.FlightFailed}).Draw(rt, "flight state"),
				})
			default:
				method := rapid.SampledFrom(methods).Draw(rt, "method")
				d.ask(rapid.SampledFrom(identities).Draw(rt, "from"), method, steps[method]())
				if woken := countType(d.log[before:], collab.EventWoken.Name); woken > 1 && method != "identity.announce" && method != "identity.heartbeat" {
					rt.Fatalf("%s woke %d", method, woken)
				}
			}
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

func (d *desk) checkInvariants(t rapid.TB) {
	for i, e := range d.log {
		if e.Seq != int64(i+1) || e.Source == "" || e.Target == "" {
			t.Fatalf("event %d is %+v", i+1, e)
		}
	}
	for _, r := range d.state.records {
		if wrong := r.validate(); len(wrong) > 0 {
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
	// A wake is never its own sender's.
	for _, e := range d.log {
		if e.Type == collab.EventWoken.Name {
			w := parse(d.t, e.Payload)
			if w["sweep"] == nil && w["rule"] != nil && w["senderId"] == w["targetAgentId"] && w["invocation"] == nil {
				t.Fatalf("a sender was woken by itself: %s", e.Payload)
			}
		}
	}
}
