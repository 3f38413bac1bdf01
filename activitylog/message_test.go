package activitylog

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestMessagePutsItsRowsTogether(t *testing.T) {
	s := newScript(t)
	s.message(protocol.TypeTGMessage, "tg:9", "agent:z", `{"text":"other"}`, "agent:z")
	s.add(Row{Event: SendStart, MessageID: "m", RPCID: "5", Actor: "tg:1", Topic: "agent:a", Status: StatusStart,
		Payload: []byte(`{"messageId":"m","type":"tg_message","from":"tg:1","inReplyTo":"before","traceparent":"00-x","content":{}}`)})
	s.add(Row{Event: ProcessStart, MessageID: "m", RPCID: "8", Actor: "agent:a", Topic: "agent:a", Status: StatusStart})
	s.add(Row{Event: ProcessStart, MessageID: "m", RPCID: "9", Actor: "agent:b", Topic: "agent:a", Status: StatusStart})
	s.now = s.now.Add(3 * time.Millisecond)
	s.add(Row{Event: ProcessFinish, MessageID: "m", RPCID: "9", Actor: "agent:b", Topic: "agent:a", Status: "offline", Error: "gone"})
	s.add(Row{Event: ProcessFinish, MessageID: "m", RPCID: "8", Actor: "agent:a", Topic: "agent:a", Status: "ok", Payload: []byte(`{"processed":true}`)})
	s.add(Row{Event: SendFinish, MessageID: "m", RPCID: "5", Actor: "tg:1", Topic: "agent:a", Status: StatusPartial, Payload: []byte(`{"deliveredTo":1}`)})
	s.now = s.now.Add(time.Second)
	s.add(Row{Event: Rejected, MessageID: "m", RPCID: "1", Actor: "agent:c", Topic: "agent:a", Error: "may not"})
	s.add(Row{Event: SendStart, MessageID: "m", RPCID: "6", Actor: "tg:1", Topic: "agent:a", Status: StatusStart, Payload: []byte(`{}`)})
	s.add(Row{Event: ProcessStart, MessageID: "m", RPCID: "10", Actor: "agent:a", Topic: "agent:a", Status: StatusStart})
	r := opened(t, s.written(""))

	m, err := r.Message(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	if m.Type != "tg_message" || m.From != "tg:1" || m.Topic != "agent:a" || m.InReplyTo != "before" || m.TraceParent != "00-x" || len(m.Rows) != 9 {
		t.Errorf("%+v", m)
	}
	var got []string
	for _, p := range m.Publications {
		got = append(got, fmt.Sprintf("%s %s %s", p.RPCID, p.Status, p.Finish.Sub(p.Start)))
		for _, d := range p.Deliveries {
			got = append(got, fmt.Sprintf("- %s %q %s%s", d.Peer, d.Status, d.Error, d.Answer))
		}
	}
	want := []string{
		"5 partial 3ms", `- agent:a "ok" {"processed":true}`, `- agent:b "offline" gone`,
		fmt.Sprintf("6  %s", time.Time{}.Sub(m.Publications[1].Start)), `- agent:a "" `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(m.Refusals) != 1 || m.Refusals[0].Error != "may not" {
		t.Errorf("%+v", m.Refusals)
	}
	if _, err := r.Message(t.Context(), "nobody"); !errors.Is(err, ErrUnknownMessage) {
		t.Errorf("an unknown message gives %v", err)
	}
}

// TestAMessageToTwoTopicsAtOnce: each delivery belongs to the pass of its topic,
// though both are under way.
func TestAMessageToTwoTopicsAtOnce(t *testing.T) {
	s := newScript(t)
	row := func(event Event, rpc, actor, topic, status string) {
		s.add(Row{Event: event, MessageID: "m", RPCID: rpc, Actor: actor, Topic: topic, Status: status})
	}
	row(SendStart, "1", "tg:1", "agent:a", StatusStart)
	row(SendStart, "2", "tg:1", "agent:b", StatusStart)
	row(ProcessStart, "7", "agent:a", "agent:a", StatusStart)
	row(ProcessStart, "8", "agent:b", "agent:b", StatusStart)
	row(ProcessFinish, "7", "agent:a", "agent:a", "ok")
	row(SendFinish, "1", "tg:1", "agent:a", StatusOK)
	row(ProcessFinish, "8", "agent:b", "agent:b", "ok")
	row(SendFinish, "2", "tg:1", "agent:b", StatusOK)
	m, err := opened(t, s.written("")).Message(t.Context(), "m")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range m.Publications {
		for _, d := range p.Deliveries {
			got = append(got, p.Topic+" "+d.Peer)
		}
	}
	if diff := cmp.Diff([]string{"agent:a agent:a", "agent:b agent:b"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAMessageOverTwoBusesIsOne(t *testing.T) {
	entry, target := newScript(t), newScript(t)
	id := entry.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`)
	target.now = epoch.Add(-time.Second) // its clock is behind
	target.add(Row{Event: ProcessStart, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: StatusStart})
	target.add(Row{Event: ProcessFinish, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: "ok"})
	r := opened(t, target.written("west"), entry.written("east"))
	m, err := r.Message(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Publications) != 1 || m.Publications[0].Bus != "east" || len(m.Publications[0].Deliveries) != 1 || m.Publications[0].Deliveries[0].Bus != "west" {
		t.Errorf("%+v", *m.Publications[0])
	}
}

// bootstrap is a chat that gets its agent, is answered, and what the agent
// records, among other traffic. It returns the ids by name.
func bootstrap(t *testing.T) (*Reader, map[string]string) {
	s, ids := newScript(t), map[string]string{}
	add := func(name string, typ protocol.MessageType, from, topic, content string, targets ...string) {
		ids[name] = s.message(typ, from, topic, content, targets...)
		s.message(protocol.TypeTGMessage, "tg:99", "agent:other", `{"text":"noise","sourceId":"n"}`, "agent:other")
	}
	add("spawn", protocol.TypeSpawnRequest, "tg:1", "system:spawn", `{"topic":"tg:1","requestId":"r1"}`, "agent:system")
	add("foreign", protocol.TypeSpawnRequest, "tg:2", "system:spawn", `{"topic":"tg:2","requestId":"r2"}`, "agent:system")
	add("result", protocol.TypeSpawnResult, "agent:system", "tg:1", `{"requestId":"r1","agent":"agent:a","status":"spawned"}`, "tg:bot")
	add("route", protocol.TypeRouteAssigned, "agent:system", "tg:1", `{"topic":"tg:1","agent":"agent:a","requestId":"r1"}`, "tg:bot")
	add("configure", protocol.TypeConfigure, "tg:1", "agent:a", `{"talkto":"tg:1"}`, "agent:a")
	add("hello", protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"hello","sourceId":"tg:b:1:1","createdAt":"2026-02-17T11:59:58Z"}`, "agent:a")
	add("waited", protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"are you there?","sourceId":"tg:b:1:2","createdAt":"2026-02-17T11:59:59Z"}`, "agent:a")
	ids["decision"] = s.message(protocol.TypeAgentEvent, "agent:a", "system:attention",
		`{"event":"attention_decision","eventId":"tg:b:1:1","agent":"agent:a","directedness":"to_me","policy":"must_respond","injection":"buffered","priority":"normal","reason":"direct_message"}`)
	add("turn", protocol.TypeAgentEvent, "agent:a", "system:attention", `{"event":"turn","eventId":"tg:b:1:1","agent":"agent:a","turnId":"t1","attempt":1,"mode":"buffered","state":"started"}`)
	add("reply", protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"hi","inReplyTo":"tg:b:1:1"}`, "tg:bot")
	add("status", protocol.TypeDeliveryStatus, "tg:1", "agent:a", fmt.Sprintf(`{"messageId":%q,"status":"delivered"}`, ids["reply"]), "agent:a")
	ids["disposition"] = s.message(protocol.TypeAgentEvent, "agent:a", "system:attention", `{"event":"disposition","eventId":"tg:b:1:1","agent":"agent:a","disposition":"responded"}`)
	add("later", protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"bye","sourceId":"tg:b:1:3","createdAt":"2026-02-17T12:30:00Z"}`, "agent:a")
	return opened(t, s.written("")), ids
}

func TestChainFollowsABootstrapFromItsSpawnToItsDelivery(t *testing.T) {
	r, ids := bootstrap(t)
	names := map[string]string{}
	for name, id := range ids {
		names[id] = name
	}
	chain := func(name string) string {
		c, err := r.Chain(t.Context(), ids[name], nil)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, s := range c.Causes {
			fmt.Fprintf(&b, "%s (%s) > ", names[s.ID], s.Reason)
		}
		for _, s := range c.Steps {
			fmt.Fprintf(&b, "\n%s%s %s", strings.Repeat("  ", s.Depth-len(c.Causes)), names[s.ID], s.Reason)
		}
		return b.String()
	}
	want := `
spawn 
  result requestId
  route requestId
    configure route
      hello bootstrap
        decision answers
        turn answers
        reply answers
          status answers
        disposition answers
      waited bootstrap`
	if diff := cmp.Diff(want, chain("spawn")); diff != "" {
		t.Error(diff)
	}
	want = `spawn () > route (requestId) > configure (route) > hello (bootstrap) > 
reply answers
  status answers`
	if diff := cmp.Diff(want, chain("reply")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("\nlater ", chain("later")); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Chain(t.Context(), "nobody", nil); !errors.Is(err, ErrUnknownMessage) {
		t.Errorf("%v", err)
	}
}

func TestChainFollowsTraceparentAndPrefersTheAddressee(t *testing.T) {
	s := newScript(t)
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	send := func(id, from, topic, more string) {
		s.send(id, fmt.Sprintf(`{"messageId":%q,"type":"tg_message","from":%q,%s}`, id, from, more), from, topic, topic)
	}
	send("a", "tg:1", "agent:a", trace+`,"content":{"sourceId":"e"}`)
	send("b", "tg:1", "agent:b", `"content":{"sourceId":"e"}`)
	send("from-a", "agent:a", "tg:1", `"content":{"inReplyTo":"e"}`)
	send("from-b", "agent:b", "tg:1", `"content":{"inReplyTo":"e"}`)
	send("traced", "agent:c", "tg:1", trace+`,"content":{}`)
	send("loop-1", "agent:c", "tg:1", `"inReplyTo":"loop-2","content":{}`)
	send("loop-2", "agent:c", "tg:1", `"inReplyTo":"loop-1","content":{}`)
	r := opened(t, s.written(""))
	for id, want := range map[string]string{"a": "a from-a traced", "b": "b from-b", "loop-1": "loop-1"} {
		c, err := r.Chain(t.Context(), id, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range c.Steps {
			got = append(got, s.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s caused %s; want %s", id, got, want)
		}
	}
	// One message to two agents is one step, with the replies of both.
	both := newScript(t)
	for _, topic := range []string{"agent:a", "agent:b"} {
		both.send("m", `{"messageId":"m","type":"tg_message","from":"tg:1","content":{"sourceId":"e"}}`, "tg:1", topic, topic)
	}
	for _, agent := range []string{"agent:b", "agent:a"} {
		both.message(protocol.TypeTGReply, agent, "tg:1", `{"inReplyTo":"e"}`)
	}
	two, err := opened(t, both.written("")).Chain(t.Context(), "m", nil)
	if err != nil || len(two.Steps) != 3 || len(two.Steps[0].Publications) != 2 || two.Steps[0].Publications[1].Topic != "agent:b" {
		t.Errorf("%+v, %v", two, err)
	}
	c, err := r.Chain(t.Context(), "a", &ChainOptions{Limit: 2})
	if err != nil || len(c.Steps) != 2 || !c.Cut {
		t.Errorf("%d steps, cut %v, %v", len(c.Steps), c.Cut, err)
	}
}

func TestARefusedMessageHasAChainOfItself(t *testing.T) {
	r, _ := chatLog(t)
	c, err := r.Chain(t.Context(), "evil", nil)
	if err != nil || len(c.Steps) != 1 || len(c.Steps[0].Refusals) != 1 || c.Steps[0].From != "tg:9" {
		t.Errorf("%+v, %v", c, err)
	}
}
