package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

func group(d *fixture, master string, members ...string) {
	d.t.Helper()
	d.do("cli:will", "conversation.create", m{"id": "c", "kind": "group", "title": "t", "memberIds": members, "masterId": master})
}

func TestMessage_RoutesByLeadingMentions(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3")
	group(d, "")
	r := d.do("tg:77", "message.post", m{"conversationId": "c", "text": "@lead status?", "surface": "human"})
	if r.at("wake", "targetAgentId") != "lead" || r.at("wake", "rule") != "explicit_mention" || r.at("wake", "endpointId") != "e-lead" {
		t.Errorf("wake = %v", r["wake"])
	}
	if mention := r.list("mentions"); len(mention) != 1 || mention[0]["hard"] != true || mention[0]["agentId"] != "lead" || mention[0]["label"] != "@lead" {
		t.Errorf("mentions = %v", mention)
	}
	if dl := r.list("deliveries"); len(dl) != 1 || dl[0]["targetAgentId"] != "lead" || dl[0]["reason"] != "mention" ||
		dl[0]["policy"] != "must_ack" || dl[0]["status"] != "pending" || dl[0]["endpointId"] != "e-lead" {
		t.Errorf("deliveries = %v", dl)
	}
	if r.at("message", "authorId") != "77" {
		t.Errorf("author = %v", r.at("message", "authorId"))
	}
	d.wantWakes("agent:lead explicit_mention")
	d.checkRebuild()
}

func TestMessage_TreatsInnerMentionsAsHints(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3")
	group(d, "")
	r := d.do("tg:77", "message.post", m{"conversationId": "c", "text": "I asked @lead already", "surface": "human"})
	if r["wake"] != nil || r.list("mentions")[0]["hard"] != false {
		t.Errorf("got %v", r)
	}
	d.wantWakes()
}

func TestMessage_OfAnAgentRoutesOnlyByTargets(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3")
	group(d, "")
	for _, surface := range []string{"human", "agent", ""} {
		r := d.do("agent:w3", "message.post", m{"conversationId": "c", "text": "@lead look", "surface": surface})
		if r["wake"] != nil || r.at("message", "surface") != "agent" || r.list("mentions")[0]["hard"] != false {
			t.Errorf("surface %q: %v", surface, r)
		}
	}
	d.wantWakes()
	d.do("agent:w3", "message.post", m{"conversationId": "c", "text": "look", "surface": "agent", "targets": []string{"lead"}})
	d.wantWakes("agent:lead explicit_mention")
}

func TestMessage_WakesExactlyOne(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3", "w4")
	group(d, "w4", "lead", "w3", "w4")
	r := d.do("cli:will", "message.post", m{"conversationId": "c", "text": "@lead @w3 please", "surface": "human"})
	d.wantWakes("agent:lead explicit_mention")
	if dl := r.list("deliveries"); len(dl) != 2 || dl[1]["targetAgentId"] != "w3" || dl[1]["policy"] != "durable" || dl[1]["wake"] != nil {
		t.Errorf("deliveries = %v", dl)
	}
	d.do("cli:will", "message.post", m{"conversationId": "c", "text": "hello all"})
	d.wantWakes("agent:w4 conversation_master")
	d.do("agent:w4", "message.post", m{"conversationId": "c", "text": "hello"})
	d.wantWakes() // the master itself
	d.do("cli:will", "message.post", m{"conversationId": "c", "text": "done", "kind": "final"})
	d.wantWakes()
}

func TestWake_HasTheKindOfItsSender(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3")
	d.do("agent:w3", "question.ask", m{"title": "why?", "askedOfId": "lead"})
	d.do("cli:will", "question.ask", m{"title": "how?", "askedOfId": "lead"})
	var kinds []string
	for _, s := range d.sent {
		var w collab.Wake
		if s.event.Type == collab.EventWoken.Name && json.Unmarshal(s.event.Payload, &w) == nil {
			kinds = append(kinds, w.SenderID+" "+w.SenderKind)
		}
	}
	if want := []string{"w3 agent", "will human"}; !slices.Equal(kinds, want) {
		t.Errorf("senders %v; want %v", kinds, want)
	}
}

func TestWakeRules_AreTriedInOrder(t *testing.T) {
	d := newFixture(t)
	d.announce("mover", "owner", "master", "dep", "named")
	group(d, "master")
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "mover"})
	d.do("cli:will", "work_item.create", m{"id": "w2", "title": "t", "ownerId": "dep", "nextMoveOwnerId": "dep"})
	post := func(from protocol.PeerID, extra m) {
		t.Helper()
		params := m{"conversationId": "c", "text": "x", "workItemId": "w"}
		for k, v := range extra {
			params[k] = v
		}
		d.do(from, "message.post", params)
	}
	post("cli:will", m{"targets": []string{"named"}})
	d.wantWakes("agent:named explicit_mention")
	post("cli:will", nil)
	d.wantWakes("agent:mover next_move_owner")
	post("agent:mover", nil)
	d.wantWakes("agent:owner owner")
	d.do("agent:owner", "work_item.update", m{"id": "w", "nextMoveOwnerId": "owner"})
	post("agent:owner", nil)
	d.wantWakes("agent:master conversation_master")
	d.do("agent:owner", "work_item.update", m{"id": "w", "state": "waiting", "waitingOn": m{"kind": "work_item", "label": "w2", "targetId": "w2"}})
	post("cli:will", nil)
	d.wantWakes("agent:dep dependency_owner")
	post("agent:dep", nil)
	d.wantWakes("agent:owner next_move_owner")
	d.do("agent:owner", "work_item.update", m{"id": "w", "state": "done"})
	post("cli:will", nil)
	d.wantWakes() // terminal
	post("cli:will", m{"targets": []string{"named"}})
	d.wantWakes("agent:named explicit_mention")
	d.checkRebuild()
}

func TestMessage_IsKeptWhenRoutingFails(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.do("agent:arc-1", "identity.announce", m{"logicalAgentId": "arc", "endpointId": "e1", "workspaceId": "main"})
	d.do("agent:arc-2", "identity.announce", m{"logicalAgentId": "arc", "endpointId": "e2", "workspaceId": "dev"})
	d.do("agent:man", "identity.announce", m{"logicalAgentId": "man", "endpointId": "e3", "wakePolicy": "manual"})
	d.announce("gone")
	for code, text := range map[collab.Code]string{collab.CodeUnknownTarget: "@ghost hi", collab.CodeAmbiguous: "@arc hi", collab.CodeUnavailable: "@man hi"} {
		details := d.mustRefuse(code, "cli:will", "message.post", m{"id": "m-" + string(code), "conversationId": "c", "text": text, "surface": "human"})
		if details["messageId"] != "m-"+string(code) || details["askedLabel"] != strings.Fields(text)[0] {
			t.Errorf("%s: details = %v", code, details)
		}
		if candidates := details.list("candidates"); code == collab.CodeAmbiguous && len(candidates) != 2 {
			t.Errorf("candidates = %v", candidates)
		}
		if _, ok := d.state.messages.find("m-" + string(code)); !ok {
			t.Errorf("%s: the message was not kept", code)
		}
		why := d.do("cli:will", "wake.explain", m{"messageId": "m-" + string(code)})
		if why["rule"] != "explicit_mention" || why["wake"] != nil || why["outcome"] != string(code) || why["reason"] == "" {
			t.Errorf("%s: explained as %v", code, why)
		}
	}
	d.wantWakes()
	d.do("cli:will", "message.post", m{"conversationId": "c", "text": "@arc.dev hi", "surface": "human"})
	d.wantWakes("agent:arc-2 explicit_mention")
	d.do("cli:will", "message.post", m{"conversationId": "c", "text": "x", "targets": []string{"endpoint:e1"}})
	d.wantWakes("agent:arc-1 explicit_mention")
	d.mustRefuse(collab.CodeUnknownTarget, "cli:will", "message.post", m{"conversationId": "c", "text": "x", "targets": []string{"endpoint:e9"}})
	d.checkRebuild()
}

func TestResolution_OfASharedRoleIsAmbiguous(t *testing.T) {
	d := newFixture(t)
	for _, name := range []string{"a", "b"} {
		d.do(protocol.PeerID("agent:"+name), "identity.announce", m{"endpointId": "e-" + name, "roles": []string{"backend-agents", name + "-only"}})
	}
	r := d.mustRefuse(collab.CodeAmbiguous, "cli:will", "identity.resolve", m{"label": "@backend-agents"})
	if len(r.list("candidates")) != 2 {
		t.Errorf("details = %v", r)
	}
	if got := d.do("cli:will", "identity.resolve", m{"label": "a-only"}); got.at("identity", "logicalAgentId") != "a" {
		t.Errorf("got %v", got)
	}
}

// An alias names its agent wherever a name does; names take precedence over aliases, and aliases
// over roles.
func TestResolution_ByAlias(t *testing.T) {
	d := newFixture(t)
	d.do("agent:lead", "identity.announce", m{"endpointId": "e1", "workspaceId": "Main Site", "model": "gpt-5-mini",
		"aliases": []string{"Timber", "Dr. Who", "w3", "ann", "ops", "ëlse"}})
	d.do("agent:w3", "identity.announce", m{"endpointId": "e3", "roles": []string{"ops", "timber"}})
	d.do("cli:ann", "conversation.create", m{"id": "ann", "kind": "group"}) // a person of that name
	for label, want := range map[string]string{
		"timber": "lead", "@timber": "lead", "@TIMBER.main-site": "lead", "@timber?5": "lead", "@dr-who": "lead", "Dr. Who": "lead",
		"@ops": "lead", "@Ëlse": "lead", "@w3": "w3", "w3": "w3",
	} {
		if r := d.do("cli:will", "identity.resolve", m{"label": label}); r.at("identity", "logicalAgentId") != want {
			t.Errorf("%s means %v, want %s", label, r["identity"], want)
		}
	}
	for _, label := range []string{"@timber.elsewhere", "@timber?claude", "@ann", "@timb"} {
		d.mustRefuse("unknown_target", "cli:will", "identity.resolve", m{"label": label})
	}
	group(d, "")
	d.do("tg:77", "message.post", m{"conversationId": "c", "text": "@timber status?", "surface": "human"})
	d.wantWakes("agent:lead explicit_mention")
	for i, owner := range []string{"timber", "@timber", "@timber.main-site", "TIMBER"} {
		w := d.do("cli:will", "work_item.create", m{"id": fmt.Sprint("w", i), "title": "t", "ownerId": owner, "nextMoveOwnerId": owner})
		if w.at("work_item", "ownerId") != "lead" || w.at("work_item", "ownerIdentity") != "agent:lead" {
			t.Errorf("%s owns %v", owner, w["work_item"])
		}
	}
	if mine := d.do("cli:will", "work_item.list", m{"ownerId": "timber"}).list("work_items"); len(mine) != 4 {
		t.Errorf("the alias lists %d work items, want 4", len(mine))
	}
	d.do("agent:w4", "identity.announce", m{"endpointId": "e4", "aliases": []string{"timber"}})
	for _, label := range []string{"@timber", "timber"} {
		d.mustRefuse("ambiguous", "cli:will", "identity.resolve", m{"label": label})
		d.mustRefuse("ambiguous", "cli:will", "work_item.create", m{"title": "t", "ownerId": label, "nextMoveOwnerId": label})
	}
	for _, bad := range []string{"", "all", "@channel", "a\u202eb", strings.Repeat("x", 1000)} {
		d.mustRefuse("invalid", "agent:w5", "identity.announce", m{"endpointId": "e5", "aliases": []string{bad}})
	}
	d.checkRebuild()
}

// TestResolution_RefusesLabelsThatFitNobody checks that no record names a party that can never
// exist. An agent that has not announced itself yet may be named.
func TestResolution_RefusesLabelsThatFitNobody(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	for _, label := range []string{"@lead.staging", "@lead#codex", "@lead?opus", "@late.main", "@role:qa", "@lead now", "@endpoint:e9"} {
		d.mustRefuse("unknown_target", "cli:will", "work_item.create", m{"title": "t", "ownerId": label, "nextMoveOwnerId": label})
		d.mustRefuse("unknown_target", "cli:will", "question.ask", m{"title": "t", "askedOfId": label})
	}
	if len(d.log) != 1 {
		t.Errorf("the refusals left %d events", len(d.log)-1)
	}
	d.do("cli:will", "work_item.create", m{"title": "t", "ownerId": "@late", "nextMoveOwnerId": "@late"})
}

func TestResolution_PrefersTheSendersProject(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.do("agent:luna", "identity.announce", m{"endpointId": "e1", "projectPath": "/home/a", "workspaceId": "wa"})
	d.do("agent:luna", "identity.announce", m{"endpointId": "e2", "projectPath": "/home/b", "workspaceId": "wb"})
	d.do("agent:near", "identity.announce", m{"endpointId": "n1", "projectPath": "/home/a"})
	r := d.do("agent:near", "message.post", m{"conversationId": "c", "text": "x", "targets": []string{"luna"}})
	if r.at("wake", "endpointId") != "e1" {
		t.Errorf("wake = %v; want the endpoint in the sender's project", r["wake"])
	}
	r = d.do("cli:will", "message.post", m{"conversationId": "c", "text": "x", "targets": []string{"luna"}})
	if r.at("wake", "endpointId") != "e2" {
		t.Errorf("wake = %v; want the endpoint heard of last", r["wake"])
	}
	d.do("agent:luna", "identity.heartbeat", m{"endpointId": "e1"})
	r = d.do("cli:will", "message.post", m{"conversationId": "c", "text": "x", "targets": []string{"luna"}})
	if r.at("wake", "endpointId") != "e1" {
		t.Errorf("wake = %v; want the endpoint heard of last", r["wake"])
	}
	for label, want := range map[string]any{"luna.wb": "e2", "@luna.a": "e1"} {
		if got := d.do("cli:will", "identity.resolve", m{"label": label}); got.at("identity", "endpointId") != want {
			t.Errorf("%s is %v, want %v", label, got, want)
		}
	}
}

func TestResolution_ByHarnessAndModel(t *testing.T) {
	d := newFixture(t)
	d.do("agent:l1", "identity.announce", m{"logicalAgentId": "lattices", "endpointId": "e1", "harnessType": "codex", "model": "gpt-5.5"})
	d.do("agent:l2", "identity.announce", m{"logicalAgentId": "lattices", "endpointId": "e2", "harnessType": "claude", "model": "claude-sonnet-4-6", "node": "Mini.local"})
	for label, want := range map[string]any{"@lattices#codex?5.5": "e1", "@lattices#claude?sonnet": "e2", "lattices.node:mini-local": "e2"} {
		if got := d.do("cli:will", "identity.resolve", m{"label": label}); got.at("identity", "endpointId") != want {
			t.Errorf("%s is %v, want %v", label, got, want)
		}
	}
	d.mustRefuse(collab.CodeUnknownTarget, "cli:will", "identity.resolve", m{"label": "@lattices#codex?sonnet"})
	d.mustRefuse(collab.CodeUnknownTarget, "cli:will", "identity.resolve", m{"label": "@arc.a.b.c"})
}

func TestMessage_InADirectConversationWakesTheOtherSide(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("cli:will", "conversation.create", m{"id": "dm", "kind": "dm", "memberIds": []string{"will", "agent:lead"}})
	r := d.do("cli:will", "message.post", m{"conversationId": "dm", "text": "can you look?"})
	if r.list("deliveries")[0]["reason"] != "direct_message" {
		t.Errorf("deliveries = %v", r["deliveries"])
	}
	d.wantWakes("agent:lead conversation_master")
	d.do("agent:lead", "message.post", m{"conversationId": "dm", "text": "yes", "inReplyTo": r.at("message", "id")})
	d.wantWakes() // people are not woken
}

func TestMessagePost_IsIdempotentByID(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "other")
	group(d, "lead")
	first := d.do("cli:will", "message.post", m{"id": "m1", "conversationId": "c", "text": "hi"})
	again := d.do("cli:will", "message.post", m{"id": "m1", "conversationId": "c", "text": "hi"})
	if again["duplicate"] != true || first["duplicate"] != nil || again.at("wake", "targetAgentId") != "lead" {
		t.Errorf("again = %v", again)
	}
	d.wantWakes("agent:lead conversation_master")
	d.mustRefuse(collab.CodeConflict, "cli:will", "message.post", m{"id": "m1", "conversationId": "c", "text": "other"})
	d.mustRefuse(collab.CodeConflict, "agent:other", "message.post", m{"id": "m1", "conversationId": "c", "text": "hi"})
	page := d.do("cli:will", "conversation.get", m{"id": "c"})
	if len(page.list("messages")) != 1 || page["next"] != nil {
		t.Errorf("the conversation holds %v", page)
	}
}

func TestConversationGet_Pages(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	for i := range 4 {
		d.do("cli:will", "message.post", m{"id": string(rune('a' + i)), "conversationId": "c", "text": strings.Repeat("<", 200_000)})
	}
	var got []string
	after := ""
	for pages := 0; ; pages++ {
		a := d.ask("cli:will", "conversation.get", m{"id": "c", "after": after})
		if len(a.Result) > maxResult {
			t.Fatalf("a page of %d bytes", len(a.Result))
		}
		page := parse(t, a.Result)
		for _, msg := range page.list("messages") {
			got = append(got, msg["id"].(string))
		}
		next, more := page["next"].(string)
		if !more {
			break
		}
		after = next
	}
	if s := strings.Join(got, ""); s != "abcd" {
		t.Errorf("got %s", s)
	}
}

func TestWake_IsSentOnceAtTheNextAnnouncement(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.announce("lead")
	d.sweep(time.Minute) // no heartbeat: offline
	if d.state.Endpoints["e-lead"].Status != collab.StatusOffline {
		t.Fatal("the endpoint is still online")
	}
	r := d.mustRefuse(collab.CodeUnavailable, "cli:will", "message.post", m{"conversationId": "c", "text": "@lead hi", "surface": "human"})
	if dl := r.list("deliveries"); len(dl) != 1 || dl[0]["status"] != "pending" || dl[0]["wake"] != "wanted" {
		t.Errorf("deliveries = %v", dl)
	}
	d.wantWakes()
	d.announce("lead")
	d.wantWakes("agent:lead explicit_mention")
	d.announce("lead")
	d.wantWakes()
	d.checkRebuild()
}

func TestWake_TakesAnAbsentReceiverOffline(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.announce("lead")
	d.do("cli:will", "message.post", m{"conversationId": "c", "text": "@lead hi"})
	wake := d.sent[0]
	d.wantWakes("agent:lead explicit_mention")
	tr := d.turn(protocol.PeerBroker)
	d.now = d.now.Add(time.Second)
	wakeHandler{tr}.missed(wake.deliveryID, wake.to, formatTime(d.now))
	d.end(tr)
	if d.state.Endpoints["e-lead"].Status != collab.StatusOffline {
		t.Error("the endpoint is still online")
	}
	d.now = d.now.Add(time.Second)
	d.announce("lead")
	if len(d.sent) != 1 || d.sent[0].event.ID != wake.event.ID || d.sent[0].again == 0 {
		t.Errorf("sent %+v; want the same wake again", d.sent)
	}
	d.sent = nil
	d.announce("lead")
	d.wantWakes()
	// An announcement that came while the wake was on its way counts.
	tr = d.turn(protocol.PeerBroker)
	wakeHandler{tr}.missed(wake.deliveryID, wake.to, formatTime(d.now.Add(-time.Second)))
	d.end(tr)
	d.wantWakes("agent:lead explicit_mention")
	d.checkRebuild()
}

func TestAnnounce_RefusesAForeignEndpoint(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.mustRefuse(collab.CodeForbidden, "agent:mallory", "identity.announce", m{"logicalAgentId": "lead", "endpointId": "x"})
	d.mustRefuse(collab.CodeForbidden, "agent:mallory", "identity.announce", m{"logicalAgentId": "mallory", "endpointId": "e-lead"})
	d.mustRefuse(collab.CodeForbidden, "agent:mallory", "identity.heartbeat", m{"endpointId": "e-lead"})
	d.mustRefuse(collab.CodeForbidden, "agent:mallory", "delivery.list", m{"targetAgentId": "lead"})
	d.mustRefuse(collab.CodeForbidden, "agent:mallory", "binding.set", m{"surface": "telegram", "externalId": "1", "agentId": "lead"})
	for _, params := range []m{
		{"logicalAgentId": "a.b", "endpointId": "x"}, {"logicalAgentId": "a", "endpointId": " "},
		{"logicalAgentId": "a", "endpointId": "x", "wakePolicy": "sometimes"}, {"logicalAgentId": "a", "endpointId": strings.Repeat("x", 300)},
	} {
		d.mustRefuse(collab.CodeInvalid, "agent:a", "identity.announce", params)
	}
	d.mustRefuse(collab.CodeNotFound, "agent:a", "identity.heartbeat", m{"endpointId": "nowhere"})
	list := d.do("cli:will", "identity.list", nil)
	if ids := list.list("identities"); len(ids) != 1 || ids[0]["status"] != "online" || ids[0]["identity"] != "agent:lead" {
		t.Errorf("identities = %v", ids)
	}
}

func TestHeartbeat_KeepsAnEndpointOnline(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	for range 10 {
		d.sweep(20 * time.Second)
		if d.do("agent:lead", "identity.heartbeat", m{"endpointId": "e-lead"}).at("identity", "status") != "online" {
			t.Fatal("offline in spite of heartbeats")
		}
	}
	before := len(d.log)
	for range 100 {
		d.now = d.now.Add(10 * time.Millisecond)
		d.do("agent:lead", "identity.heartbeat", m{"endpointId": "e-lead"})
	}
	if len(d.log) != before {
		t.Errorf("100 heartbeats in a second made %d events", len(d.log)-before)
	}
	d.sweep(30 * time.Second)
	if d.state.Endpoints["e-lead"].Status != collab.StatusOffline {
		t.Error("online without heartbeats")
	}
	if d.do("agent:lead", "identity.heartbeat", m{"endpointId": "e-lead"}).at("identity", "status") != "online" {
		t.Error("a heartbeat did not bring it back")
	}
	d.sweep(25 * time.Hour)
	d.sweep(time.Second)
	if len(d.state.Endpoints) != 0 {
		t.Error("a dead endpoint is kept forever")
	}
	d.checkRebuild()
}

func TestEvents_HaveTheSpecifiedShape(t *testing.T) {
	d := newFixture(t)
	d.announce("claude-river")
	d.do("cli:will", "conversation.create", m{"id": "thread-9", "kind": "thread"})
	d.do("tg:7", "message.post", m{"conversationId": "thread-9", "text": "@claude-river Please review this change", "inReplyTo": "evt-122"})
	for _, e := range d.log {
		if e.Type != collab.EventMessagePosted.Name {
			continue
		}
		var content protocol.CollabEvent
		if err := json.Unmarshal(factMessage(e, "").Content, &content); err != nil {
			t.Fatal(err)
		}
		payload, meta := parse(t, content.Payload), parse(t, content.Metadata)
		if content.Type != "collab.message.posted" || content.Source != "tg:7" || content.Target != "conversation:thread-9" ||
			payload["text"] != "@claude-river Please review this change" || payload["kind"] != "chat" ||
			meta["mentions"].([]any)[0] != "claude-river" || meta["targetAgents"].([]any)[0] != "claude-river" ||
			meta["inReplyTo"] != "evt-122" || meta["seq"] != float64(e.Seq) {
			t.Errorf("content = %+v\n%s\n%s", content, content.Payload, content.Metadata)
		}
		return
	}
	t.Error("no message was posted")
}

// TestResolution_AdvisesUniqueNames checks that each name that a refusal suggests is accepted in
// a message and in a record.
func TestResolution_AdvisesUniqueNames(t *testing.T) {
	for name, places := range map[string][2]m{
		"two workspaces":     {{"workspaceId": "main"}, {"workspaceId": "dev"}},
		"one without":        {{}, {"workspaceId": "dev"}},
		"alike but for case": {{"workspaceId": "main"}, {"workspaceId": "Main"}},
		"harnesses":          {{"workspaceId": "main", "harnessType": "codex"}, {"workspaceId": "MAIN", "harnessType": "claude"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			group(d, "")
			for i, from := range []protocol.PeerID{"agent:arc-1", "agent:arc"} {
				p := m{"logicalAgentId": "arc", "endpointId": "e" + string(from)}
				maps.Copy(p, places[i])
				d.do(from, "identity.announce", p)
			}
			r := d.mustRefuse(collab.CodeAmbiguous, "cli:will", "message.post", m{"conversationId": "c", "text": "@arc hi", "surface": "human"})
			_, advice, _ := strings.Cut(r["error"].(string), ": say ")
			one, other, ok := strings.Cut(advice, " or ")
			if !ok {
				t.Fatalf("no advice in %s", r["error"])
			}
			reached := map[any]bool{}
			for i, said := range []string{one, other} {
				wake := d.do("cli:will", "message.post", m{"conversationId": "c", "text": "hi", "targets": []string{said}})
				reached[wake.at("wake", "endpointId")] = true
				id := fmt.Sprint("w", i)
				w := d.do("cli:will", "work_item.create", m{"id": id, "title": "t", "ownerId": said, "nextMoveOwnerId": said, "wake": true})
				if w.at("work_item", "ownerId") != "arc" || w.at("wake", "endpointId") != wake.at("wake", "endpointId") {
					t.Errorf("work for %s: %v", said, w)
				}
				owner := protocol.PeerID(w.at("work_item", "ownerIdentity").(string))
				d.do(owner, "work_item.update", m{"id": id, "state": "working"})
				if owner == "agent:arc-1" {
					d.mustRefuse(collab.CodeForbidden, "agent:arc", "work_item.update", m{"id": id, "state": "waiting"})
				}
			}
			if len(reached) != 2 {
				t.Errorf("%s reached %v", advice, reached)
			}
		})
	}
}

// TestEndpoint_GoingOfflineIsNotASignOfLife checks that a caller is routed to the endpoint with the
// latest sign of life, and not to one that just went offline.
func TestEndpoint_GoingOfflineIsNotASignOfLife(t *testing.T) {
	d := newFixture(t)
	d.do("agent:lead", "identity.announce", m{"endpointId": "old", "projectPath": "/a"})
	d.now = d.now.Add(20 * time.Second)
	d.do("agent:lead", "identity.announce", m{"endpointId": "new", "projectPath": "/b"})
	d.sweep(20 * time.Second)
	if got := d.state.Endpoints["old"].Status; got != collab.StatusOffline {
		t.Fatalf("the old endpoint is %s", got)
	}
	if got := d.state.LocalityOf(d.state.Caller("agent:lead", d.names)); got.Project != "/b" {
		t.Errorf("the caller works in %q", got.Project)
	}
}
