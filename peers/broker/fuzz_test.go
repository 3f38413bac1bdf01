package broker

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"hubbub/protocol"

	"pgregory.net/rapid"
)

// Every request gets a result, a refusal does not change the log, and the state still follows
// from the log.
func TestRequest_AlwaysGetsAResult(t *testing.T) {
	names := sortedKeys(methods)
	keys := []string{
		"id", "title", "text", "ownerId", "nextMoveOwnerId", "state", "waitingOn", "conversationId", "targets", "eventId", "token",
		"ttlMs", "leaseMs", "endpointId", "logicalAgentId", "label", "after", "limit", "kind", "memberIds", "masterId", "surface",
		"targetAgentId", "agentId", "answer", "askedOfId", "workItemId", "messageId", "externalId", "roles", "wake", "createdAt", "updatedAt",
	}
	rapid.Check(t, func(rt *rapid.T) {
		d := newFixture(t)
		d.announce("a")
		group(d, "a", "a")
		d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "a", "nextMoveOwnerId": "a"})
		value := rapid.SampledFrom([]any{
			"a", "w", "c", "", " ", "@a", "@a hi", "endpoint:e-a", "open", "waiting", "dm", "human", "\x00", "\u2028", "é", 0, -1, 1.5, 1 << 62,
			true, nil, math.MaxInt64, math.MinInt64, 1e300, []string{}, []string{"a", ""}, []any{1}, m{}, m{"kind": "actor", "label": "x", "targetId": "w"}, "2026-01-01T00:00:00Z",
		})
		for range rapid.IntRange(1, 10).Draw(rt, "requests") {
			method := rapid.SampledFrom(names).Draw(rt, "method")
			params := m{}
			for range rapid.IntRange(0, 6).Draw(rt, "members") {
				params[rapid.SampledFrom(keys).Draw(rt, "key")] = value.Draw(rt, "value")
			}
			before := len(d.log)
			d.now = d.now.Add(time.Second)
			a := d.ask(rapid.SampledFrom([]protocol.PeerID{"agent:a", "cli:will", "tg:1"}).Draw(rt, "from"), method, params)
			if !a.OK && len(d.log) > before && a.Error.Code != "unavailable" && a.Error.Code != "ambiguous" && a.Error.Code != "unknown_target" {
				rt.Fatalf("%s %v was refused with %+v and left %d events", method, params, a.Error, len(d.log)-before)
			}
		}
		d.checkRebuild()
		d.checkInvariants(rt)
	})
}

func FuzzRequest(f *testing.F) {
	f.Add("message.post", `{"conversationId":"c","text":"@a hi"}`)
	f.Add("work_item.update", `{"id":"w","state":"waiting","waitingOn":{}}`)
	f.Fuzz(func(t *testing.T, method, params string) {
		if !json.Valid([]byte(params)) {
			t.Skip()
		}
		d := newFixture(t)
		d.announce("a")
		group(d, "a", "a")
		d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "a", "nextMoveOwnerId": "a"})
		d.ask("agent:a", method, json.RawMessage(params))
		d.checkRebuild()
	})
}
