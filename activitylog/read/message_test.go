package read

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/writetest"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestMessage_CollectsRows(t *testing.T) {
	s := logtest.NewScript(t)
	s.Message(protocol.TypeTGMessage, "tg:9", "agent:z", `{"text":"other"}`, "agent:z")
	s.Add(activitylog.Row{Event: activitylog.SendStart, MessageID: "m", RPCID: "5", Actor: "tg:1", Topic: "agent:a", Status: activitylog.StatusStart,
		Payload: []byte(`{"messageId":"m","type":"tg_message","from":"tg:1","inReplyTo":"before","traceparent":"00-x","content":{}}`)})
	s.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: "m", RPCID: "8", Actor: "agent:a", Topic: "agent:a", Status: activitylog.StatusStart})
	s.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: "m", RPCID: "9", Actor: "agent:b", Topic: "agent:a", Status: activitylog.StatusStart})
	s.Now = s.Now.Add(3 * time.Millisecond)
	s.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: "m", RPCID: "9", Actor: "agent:b", Topic: "agent:a", Status: "offline", Error: "gone"})
	s.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: "m", RPCID: "8", Actor: "agent:a", Topic: "agent:a", Status: "ok", Payload: []byte(`{"processed":true}`)})
	s.Add(activitylog.Row{Event: activitylog.SendFinish, MessageID: "m", RPCID: "5", Actor: "tg:1", Topic: "agent:a", Status: activitylog.StatusPartial, Payload: []byte(`{"deliveredTo":1}`)})
	s.Now = s.Now.Add(time.Second)
	s.Add(activitylog.Row{Event: activitylog.Rejected, MessageID: "m", RPCID: "1", Actor: "agent:c", Topic: "agent:a", Error: "may not"})
	s.Add(activitylog.Row{Event: activitylog.SendStart, MessageID: "m", RPCID: "6", Actor: "tg:1", Topic: "agent:a", Status: activitylog.StatusStart, Payload: []byte(`{}`)})
	s.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: "m", RPCID: "10", Actor: "agent:a", Topic: "agent:a", Status: activitylog.StatusStart})
	r := opened(t, writetest.Log(s, ""))

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

// TestMessage_ToTwoTopicsAtOnce checks that each delivery belongs to the
// publication of its topic, although both are under way.
func TestMessage_ToTwoTopicsAtOnce(t *testing.T) {
	s := logtest.NewScript(t)
	row := func(event activitylog.Event, rpc, actor, topic, status string) {
		s.Add(activitylog.Row{Event: event, MessageID: "m", RPCID: rpc, Actor: actor, Topic: topic, Status: status})
	}
	row(activitylog.SendStart, "1", "tg:1", "agent:a", activitylog.StatusStart)
	row(activitylog.SendStart, "2", "tg:1", "agent:b", activitylog.StatusStart)
	row(activitylog.ProcessStart, "7", "agent:a", "agent:a", activitylog.StatusStart)
	row(activitylog.ProcessStart, "8", "agent:b", "agent:b", activitylog.StatusStart)
	row(activitylog.ProcessFinish, "7", "agent:a", "agent:a", "ok")
	row(activitylog.SendFinish, "1", "tg:1", "agent:a", activitylog.StatusOK)
	row(activitylog.ProcessFinish, "8", "agent:b", "agent:b", "ok")
	row(activitylog.SendFinish, "2", "tg:1", "agent:b", activitylog.StatusOK)
	m, err := opened(t, writetest.Log(s, "")).Message(t.Context(), "m")
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

func TestMessage_OverTwoBusesIsOne(t *testing.T) {
	entry, target := logtest.NewScript(t), logtest.NewScript(t)
	id := entry.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`)
	target.Now = logtest.Epoch.Add(-time.Second) // its clock is behind
	target.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: activitylog.StatusStart})
	target.Add(activitylog.Row{Event: activitylog.ProcessFinish, MessageID: id, RPCID: "3", Actor: "agent:a", Topic: "agent:a", Status: "ok"})
	r := opened(t, writetest.Log(target, "west"), writetest.Log(entry, "east"))
	m, err := r.Message(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Publications) != 1 || m.Publications[0].Bus != "east" || len(m.Publications[0].Deliveries) != 1 || m.Publications[0].Deliveries[0].Bus != "west" {
		t.Errorf("%+v", *m.Publications[0])
	}
}
