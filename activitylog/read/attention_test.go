package read

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/write"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// attentionLog records what two agents did with five events each.
func attentionLog(t *testing.T) *Reader {
	return opened(t, writetest.Log(logtest.AttentionScript(t), ""))
}

// TestAttention_SealedFilesAgreeWithActiveOne finds the rows about an event in sealed files
// by a table, and in the active file by their text.
func TestAttention_SealedFilesAgreeWithActiveOne(t *testing.T) {
	s := logtest.AttentionScript(t)
	for _, event := range []string{"e0", "e0#edit-1", "e0#edit-12", "e0#edit-x", "e0#edits", "xe0#edit-1"} {
		s.Message(protocol.TypeAgentEvent, "agent:a", "system:attention",
			`{"event":"turn","agent":"agent:a","turnId":"t","eventId":"`+event+`"}`)
	}
	s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"no id of its own"}`, "agent:a")
	live := opened(t, writetest.Log(s, ""))
	path := filepath.Join(t.TempDir(), "activity.db")
	writetest.Store(t, path, &write.Options{SegmentRows: 1}, slices.Collect(slices.Chunk(s.Rows, 3))...)
	if err := logtest.SealAll(t, path); err != nil {
		t.Fatal(err)
	}
	if n := len(logtest.Sealed(t, path)); n != (len(s.Rows)+2)/3 {
		t.Fatalf("%d sealed files", n)
	}
	found := 0
	about := func(r *Reader, f AttentionFilter) (list []string) {
		err := errors.Join(r.Attention(t.Context(), f, func(a *activitylog.AttentionRecord) error {
			list = append(list, a.MessageID+" "+a.Agent+" "+a.Event)
			return nil
		}), r.ChatEvents(t.Context(), f, func(c *activitylog.ChatEvent) error {
			list = append(list, c.MessageID+" "+c.Agent+" "+c.EventID)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	now := opened(t, path)
	if edited := about(live, AttentionFilter{EventID: "e0"}); len(edited) != 3 {
		t.Errorf("about a message and its edits: %v", edited)
	}
	for _, event := range []string{"e0", "e0#edit-1", "e1", "e2", "e3", "e4", "e10", "e", "é", "msg_0001", "m-post", s.Rows[len(s.Rows)-1].MessageID} {
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

func TestAttention_OfEvent(t *testing.T) {
	r := attentionLog(t)
	for _, c := range []struct {
		f    AttentionFilter
		want []string
	}{
		{AttentionFilter{EventID: "e1"}, []string{
			"agent:a attention_decision", "agent:a turn", "agent:a turn", "agent:a disposition", "agent:b attention_decision",
			"agent:b mood", // an unknown one is returned, too
		}},
		{AttentionFilter{EventID: "e2", Agent: "agent:b"}, []string{"agent:b attention_decision", "agent:b disposition"}},
		{AttentionFilter{EventID: "e4"}, []string{"agent:a attention_decision", "agent:a refusal", "agent:a disposition"}},
		{AttentionFilter{EventID: "m-post"}, []string{"agent:b post", "agent:b delivery"}}, // without an event
		{AttentionFilter{EventID: "é"}, nil},
	} {
		var got []string
		err := r.Attention(t.Context(), c.f, func(a *activitylog.AttentionRecord) error {
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

func TestEventID(t *testing.T) {
	r := attentionLog(t)
	for id, want := range map[string]string{"msg_0001": "e1", "msg_0002": "msg_0002", "e7": "e7", "": ""} {
		if got, err := r.EventID(t.Context(), id); err != nil || got != want {
			t.Errorf("%s is event %s (%v); want %s", id, got, err, want)
		}
	}
}

// logContents returns the contents of each sealed file.
func logContents(t *testing.T, path string) {
	t.Helper()
	numbers, err := segment.Numbers(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		file := segment.Path(path, n)
		t.Log(filepath.Base(file), logtest.Query(t, file, "SELECT count(*) || ' rows from ' || min(id) FROM event"),
			logtest.Query(t, file, "SELECT message_id FROM event WHERE kind = 1"), logtest.Query(t, file, "SELECT subject || ' ' || id FROM about"))
	}
}
