package activitylog

import (
	"errors"
	"fmt"
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
