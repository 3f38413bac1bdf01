package broker

import (
	"fmt"
	"testing"
	"time"

	"hubbub/protocol/collab"
)

func TestClaim_HasOneHolder(t *testing.T) {
	d := newFixture(t)
	acquire := func(who string, ttl int) result {
		t.Helper()
		return d.do(peerID(who), "claim.acquire", m{"eventId": "tg:1:2:3", "ttlMs": ttl})
	}
	first := acquire("agent:a", 5000)
	if first["granted"] != true || first["owner"] != "a" || first["expiresAt"] == nil {
		t.Errorf("first = %v", first)
	}
	refused := acquire("agent:b", 5000)
	if refused["granted"] != false || refused["owner"] != "a" || refused["token"] != nil {
		t.Errorf("refused = %v", refused)
	}
	if longer := acquire("agent:a", 8000); longer["token"] != first["token"] || longer["expiresAt"] == first["expiresAt"] {
		t.Errorf("prolonged to %v", longer)
	}
	d.mustRefuse(collab.CodeForbidden, "agent:b", "claim.release", m{"eventId": "tg:1:2:3", "token": first["token"]})
	d.mustRefuse(collab.CodeConflict, "agent:a", "claim.release", m{"eventId": "tg:1:2:3", "token": 99})
	d.do("agent:a", "claim.release", m{"eventId": "tg:1:2:3", "token": first["token"]})
	if len(d.sent) != 1 || d.sent[0].to != "agent:b" || d.sent[0].event.Type != collab.EventClaimOffered.Name {
		t.Errorf("offered to %v", d.sent)
	}
	d.sent = nil
	second := acquire("agent:b", 5000)
	if second["granted"] != true || second["token"].(float64) <= first["token"].(float64) {
		t.Errorf("second = %v", second)
	}
	d.mustRefuse(collab.CodeConflict, "agent:a", "claim.release", m{"eventId": "tg:1:2:3", "token": first["token"]})
	acquire("agent:a", 5000)
	acquire("agent:c", 5000)
	got := d.do("agent:b", "claim.decline", m{"eventId": "tg:1:2:3"})
	if got.at("claim", "state") != "offered" || len(d.sent) != 2 {
		t.Errorf("declined: %v, offered to %v", got, d.sent)
	}
	d.sent = nil
	third := acquire("agent:c", 1000)
	if third["token"].(float64) <= second["token"].(float64) {
		t.Errorf("third = %v", third)
	}
	acquire("agent:a", 1000)
	d.sweep(999 * time.Millisecond)
	if len(d.sent) != 0 {
		t.Error("offered before it expired")
	}
	d.sweep(time.Millisecond)
	if len(d.sent) != 1 || d.sent[0].to != "agent:a" {
		t.Errorf("after the expiry offered to %v", d.sent)
	}
	d.sent = nil
	fourth := acquire("agent:a", 1000)
	claim := d.do("tg:1", "claim.get", m{"eventId": "tg:1:2:3"})
	if claim.at("claim", "token") != fourth["token"] || claim.at("claim", "ownerIdentity") != "agent:a" {
		t.Errorf("claim = %v", claim)
	}
	acquire("agent:b", 1000)
	d.do("tg:1", "claim.release", m{"eventId": "tg:1:2:3", "token": fourth["token"], "answered": true})
	d.sweep(time.Hour)
	if late := acquire("agent:b", 1000); late["granted"] != false || late["answered"] != true {
		t.Errorf("an answered event is granted: %v", late)
	}
	if len(d.sent) != 0 {
		t.Errorf("an answered event is offered to %v", d.sent)
	}
	d.checkRebuild()
}

func TestClaim_IsFreeOnExpiry(t *testing.T) {
	d := newFixture(t)
	d.do("agent:a", "claim.acquire", m{"eventId": "e", "ttlMs": 1000})
	d.now = d.now.Add(time.Second)
	if got := d.do("agent:c", "claim.get", m{"eventId": "e"}); got.at("claim", "state") != "offered" {
		t.Errorf("got %v", got)
	}
	if got := d.do("agent:b", "claim.acquire", m{"eventId": "e", "ttlMs": 1000}); got["granted"] != true || got["token"] != 2.0 {
		t.Errorf("got %v", got)
	}
	d.sweep(0)
	if len(d.sent) != 0 {
		t.Error("the new holder's claim is offered")
	}
	d.checkRebuild()
}

func TestClaim_IsNotOfferedAfterDecline(t *testing.T) {
	d := newFixture(t)
	d.do("agent:a", "claim.acquire", m{"eventId": "e"})
	d.do("agent:b", "claim.acquire", m{"eventId": "e"})
	d.do("agent:b", "claim.decline", m{"eventId": "e"})
	d.do("agent:a", "claim.decline", m{"eventId": "e"})
	if len(d.sent) != 0 {
		t.Errorf("offered to %v", d.sent)
	}
	d.mustRefuse(collab.CodeNotFound, "agent:a", "claim.decline", m{"eventId": "f"})
	d.mustRefuse(collab.CodeNotFound, "agent:a", "claim.get", m{"eventId": "f"})
	d.mustRefuse(collab.CodeInvalid, "agent:a", "claim.acquire", m{"eventId": " "})
	d.mustRefuse(collab.CodeInvalid, "agent:a", "claim.acquire", m{"eventId": "f", "ttlMs": -5})
	d.checkRebuild()
}

// TestClaim_BoundsItsDuration checks a default of a minute and a maximum of a day.
func TestClaim_BoundsItsDuration(t *testing.T) {
	d := newFixture(t)
	for ttl, want := range map[int64]time.Duration{0: time.Minute, 1: time.Millisecond, 86_400_000: 24 * time.Hour} {
		got := d.do("agent:a", "claim.acquire", m{"eventId": fmt.Sprint(ttl), "ttlMs": ttl})
		if got["expiresAt"] != formatTime(d.now.Add(want)) {
			t.Errorf("for %d ms it holds until %v", ttl, got["expiresAt"])
		}
	}
	d.mustRefuse(collab.CodeInvalid, "agent:a", "claim.acquire", m{"eventId": "e", "ttlMs": 86_400_001})
	if len(d.log) != 3 {
		t.Errorf("%d events of three claims", len(d.log))
	}
}

// TestClaim_NotifiesContendersOnce also checks that at most a hundred are notified.
func TestClaim_NotifiesContendersOnce(t *testing.T) {
	d := newFixture(t)
	held := d.do("agent:a", "claim.acquire", m{"eventId": "e"})
	for range 2 { // the second time causes no event
		for i := range 101 {
			d.do(peerID(fmt.Sprint("agent:n", i)), "claim.acquire", m{"eventId": "e"})
		}
	}
	if len(d.log) != 101 {
		t.Errorf("%d events; want the grant, and of each that is noted", len(d.log))
	}
	release := m{"eventId": "e", "token": held["token"]}
	d.mustRefuse(collab.CodeForbidden, "agent:n1", "claim.release", release)
	if got := d.do("cli:will", "claim.release", release); got.at("claim", "state") != "offered" {
		t.Errorf("released by a person: %v", got)
	}
	if len(d.sent) != 100 || d.sent[0].to != "agent:n0" || d.sent[99].to != "agent:n99" {
		t.Errorf("offered to %d", len(d.sent))
	}
	before := len(d.log)
	d.do("agent:a", "claim.release", release) // it is free already
	d.do("agent:c", "claim.decline", m{"eventId": "e"})
	if len(d.log) != before || len(d.sent) != 100 {
		t.Errorf("%d events of what changes nothing", len(d.log)-before)
	}
	for range 2 {
		release["answered"] = true
		if got := d.do("agent:a", "claim.release", release); got.at("claim", "state") != "answered" {
			t.Errorf("answered although it was free: %v", got)
		}
	}
	d.do("agent:a", "claim.decline", m{"eventId": "e"})
	if len(d.log) != before+1 {
		t.Errorf("%d events of one answer", len(d.log)-before)
	}
	d.checkRebuild()
}

// TestClaim_ForgetsADeclineOnAcquire checks that the agent is offered the claim again.
func TestClaim_ForgetsADeclineOnAcquire(t *testing.T) {
	d := newFixture(t)
	acquire := func(who string) result { return d.do(peerID(who), "claim.acquire", m{"eventId": "e"}) }
	held := acquire("agent:a")
	acquire("agent:b")
	d.do("agent:b", "claim.decline", m{"eventId": "e"})
	got := d.do("cli:will", "claim.get", m{"eventId": "e"})
	if fmt.Sprint(got.at("claim", "contenders"), got.at("claim", "declined")) != "<nil> [agent:b]" {
		t.Errorf("declined: %v", got)
	}
	acquire("agent:b")
	d.do("agent:a", "claim.release", m{"eventId": "e", "token": held["token"]})
	if len(d.sent) != 1 || d.sent[0].to != "agent:b" {
		t.Errorf("offered to %v", d.sent)
	}
	d.sent = nil
	acquire("agent:b")
	acquire("agent:a")
	d.do("agent:b", "claim.decline", m{"eventId": "e"}) // its holder
	if len(d.sent) != 1 || d.sent[0].to != "agent:a" {
		t.Errorf("offered to %v", d.sent)
	}
	acquire("agent:b") // after all
	if got := d.do("cli:will", "claim.get", m{"eventId": "e"}); got.at("claim", "declined") != nil || got.at("claim", "ownerIdentity") != "agent:b" {
		t.Errorf("held again: %v", got)
	}
	d.checkRebuild()
}
