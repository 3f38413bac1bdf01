package chain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/read"
	"hubbub/activitylog/write"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func opened(t testing.TB, path string) *read.Reader {
	t.Helper()
	r := read.Open(path)
	t.Cleanup(r.Close)
	return r
}

// bootstrap returns the rows of a chat that gets an agent and an answer, with
// the agent's records, among other traffic. It returns the ids by name.
func bootstrap(t *testing.T) (*read.Reader, map[string]string) {
	s, ids := logtest.NewScript(t), map[string]string{}
	add := func(name string, typ protocol.MessageType, from, topic, content string, targets ...string) {
		ids[name] = s.Message(typ, from, topic, content, targets...)
		s.Message(protocol.TypeTGMessage, "tg:99", "agent:other", `{"text":"noise","sourceId":"n"}`, "agent:other")
	}
	add("spawn", protocol.TypeSpawnRequest, "tg:1", "system:spawn", `{"topic":"tg:1","requestId":"r1"}`, "agent:system")
	add("foreign", protocol.TypeSpawnRequest, "tg:2", "system:spawn", `{"topic":"tg:2","requestId":"r2"}`, "agent:system")
	add("result", protocol.TypeSpawnResult, "agent:system", "tg:1", `{"requestId":"r1","agent":"agent:a","status":"spawned"}`, "tg:bot")
	add("route", protocol.TypeRouteAssigned, "agent:system", "tg:1", `{"topic":"tg:1","agent":"agent:a","requestId":"r1"}`, "tg:bot")
	add("configure", protocol.TypeConfigure, "tg:1", "agent:a", `{"talkto":"tg:1"}`, "agent:a")
	add("hello", protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"hello","sourceId":"tg:b:1:1","createdAt":"2026-02-17T11:59:58Z"}`, "agent:a")
	add("waited", protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"are you there?","sourceId":"tg:b:1:2","createdAt":"2026-02-17T11:59:59Z"}`, "agent:a")
	ids["decision"] = s.Message(protocol.TypeAgentEvent, "agent:a", "system:attention",
		`{"event":"attention_decision","eventId":"tg:b:1:1","agent":"agent:a","directedness":"to_me","policy":"must_respond","injection":"buffered","priority":"normal","reason":"direct_message"}`)
	add("turn", protocol.TypeAgentEvent, "agent:a", "system:attention", `{"event":"turn","eventId":"tg:b:1:1","agent":"agent:a","turnId":"t1","attempt":1,"mode":"buffered","state":"started"}`)
	add("reply", protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"hi","inReplyTo":"tg:b:1:1"}`, "tg:bot")
	add("status", protocol.TypeDeliveryStatus, "tg:1", "agent:a", fmt.Sprintf(`{"messageId":%q,"status":"delivered"}`, ids["reply"]), "agent:a")
	ids["disposition"] = s.Message(protocol.TypeAgentEvent, "agent:a", "system:attention", `{"event":"disposition","eventId":"tg:b:1:1","agent":"agent:a","disposition":"responded"}`)
	add("later", protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"bye","sourceId":"tg:b:1:3","createdAt":"2026-02-17T12:30:00Z"}`, "agent:a")
	return opened(t, writetest.Log(s, "")), ids
}

func TestFind_FollowsBootstrap(t *testing.T) {
	r, ids := bootstrap(t)
	names := map[string]string{}
	for name, id := range ids {
		names[id] = name
	}
	chain := func(name string) string {
		c, err := Find(t.Context(), r, ids[name], nil)
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
	if _, err := Find(t.Context(), r, "nobody", nil); !errors.Is(err, read.ErrUnknownMessage) {
		t.Errorf("%v", err)
	}
}

func TestFind_FollowsTraceparentOfAddressee(t *testing.T) {
	s := logtest.NewScript(t)
	const trace = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`
	send := func(id, from, topic, more string) {
		s.Send(id, fmt.Sprintf(`{"messageId":%q,"type":"tg_message","from":%q,%s}`, id, from, more), from, topic, topic)
	}
	send("a", "tg:1", "agent:a", trace+`,"content":{"sourceId":"e"}`)
	send("b", "tg:1", "agent:b", `"content":{"sourceId":"e"}`)
	send("from-a", "agent:a", "tg:1", `"content":{"inReplyTo":"e"}`)
	send("from-b", "agent:b", "tg:1", `"content":{"inReplyTo":"e"}`)
	send("traced", "agent:c", "tg:1", trace+`,"content":{}`)
	send("loop-1", "agent:c", "tg:1", `"inReplyTo":"loop-2","content":{}`)
	send("loop-2", "agent:c", "tg:1", `"inReplyTo":"loop-1","content":{}`)
	r := opened(t, writetest.Log(s, ""))
	for id, want := range map[string]string{"a": "a from-a traced", "b": "b from-b", "loop-1": "loop-1"} {
		c, err := Find(t.Context(), r, id, nil)
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
	both := logtest.NewScript(t)
	for _, topic := range []string{"agent:a", "agent:b"} {
		both.Send("m", `{"messageId":"m","type":"tg_message","from":"tg:1","content":{"sourceId":"e"}}`, "tg:1", topic, topic)
	}
	for _, agent := range []string{"agent:b", "agent:a"} {
		both.Message(protocol.TypeTGReply, agent, "tg:1", `{"inReplyTo":"e"}`)
	}
	two, err := Find(t.Context(), opened(t, writetest.Log(both, "")), "m", nil)
	if err != nil || len(two.Steps) != 3 || len(two.Steps[0].Publications) != 2 || two.Steps[0].Publications[1].Topic != "agent:b" {
		t.Errorf("%+v, %v", two, err)
	}
	c, err := Find(t.Context(), r, "a", &Options{Limit: 2})
	if err != nil || len(c.Steps) != 2 || !c.Cut {
		t.Errorf("%d steps, cut %v, %v", len(c.Steps), c.Cut, err)
	}
}

func TestFind_RefusedMessageIsItsOwnChain(t *testing.T) {
	s := logtest.NewScript(t)
	s.Add(activitylog.Row{Event: activitylog.Rejected, MessageID: "evil", Actor: "tg:9", Topic: "agent:a", Error: "may not send tg_reply"})
	r := opened(t, writetest.Log(s, ""))
	c, err := Find(t.Context(), r, "evil", nil)
	if err != nil || len(c.Steps) != 1 || len(c.Steps[0].Refusals) != 1 || c.Steps[0].From != "tg:9" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestTrace_CrossesAJumpOfTheClock finds the cause and the effect of a message although the clock
// jumped while the message was under way, or was set back before or after it. A clock that was
// set forward between two messages looks like a time without messages.
func TestTrace_CrossesAJumpOfTheClock(t *testing.T) {
	for _, jump := range []time.Duration{400 * 24 * time.Hour, -400 * 24 * time.Hour, time.Hour, -time.Hour, 0} {
		var rows []activitylog.Row
		add := func(id, answers string, after time.Duration) {
			of := &activitylog.Sending{}
			payload := fmt.Sprintf(`{"messageId":%q,"type":"agent_event","from":"agent:a","inReplyTo":%q}`, id, answers)
			for i, event := range []activitylog.Event{activitylog.SendStart, activitylog.ProcessStart, activitylog.ProcessFinish, activitylog.SendFinish} {
				row := activitylog.Row{At: logtest.Epoch.Add(after).UnixMicro() + int64(i), Event: event, MessageID: id, Topic: "agent:b", Of: of}
				if event == activitylog.SendStart {
					row.Payload = []byte(payload)
				}
				if event == activitylog.ProcessFinish && id == "middle" { // it jumps while the peer works
					row.At = logtest.Epoch.Add(jump).UnixMicro()
				}
				rows = append(rows, row)
			}
		}
		add("first", "", 0)
		add("middle", "first", time.Second)
		add("last", "middle", jump+2*time.Second)
		path := filepath.Join(t.TempDir(), "activity.db")
		opts := &write.Options{SegmentRows: 5, SegmentAge: 100 * 365 * 24 * time.Hour}
		for _, part := range [][]activitylog.Row{rows[:5], rows[5:10], rows[10:]} {
			w := write.NewWriter(path, opts)
			w.Append(part...)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := w.Run(ctx); err != nil {
				t.Fatal(err)
			}
		}
		r := opened(t, path)
		ids := []string{"middle"}
		if jump <= 0 {
			ids = append(ids, "first", "last")
		}
		for _, id := range ids {
			c, err := Find(t.Context(), r, id, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range slices.Concat(c.Causes, c.Steps) {
				got = append(got, s.ID)
				for i, want := range []activitylog.Event{activitylog.SendStart, activitylog.ProcessStart, activitylog.ProcessFinish, activitylog.SendFinish} {
					if len(s.Rows) != 4 || !s.Rows[i].Is(want) {
						t.Fatalf("a jump of %s: the rows of %s are %+v", jump, s.ID, s.Rows)
					}
				}
			}
			if want := []string{"first", "middle", "last"}; !slices.Equal(got, want) {
				t.Errorf("a jump of %s: the trace of %s is %v; want %v", jump, id, got, want)
			}
		}
	}
}

// TestFind_SearchesRange checks that the search covers fifteen minutes around the message
// by default.
func TestFind_SearchesRange(t *testing.T) {
	s := logtest.NewScript(t)
	s.Now = logtest.Epoch.Add(-time.Millisecond)
	s.Send("cause", `{"type":"tg_message","from":"tg:1"}`, "tg:1", "agent:a")
	s.Now = logtest.Epoch.Add(15*time.Minute - 2*time.Millisecond)
	s.Send("near", `{"type":"tg_reply","from":"agent:a","inReplyTo":"cause"}`, "agent:a", "tg:1")
	s.Now = logtest.Epoch.Add(30*time.Minute - time.Millisecond)
	s.Send("far", `{"type":"tg_reply","from":"agent:a","inReplyTo":"cause"}`, "agent:a", "tg:1")
	r := opened(t, writetest.Log(s, ""))
	for id, want := range map[string]string{"cause": "cause near", "near": "cause near", "far": "far"} {
		c, err := Find(t.Context(), r, id, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, step := range append(c.Causes, c.Steps...) {
			got += " " + step.ID
		}
		if strings.TrimSpace(got) != want || c.Cut {
			t.Errorf("the chain of %s is%s; want %s", id, got, want)
		}
	}
	for within, want := range map[time.Duration]int{time.Hour: 3, time.Minute: 1} {
		if c, err := Find(t.Context(), r, "cause", &Options{Within: within}); err != nil || len(c.Steps) != want {
			t.Errorf("within %s there are %d steps, %v; want %d", within, len(c.Steps), err, want)
		}
	}
}
