package activitylog

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

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
)

// epoch is the time of the first row of the logs that the tests write.
var epoch = time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)

// A script writes a log as a bus would, a message a millisecond.
type script struct {
	t   testing.TB
	now time.Time
	n   int
	w   []Row
}

func newScript(t testing.TB) *script { return &script{t: t, now: epoch} }

func (s *script) add(r Row) {
	r.At = s.now.UnixMicro()
	s.w = append(s.w, r)
}

// message adds the rows of one message that each target processed, and returns
// its id.
func (s *script) message(t protocol.MessageType, from, topic, content string, targets ...string) string {
	s.t.Helper()
	s.n++
	id := fmt.Sprintf("msg_%04d", s.n)
	s.send(id, fmt.Sprintf(`{"messageId":%q,"type":%q,"from":%q,"timestamp":"2026-02-17T12:00:00Z","content":%s}`, id, t, from, content), from, topic, targets...)
	return id
}

func (s *script) send(id, payload, from, topic string, targets ...string) {
	s.t.Helper()
	if !json.Valid([]byte(payload)) {
		s.t.Fatalf("not JSON: %s", payload)
	}
	s.now = s.now.Add(time.Millisecond)
	s.add(Row{Event: SendStart, MessageID: id, RPCID: "1", Actor: from, Topic: topic, Status: StatusStart, Payload: []byte(payload)})
	for i, target := range targets {
		s.add(Row{Event: ProcessStart, MessageID: id, RPCID: fmt.Sprint(10 + i), Actor: target, Topic: topic, Status: StatusStart})
	}
	s.now = s.now.Add(100 * time.Microsecond)
	for i, target := range targets {
		s.add(Row{Event: ProcessFinish, MessageID: id, RPCID: fmt.Sprint(10 + i), Actor: target, Topic: topic, Status: StatusOK, Payload: []byte(`{"processed":true}`)})
	}
	status := StatusOK
	if len(targets) == 0 {
		status = StatusNoSubscriber
	}
	s.add(Row{Event: SendFinish, MessageID: id, RPCID: "1", Actor: from, Topic: topic, Status: status,
		Payload: fmt.Appendf(nil, `{"accepted":true,"messageId":%q,"deliveredTo":%d}`, id, len(targets))})
}

// written stores the rows in a log of their own.
func (s *script) written(bus string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.t.TempDir(), "activity.db")
	w := NewWriter(path, &Options{Bus: bus})
	stop := running(s.t, w)
	w.Append(s.w...)
	if err := stop(); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func opened(t testing.TB, paths ...string) *Reader {
	t.Helper()
	r := Open(paths...)
	t.Cleanup(r.Close)
	return r
}

// chatLog is a log of a few messages of several types and peers.
func chatLog(t testing.TB) (*Reader, string) {
	s := newScript(t)
	s.add(Row{Event: PeerConnected, Actor: "tg:bot"})
	s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"50% of Hello_World"}`, "agent:a")
	s.message(protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"hi"}`, "tg:bot")
	s.message(protocol.TypeTGMessage, "tg:2", "agent:b", `{"text":"anyone?"}`)
	s.add(Row{Event: Rejected, MessageID: "evil", Actor: "tg:9", Topic: "agent:a", Error: "may not send tg_reply"})
	path := s.written("")
	return opened(t, path), path
}

// TestNoSignOfLifeInBrief: that an agent writes, and that it is there, is left out; what somebody
// says about that is not.
func TestNoSignOfLifeInBrief(t *testing.T) {
	s := newScript(t)
	s.message(protocol.TypeTGReply, "agent:a", "tg:1", `{"typing":true,"draft":"hel"}`, "tg:bot")
	s.message(protocol.TypeCollabRequest, "agent:a", "collab:broker", `{"method":"identity.heartbeat","params":{}}`, "collab:broker")
	s.message(protocol.TypeCollabResult, "collab:broker", "agent:a", `{"ok":true,"result":{"identity":{"status":"online"},"watched":true}}`, "agent:a")
	s.message(protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"\"content\":{\"typing\":true"}`, "tg:bot")
	r := opened(t, s.written(""))
	rows, _, err := r.After(t.Context(), Filter{Brief: true}, nil, 100)
	if diff := cmp.Diff([]string{"13 send_start agent:a tg_reply"}, brief(rows)); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
}

func brief(rows []Entry) []string {
	list := []string{}
	for _, e := range rows {
		list = append(list, fmt.Sprintf("%d %s %s %s", e.ID, e.Event, e.Actor, e.Type))
	}
	return list
}

func TestFilters(t *testing.T) {
	r, _ := chatLog(t)
	for _, c := range []struct {
		name string
		f    Filter
		want []string
	}{
		{"topic", Filter{Topic: "tg:*"}, []string{"6 send_start agent:a tg_reply", "7 process_start tg:bot tg_reply", "8 process_finish tg:bot tg_reply", "9 send_finish agent:a tg_reply"}},
		{"peer", Filter{Peer: "agent:a"}, []string{"3 process_start agent:a tg_message", "4 process_finish agent:a tg_message", "6 send_start agent:a tg_reply", "9 send_finish agent:a tg_reply"}},
		{"peer pattern", Filter{Peer: "tg:?"}, []string{"2 send_start tg:1 tg_message", "5 send_finish tg:1 tg_message", "10 send_start tg:2 tg_message", "11 send_finish tg:2 tg_message", "12 rejected tg:9 "}},
		{"type", Filter{Types: []protocol.MessageType{protocol.TypeTGReply}}, []string{"6 send_start agent:a tg_reply", "7 process_start tg:bot tg_reply", "8 process_finish tg:bot tg_reply", "9 send_finish agent:a tg_reply"}},
		{"events", Filter{Events: []Event{PeerConnected, Rejected}}, []string{"1 peer_connected tg:bot ", "12 rejected tg:9 "}},
		{"not the topic", Filter{NotTopic: "agent:*", Events: []Event{PeerConnected, SendStart, Rejected}}, []string{"1 peer_connected tg:bot ", "6 send_start agent:a tg_reply"}},
		{"not the peer", Filter{NotPeer: "agent:?", NotTypes: []protocol.MessageType{protocol.TypeTGMessage}}, []string{"1 peer_connected tg:bot ", "7 process_start tg:bot tg_reply", "8 process_finish tg:bot tg_reply", "12 rejected tg:9 "}},
		{"in brief", Filter{Brief: true}, []string{"1 peer_connected tg:bot ", "2 send_start tg:1 tg_message", "6 send_start agent:a tg_reply", "10 send_start tg:2 tg_message", "11 send_finish tg:2 tg_message", "12 rejected tg:9 "}},
		{"status", Filter{Status: StatusNoSubscriber}, []string{"11 send_finish tg:2 tg_message"}},
		{"text, any case, no wildcards", Filter{Text: "50% of hello_"}, []string{"2 send_start tg:1 tg_message"}},
		{"text that is no pattern", Filter{Text: "5_% of"}, []string{}},
		{"text of an error", Filter{Text: "MAY NOT"}, []string{"12 rejected tg:9 "}},
		{"since", Filter{Since: epoch.Add(3 * time.Millisecond)}, []string{"10 send_start tg:2 tg_message", "11 send_finish tg:2 tg_message", "12 rejected tg:9 "}},
		{"until", Filter{Until: epoch.Add(time.Millisecond)}, []string{"1 peer_connected tg:bot "}},
		{"since the future", Filter{Since: epoch.Add(time.Hour)}, []string{}},
		{"all together", Filter{Topic: "agent:*", Peer: "tg:1", Types: []protocol.MessageType{"tg_message"}, Events: []Event{SendFinish}, Status: "ok"}, []string{"5 send_finish tg:1 tg_message"}},
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

func TestPagesMeetWithoutHoleOrOverlap(t *testing.T) {
	s := newScript(t)
	for i := range 25 {
		s.message(protocol.TypeTGMessage, fmt.Sprintf("tg:%d", i%3), "agent:a", `{"text":"x"}`, "agent:a", "agent:b")
	}
	half := &script{t: t, now: s.now, n: 1000}
	for range 25 {
		half.message(protocol.TypeTGReply, "agent:a", "tg:1", `{"text":"y"}`, "tg:bot")
	}
	r := opened(t, s.written("one"), half.written("two"))
	var all []Entry
	if err := r.Each(t.Context(), Filter{}, func(e *Entry) error { all = append(all, *e); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(all) != 25*6+25*4 {
		t.Fatalf("%d rows", len(all))
	}
	for _, f := range []Filter{{}, {Types: []protocol.MessageType{"tg_message"}}, {Peer: "tg:1"}, {Events: []Event{SendFinish}}} {
		var want []Entry
		if err := r.Each(t.Context(), f, func(e *Entry) error { want = append(want, *e); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 7, 50, 100} {
			if n == 1 && len(want) > 60 {
				continue
			}
			var got []Entry
			var at Cursor
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

func TestRowsOfATargetOnAnotherBusKnowTheirMessage(t *testing.T) {
	here, there := newScript(t), newScript(t)
	here.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"x"}`)
	there.add(Row{Event: ProcessStart, MessageID: "msg_0001", Actor: "agent:a", Topic: "agent:a", Status: StatusStart})
	r := opened(t, there.written("there"), here.written("here"))
	rows, _, err := r.After(t.Context(), Filter{Types: []protocol.MessageType{"tg_message"}, Events: []Event{ProcessStart}}, nil, 10)
	if err != nil || len(rows) != 1 || rows[0].Type != "tg_message" || rows[0].Bus != "there" || rows[0].From != "tg:1" {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestEntriesAreJSONByTheNamesOfTheColumns(t *testing.T) {
	r, _ := chatLog(t)
	rows, _, err := r.After(t.Context(), Filter{Events: []Event{SendStart, PeerConnected}}, nil, 2)
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
	odd, err := json.Marshal(&Entry{Payload: []byte("not json")})
	if err != nil || !strings.Contains(string(odd), `"payload_json":"not json"`) {
		t.Errorf("%s, %v", odd, err)
	}
}

func TestALogThatIsNotThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	r := opened(t, path)
	if err := r.Check(t.Context()); !errors.Is(err, ErrNoLog) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("reading created it")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil { // it is being created
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); !errors.Is(err, ErrNoLog) {
		t.Errorf("%v", err)
	}
	if err := os.WriteFile(path, []byte("a diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(t.Context()); err == nil {
		t.Error("a diary was read as a log")
	}
}

func TestFollowSeesWhatComesAcrossRestartsAndReplacement(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	r := opened(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting, seen, done := make(chan error, 1), make(chan string), make(chan error, 1)
	go func() {
		done <- r.Follow(ctx, Filter{Events: []Event{SendStart}}, nil, func(err error) { waiting <- err }, func(rows []Entry) error {
			for _, e := range rows {
				seen <- e.MessageID
			}
			return nil
		})
	}()
	if err := <-waiting; !errors.Is(err, ErrNoLog) {
		t.Fatal(err)
	}
	for run := range 3 {
		w := NewWriter(path, nil)
		stop := running(t, w)
		for i := range 3 {
			w.Append(numbered(run*10+i), Row{At: time.Now().UnixMicro(), Event: PeerConnected, Actor: "x"})
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

// TestFollowWaitsForALock also when it takes longer than a reader waits by itself.
func TestFollowWaitsForALock(t *testing.T) {
	t.Parallel()
	path, conn := lockedLog(t)
	ctx, cancel := context.WithCancel(t.Context())
	waited, rows := 0, 0
	waiting := func(err error) {
		if waited++; !errors.Is(err, ErrLocked) {
			t.Errorf("it waits because of %v", err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	err := opened(t, path).Follow(ctx, Filter{}, nil, waiting, func(list []Entry) error {
		rows += len(list)
		cancel()
		return nil
	})
	if err != nil || waited != 1 || rows == 0 {
		t.Errorf("%v; it waited %d times and showed %d rows", err, waited, rows)
	}
}

// TestAReaderThatIsStoppedDoesNotWaitForALock: it ends with its context.
func TestAReaderThatIsStoppedDoesNotWaitForALock(t *testing.T) {
	t.Parallel()
	path, conn := lockedLog(t)
	defer conn.Close() //nolint:errcheck // it wrote nothing
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := opened(t, path).End(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("it waited, and then says %v", err)
	}
}

func TestReadersNeitherBlockTheWriterNorHoldItsLog(t *testing.T) {
	w, path, _ := started(t, nil)
	w.Append(numbered(0))
	mustSync(t, w)
	r := opened(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := r.Each(ctx, Filter{Text: "nowhere"}, func(*Entry) error { return nil }); err != nil && ctx.Err() == nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	payload := fmt.Appendf(nil, "%q", strings.Repeat("x", 4000))
	for i := range 3000 {
		row := numbered(i)
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

func TestAReadThatIsCutShortTakesNothing(t *testing.T) {
	s := newScript(t)
	for range 50 {
		s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{}`)
	}
	r := opened(t, s.written(""))
	p := &pager{source: r.sources[0], limit: 1000}
	ctx, cancel := context.WithCancel(t.Context())
	err := p.source.with(ctx, func(r *snapshot) {
		in := r.parts[0]
		v := r.open(in)
		cancel()
		for v.err == nil { // until the interrupt has come
			v.query("SELECT 1", nil, func(*sqlite.Stmt) bool { return true })
		}
		v.err = nil
		p.read(r, in, window{1, 100})
	})
	if !errors.Is(err, context.Canceled) || p.at != 0 {
		t.Errorf("after an interrupt: %v, place %d", err, p.at)
	}
	ctx, cancel = context.WithCancel(t.Context())
	var page []Entry
	err = p.source.with(ctx, func(r *snapshot) {
		page = p.read(r, r.parts[0], window{1, 100})
		cancel()
	})
	if err != nil || len(page) != 100 || p.at != 100 {
		t.Errorf("a page that was read before the end: %d rows, %v, place %d", len(page), err, p.at)
	}
}

// TestALogBeingCreatedIsNotForeign reads logs while they are created: each is not
// there yet, or there, and never taken for the database of something else.
func TestALogBeingCreatedIsNotForeign(t *testing.T) {
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
			r := Open(path)
			err := r.Check(t.Context())
			r.Close()
			if err == nil {
				break
			}
			if !errors.Is(err, ErrNoLog) {
				t.Fatal(err)
			}
		}
		if err := <-created; err != nil {
			t.Fatal(err)
		}
	}
}
