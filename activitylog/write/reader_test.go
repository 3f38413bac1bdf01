package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/read"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// TestBrief_LeavesOutSignsOfLife checks that typing and presence of agents are left out, and
// texts about them are not.
func TestBrief_LeavesOutSignsOfLife(t *testing.T) {
	s := logtest.NewScript(t)
	s.Message(protocol.TypeTGReply, "agent:a", "tg:1", `{"typing":true,"draft":"hel"}`, "tg:bot")
	s.Message(protocol.TypeCollabRequest, "agent:a", "collab:broker", `{"method":"identity.heartbeat","params":{}}`, "collab:broker")
	s.Message(protocol.TypeCollabResult, "collab:broker", "agent:a", `{"ok":true,"result":{"identity":{"status":"online"},"watched":true}}`, "agent:a")
	s.Message(protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"\"content\":{\"typing\":true"}`, "tg:bot")
	r := opened(t, written(s, ""))
	rows, _, err := r.After(t.Context(), read.Filter{Brief: true}, nil, 100)
	if diff := cmp.Diff([]string{"13 send_start agent:a tg_reply"}, brief(rows)); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

func brief(rows []activitylog.Entry) []string {
	list := []string{}
	for _, e := range rows {
		list = append(list, fmt.Sprintf("%d %s %s %s", e.ID, e.Event, e.Actor, e.Type))
	}
	return list
}

func TestFilters(t *testing.T) {
	r := opened(t, written(logtest.ChatScript(t), ""))
	for _, c := range []struct {
		name string
		f    read.Filter
		want []string
	}{
		{"topic", read.Filter{Topic: "tg:*"}, []string{"6 send_start agent:a tg_reply", "7 process_start tg:bot tg_reply", "8 process_finish tg:bot tg_reply", "9 send_finish agent:a tg_reply"}},
		{"peer", read.Filter{Peer: "agent:a"}, []string{"3 process_start agent:a tg_message", "4 process_finish agent:a tg_message", "6 send_start agent:a tg_reply", "9 send_finish agent:a tg_reply"}},
		{"peer pattern", read.Filter{Peer: "tg:?"}, []string{"2 send_start tg:1 tg_message", "5 send_finish tg:1 tg_message", "10 send_start tg:2 tg_message", "11 send_finish tg:2 tg_message", "12 rejected tg:9 "}},
		{"type", read.Filter{Types: []protocol.MessageType{protocol.TypeTGReply}}, []string{"6 send_start agent:a tg_reply", "7 process_start tg:bot tg_reply", "8 process_finish tg:bot tg_reply", "9 send_finish agent:a tg_reply"}},
		{"events", read.Filter{Events: []activitylog.Event{activitylog.PeerConnected, activitylog.Rejected}}, []string{"1 peer_connected tg:bot ", "12 rejected tg:9 "}},
		{"not the topic", read.Filter{NotTopic: "agent:*", Events: []activitylog.Event{activitylog.PeerConnected, activitylog.SendStart, activitylog.Rejected}}, []string{"1 peer_connected tg:bot ", "6 send_start agent:a tg_reply"}},
		{"not the peer", read.Filter{NotPeer: "agent:?", NotTypes: []protocol.MessageType{protocol.TypeTGMessage}}, []string{"1 peer_connected tg:bot ", "7 process_start tg:bot tg_reply", "8 process_finish tg:bot tg_reply", "12 rejected tg:9 "}},
		{"in brief", read.Filter{Brief: true}, []string{"1 peer_connected tg:bot ", "2 send_start tg:1 tg_message", "6 send_start agent:a tg_reply", "10 send_start tg:2 tg_message", "11 send_finish tg:2 tg_message", "12 rejected tg:9 "}},
		{"status", read.Filter{Status: activitylog.StatusNoSubscriber}, []string{"11 send_finish tg:2 tg_message"}},
		{"text, any case, no wildcards", read.Filter{Text: "50% of hello_"}, []string{"2 send_start tg:1 tg_message"}},
		{"text that is no pattern", read.Filter{Text: "5_% of"}, []string{}},
		{"text of an error", read.Filter{Text: "MAY NOT"}, []string{"12 rejected tg:9 "}},
		{"since", read.Filter{Since: logtest.Epoch.Add(3 * time.Millisecond)}, []string{"10 send_start tg:2 tg_message", "11 send_finish tg:2 tg_message", "12 rejected tg:9 "}},
		{"until", read.Filter{Until: logtest.Epoch.Add(time.Millisecond)}, []string{"1 peer_connected tg:bot "}},
		{"since the future", read.Filter{Since: logtest.Epoch.Add(time.Hour)}, []string{}},
		{"all together", read.Filter{Topic: "agent:*", Peer: "tg:1", Types: []protocol.MessageType{"tg_message"}, Events: []activitylog.Event{activitylog.SendFinish}, Status: "ok"}, []string{"5 send_finish tg:1 tg_message"}},
	} {
		rows, _, err := r.After(t.Context(), c.f, nil, 100)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, brief(rows)); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
		if rows, _, err = r.Before(t.Context(), c.f, nil, 100); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, brief(rows)); diff != "" {
			t.Errorf("%s, read backward:\n%s", c.name, diff)
		}
	}
}

func TestPages_MeetWithoutGapOrOverlap(t *testing.T) {
	s := logtest.NewScript(t)
	for i := range 25 {
		s.Message(protocol.TypeTGMessage, fmt.Sprintf("tg:%d", i%3), "agent:a", `{"text":"x"}`, "agent:a", "agent:b")
	}
	half := &logtest.Script{T: t, Now: s.Now, N: 1000}
	for range 25 {
		half.Message(protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"y"}`, "tg:bot")
	}
	r := opened(t, written(s, "one"), written(half, "two"))
	var all []activitylog.Entry
	if err := r.Each(t.Context(), read.Filter{}, func(e *activitylog.Entry) error { all = append(all, *e); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(all) != 25*6+25*4 {
		t.Fatalf("%d rows", len(all))
	}
	for _, f := range []read.Filter{{}, {Types: []protocol.MessageType{"tg_message"}}, {Peer: "tg:1"}, {Events: []activitylog.Event{activitylog.SendFinish}}} {
		var want []activitylog.Entry
		if err := r.Each(t.Context(), f, func(e *activitylog.Entry) error { want = append(want, *e); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 7, 50, 100} {
			if n == 1 && len(want) > 60 {
				continue
			}
			var got []activitylog.Entry
			var at read.Cursor
			for {
				rows, next, err := r.After(t.Context(), f, at, n)
				if err != nil {
					t.Fatal(err)
				}
				got, at = append(got, rows...), next
				if len(rows) < n {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("forward, %d a page:\n%s", n, diff)
			}
			got, at = nil, nil
			for {
				rows, next, err := r.Before(t.Context(), f, at, n)
				if err != nil {
					t.Fatal(err)
				}
				got, at = append(rows, got...), next
				if len(rows) < n {
					break
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("backward, %d a page:\n%s", n, diff)
			}
		}
	}
}

func TestReader_FindsMessageOfRemoteTarget(t *testing.T) {
	here, there := logtest.NewScript(t), logtest.NewScript(t)
	here.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"x"}`)
	there.Add(activitylog.Row{Event: activitylog.ProcessStart, MessageID: "msg_0001", Actor: "agent:a", Topic: "agent:a", Status: activitylog.StatusStart})
	r := opened(t, written(there, "there"), written(here, "here"))
	rows, _, err := r.After(t.Context(), read.Filter{Types: []protocol.MessageType{"tg_message"}, Events: []activitylog.Event{activitylog.ProcessStart}}, nil, 10)
	if err != nil || len(rows) != 1 || rows[0].Type != "tg_message" || rows[0].Bus != "there" || rows[0].From != "tg:1" {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestEntry_MarshalsColumnNames(t *testing.T) {
	r := opened(t, written(logtest.ChatScript(t), ""))
	rows, _, err := r.After(t.Context(), read.Filter{Events: []activitylog.Event{activitylog.SendStart, activitylog.PeerConnected}}, nil, 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range rows {
		line, err := json.Marshal(&rows[i])
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(line))
	}
	want := []string{
		`{"id":1,"ts":"2026-02-17T12:00:00.000000Z","event":"peer_connected","message_id":"","rpc_id":null,"actor":"tg:bot","topic":null,"status":null,"payload_json":null,"error":null,"bus":null}`,
		`{"id":2,"ts":"2026-02-17T12:00:00.001000Z","event":"send_start","message_id":"msg_0001","rpc_id":"1","actor":"tg:1","topic":"agent:a","status":"start",` +
			`"payload_json":{"messageId":"msg_0001","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{"text":"50% of Hello_World"}},"error":null,"bus":null,"type":"tg_message","from":"tg:1"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	odd, err := json.Marshal(&activitylog.Entry{Payload: []byte("not json")})
	if err != nil || !strings.Contains(string(odd), `"payload_json":"not json"`) {
		t.Errorf("%s, %v", odd, err)
	}
}

func TestReader_MissingLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	r := opened(t, path)
	if err := r.Check(t.Context()); !errors.Is(err, activitylog.ErrNoLog) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("reading created it")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil { // it is being created
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); !errors.Is(err, activitylog.ErrNoLog) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte("a diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); err == nil {
		t.Error("a diary was read as a log")
	}
}

func TestFollow_ContinuesAfterRestartAndReplacement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	r := opened(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting, seen, done := make(chan error, 1), make(chan string), make(chan error, 1)
	go func() {
		done <- r.Follow(ctx, read.Filter{Events: []activitylog.Event{activitylog.SendStart}}, nil, func(err error) { waiting <- err }, func(rows []activitylog.Entry) error {
			for _, e := range rows {
				seen <- e.MessageID
			}
			return nil
		})
	}()
	if err := <-waiting; !errors.Is(err, activitylog.ErrNoLog) {
		t.Fatal(err)
	}
	for run := range 3 {
		w := NewWriter(path, nil)
		stop := running(t, w)
		for i := range 3 {
			w.Append(logtest.Numbered(run*10+i), activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.PeerConnected, Actor: "x"})
			if got, want := <-seen, fmt.Sprintf("msg_%08d", run*10+i); got != want {
				t.Fatalf("run %d: saw %s, want %s", run, got, want)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if run == 1 { // the log is thrown away: a new one begins at id 1
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			<-waiting
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Follow ended with %v", err)
	}
}

// TestFollow_WaitsForLock covers a lock that lasts longer than one attempt of a
// reader.
func TestFollow_WaitsForLock(t *testing.T) {
	t.Parallel()
	path, conn := lockedLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited, rows := 0, 0
	waiting := func(err error) {
		if waited++; !errors.Is(err, activitylog.ErrLocked) {
			t.Errorf("it waits because of %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	err := opened(t, path).Follow(ctx, read.Filter{}, nil, waiting, func(list []activitylog.Entry) error {
		rows += len(list)
		cancel()
		return nil
	})
	if err != nil || waited != 1 || rows == 0 {
		t.Errorf("%v; it waited %d times and showed %d rows", err, waited, rows)
	}
}

// TestReader_StopsWhileWaitingForLock ends the context of the reader.
func TestReader_StopsWhileWaitingForLock(t *testing.T) {
	t.Parallel()
	path, conn := lockedLog(t)
	defer conn.Close() //nolint:errcheck // it wrote nothing
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := opened(t, path).End(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it waited, and then says %v", err)
	}
}

func TestReaders_DoNotBlockWriter(t *testing.T) {
	w, path, _ := started(t, nil)
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	r := opened(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := r.Each(ctx, read.Filter{Text: "nowhere"}, func(*activitylog.Entry) error { return nil }); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	payload := fmt.Appendf(nil, "%q", strings.Repeat("x", 4000))
	for i := range 3000 {
		row := logtest.Numbered(i)
		row.Payload = payload
		w.Append(row)
	}
	mustSync(t, w)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if s := w.Stats(); s.Lost != 0 || s.Failures != 0 || s.WALBytes > 4*usualWAL {
		t.Errorf("with a reader that reads all the time: %+v", s)
	}
}

// TestReader_AcceptsLogBeingCreated reads logs while they are created: each is
// missing or complete, and never taken for another database.
func TestReader_AcceptsLogBeingCreated(t *testing.T) {
	for i := range 20 {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", i))
		created := make(chan error, 1)
		go func() {
			s, err := openDatabase(path, testOptions("bus"))
			if err == nil {
				err = s.close()
			}
			created <- err
		}()
		for {
			r := read.Open(path)
			err := r.Check(t.Context())
			r.Close()
			if err == nil {
				break
			}
			if !errors.Is(err, activitylog.ErrNoLog) {
				t.Fatal(err)
			}
		}
		if err := <-created; err != nil {
			t.Fatal(err)
		}
	}
}
