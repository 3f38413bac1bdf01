package activitylog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// attentionLog records what two agents did with five events each.
func attentionLog(t *testing.T) *Reader { return opened(t, attentionScript(t).written("")) }

func attentionScript(t *testing.T) *script {
	s := newScript(t)
	record := func(agent, content string, args ...any) {
		s.message(protocol.TypeAgentEvent, agent, "system:attention", fmt.Sprintf(content, args...))
	}
	decide := func(agent, event, injection string) {
		record(agent, `{"event":"attention_decision","eventId":%q,"agent":%q,"directedness":"d","policy":"p","injection":%q,"priority":"normal","reason":"why"}`, event, agent, injection)
	}
	s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"é","sourceId":"e1"}`, "agent:a")
	decide("agent:a", "e1", "buffered")
	decide("agent:a", "e2", "buffered")
	record("agent:a", `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"agent":"agent:a","turnId":"t1","attempt":1,"state":"started"}`)
	record("agent:a", `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"agent":"agent:a","turnId":"t1","attempt":2,"state":"started"}`)
	record("agent:a", `{"event":"turn","eventId":"e2","agent":"agent:a","turnId":"t1","attempt":2,"state":"finished"}`)
	record("agent:a", `{"event":"disposition","eventId":"e1","agent":"agent:a","disposition":"superseded"}`)
	record("agent:a", `{"event":"disposition","eventId":"e2","agent":"agent:a","disposition":"claimed"}`)
	record("agent:a", `{"event":"disposition","eventId":"e2","agent":"agent:a","disposition":"responded"}`)
	decide("agent:a", "e3", "notify")
	decide("agent:a", "e4", "tool_mailbox")
	record("agent:a", `{"event":"refusal","eventId":"e4","agent":"agent:a","tool":"send_message","reason":"must_not_respond"}`)
	record("agent:a", `{"event":"disposition","eventId":"e4","agent":"agent:a","disposition":"ignored"}`)
	decide("agent:a", "e10", "silent")
	record("agent:a", `{"event":"disposition","eventId":"e10","agent":"agent:a","disposition":"deferred"}`)
	// One that records no turns, and lies about who it is.
	decide("agent:b", "e1", "immediate")
	record("agent:b", `{"event":"attention_decision","eventId":"e2","agent":"agent:a","injection":"silent"}`)
	record("agent:b", `{"event":"disposition","eventId":"e2","agent":"agent:b","disposition":"ignored"}`)
	// What is none of it.
	record("agent:b", `{"event":"mood","eventId":"e1"}`)
	record("agent:b", `{"event":17}`)
	record("agent:b", `{"event":"post","eventId":"","messageId":"m-post","target":"tg:1"}`)
	record("agent:b", `{"event":"delivery","eventId":"","messageId":"m-post","status":"failed"}`)
	s.message(protocol.TypeAgentEvent, "agent:b", "system:agents", `{"event":"disposition","eventId":"e1","agent":"agent:b"}`)
	return s
}

// TestSealedFilesKnowTheirEvents: what is about an event is found in sealed files by a table,
// and in the live one by its text, and it is the same.
func TestSealedFilesKnowTheirEvents(t *testing.T) {
	s := attentionScript(t)
	s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"no id of its own"}`, "agent:a")
	live := opened(t, s.written(""))
	path := filepath.Join(t.TempDir(), "activity.db")
	store(t, path, &Options{SegmentRows: 1}, slices.Collect(slices.Chunk(s.w, 3))...)
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(sealed(t, path)); n != (len(s.w)+2)/3 {
		t.Fatalf("%d sealed files", n)
	}
	found := 0
	about := func(r *Reader, f AttentionFilter) (list []string) {
		err := errors.Join(r.Attention(t.Context(), f, func(a *AttentionRecord) error {
			list = append(list, a.MessageID+" "+a.Agent+" "+a.Event)
			return nil
		}), r.ChatEvents(t.Context(), f, func(c *ChatEvent) error {
			list = append(list, c.MessageID+" "+c.Agent+" "+c.EventID)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	now := opened(t, path)
	for _, event := range []string{"e1", "e2", "e3", "e4", "e10", "e", "é", "msg_0001", "m-post", s.w[len(s.w)-1].MessageID} {
		for _, agent := range []string{"", "agent:a"} {
			f := AttentionFilter{EventID: event, Agent: agent}
			want := about(live, f)
			found += len(want)
			if diff := cmp.Diff(want, about(now, f)); diff != "" {
				t.Errorf("%+v:\n%s", f, diff)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d were found", found)
	}
	if t.Failed() {
		logContents(t, path)
	}
}

func TestAttentionRecordsOfAnEvent(t *testing.T) {
	r := attentionLog(t)
	for _, c := range []struct {
		f    AttentionFilter
		want []string
	}{
		{AttentionFilter{EventID: "e1"}, []string{
			"agent:a attention_decision", "agent:a turn", "agent:a turn", "agent:a disposition", "agent:b attention_decision",
			"agent:b mood", // nobody knows it, and it is told all the same
		}},
		{AttentionFilter{EventID: "e2", Agent: "agent:b"}, []string{"agent:b attention_decision", "agent:b disposition"}},
		{AttentionFilter{EventID: "e4"}, []string{"agent:a attention_decision", "agent:a refusal", "agent:a disposition"}},
		{AttentionFilter{EventID: "m-post"}, []string{"agent:b post", "agent:b delivery"}}, // for which no event asked
		{AttentionFilter{EventID: "é"}, nil},
	} {
		var got []string
		err := r.Attention(t.Context(), c.f, func(a *AttentionRecord) error {
			got = append(got, a.Agent+" "+a.Event)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v:\n%s", c.f, diff)
		}
	}
}

func TestEventIDOfAMessage(t *testing.T) {
	r := attentionLog(t)
	for id, want := range map[string]string{"msg_0001": "e1", "msg_0002": "msg_0002", "e7": "e7", "": ""} {
		if got, err := r.EventID(t.Context(), id); err != nil || got != want {
			t.Errorf("%s is event %s (%v); want %s", id, got, err, want)
		}
	}
}

// logContents tells what stands in each sealed file.
func logContents(t *testing.T, path string) {
	t.Helper()
	numbers, err := segmentNumbers(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		file := segmentPath(path, n)
		t.Log(filepath.Base(file), query(t, file, "SELECT count(*) || ' rows from ' || min(id) FROM event"),
			query(t, file, "SELECT message_id FROM event WHERE kind = 1"), query(t, file, "SELECT subject || ' ' || id FROM about"))
	}
}
