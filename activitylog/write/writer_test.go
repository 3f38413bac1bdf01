package write

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"

	"github.com/google/go-cmp/cmp"
)

// running starts w and returns a function that stops it and returns Run's error.
// The test fails when it is not stopped cleanly.
func running(t testing.TB, w *Writer) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// started runs a new writer until the test ends. The test waits for a slow machine: work that a
// stop leaves to the end of its program would continue during the rest of the test.
func started(t testing.TB, opts *Options) (w *Writer, path string, stop func() error) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data", "activity.db")
	w = NewWriter(path, opts)
	if opts == nil || opts.StopTimeout == 0 {
		w.opts.StopTimeout = time.Minute
	}
	return w, path, running(t, w)
}

// testOptions are the Options of a Writer of a bus.
func testOptions(bus string) *Options { return &NewWriter("", &Options{Bus: bus}).opts }

func mustSync(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRows_MatchSchema(t *testing.T) {
	w, path, stop := started(t, &Options{Bus: "east"})
	at := time.Date(2026, 2, 17, 12, 0, 0, 45000, time.UTC).UnixMicro()
	w.Append(
		activitylog.Row{At: at, Event: activitylog.SendStart, MessageID: "msg_1", RPCID: "7", Actor: "tg:42", Topic: "agent:a", Status: activitylog.StatusStart, Payload: []byte(`{"text":"é|"}`)},
		activitylog.Row{At: at + 1e6, Event: activitylog.Rejected, MessageID: "msg_2", Error: "no"},
		activitylog.Row{At: at + 2_000_001, Event: activitylog.PeerConnected, Actor: "tg:42"},
	)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := logtest.Query(t, path, "SELECT id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error, bus FROM activity_log ORDER BY id")
	want := []string{
		`1|2026-02-17T12:00:00.000045Z|send_start|msg_1|7|tg:42|agent:a|start|{"text":"é|"}|NULL|east`,
		`2|2026-02-17T12:00:01.000045Z|rejected|msg_2|NULL|NULL|NULL|NULL|NULL|no|east`,
		`3|2026-02-17T12:00:02.000046Z|peer_connected||NULL|tg:42|NULL|NULL|NULL|NULL|east`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := logtest.Query(t, path, "SELECT typeof(payload_json), json_extract(payload_json, '$.text') FROM activity_log WHERE id = 1"); got[0] != "text|é|" {
		t.Errorf("payload_json is %s; want JSON text", got)
	}
}

func TestSchema_IsSpecificationPlusBus(t *testing.T) {
	w, path, _ := started(t, nil)
	mustSync(t, w)
	w.Append(logtest.Numbered(1))
	mustSync(t, w)
	got := logtest.Query(t, path, "SELECT group_concat(name, ' ') FROM pragma_table_info('activity_log')")
	if want := "id ts event message_id rpc_id actor topic status payload_json error bus"; got[0] != want {
		t.Errorf("the columns are %s; want %s", got[0], want)
	}
	if got := logtest.Query(t, path, "PRAGMA journal_mode"); got[0] != "wal" {
		t.Errorf("journal mode %s", got)
	}
}

func TestStop_WritesEverythingInOrder(t *testing.T) {
	const publishers, each = 8, 500
	w, path, stop := started(t, nil)
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				row := activitylog.Row{At: time.Now().UnixMicro(), Event: activitylog.SendStart, MessageID: "m", Actor: fmt.Sprint(p), RPCID: fmt.Sprint(i)}
				if !w.TryAppend(0, row) {
					w.Append(row)
				}
			}
		})
	}
	wg.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	s := w.Stats()
	if s.Lost != 0 || s.Written != publishers*each || s.QueuedRows != 0 || s.QueuedBytes != 0 {
		t.Fatalf("after a clean stop: %+v", s)
	}
	got := logtest.Query(t, path, `SELECT count(*), count(DISTINCT actor || ':' || rpc_id), sum(ordered) FROM (
		SELECT actor, rpc_id, CAST(rpc_id AS INTEGER) = row_number() OVER (PARTITION BY actor ORDER BY id) - 1 AS ordered FROM activity_log)`)
	if want := fmt.Sprintf("%d|%[1]d|%[1]d", publishers*each); got[0] != want {
		t.Errorf("rows, distinct rows, rows in their sender's order: %s, want %s", got[0], want)
	}
}

func TestAppend_AfterTheEndCountsLoss(t *testing.T) {
	w, _, stop := started(t, nil)
	w.Append(logtest.Numbered(1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.Append(logtest.Numbered(2))
	if s := w.Stats(); s.Written != 1 || s.Lost != 1 || s.QueuedRows != 0 {
		t.Errorf("%+v", s)
	}
}

func TestStop_LeavesCompleteFile(t *testing.T) {
	w, path, stop := started(t, nil)
	w.Append(logtest.Numbered(1))
	mustSync(t, w)
	r := opened(t, path) // a reader that stays connected
	if err := r.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(moved, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := logtest.Query(t, moved, "SELECT message_id FROM activity_log"); len(got) != 1 || got[0] != "msg_00000001" {
		t.Errorf("a copy of the file alone holds %s", got)
	}
}

func TestOnCommit_SeesEveryRowWithID(t *testing.T) {
	var ids []int64
	var messages []string
	w, path, stop := started(t, &Options{OnCommit: func(first int64, rows []activitylog.Row) {
		for i, r := range rows {
			ids = append(ids, first+int64(i))
			messages = append(messages, r.MessageID)
		}
	}})
	for i := range 2100 {
		w.Append(logtest.Numbered(i))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range ids {
		got = append(got, fmt.Sprintf("%d|%s", ids[i], messages[i]))
	}
	if diff := cmp.Diff(logtest.Query(t, path, "SELECT id, message_id FROM activity_log ORDER BY id"), got); diff != "" {
		t.Error(diff)
	}
}

func TestGapRow_IsDocumentedJSON(t *testing.T) {
	row := gapRow(gap{rows: 12, reason: `disk "full"`}, time.UnixMicro(5))
	var payload map[string]any
	if err := json.Unmarshal(row.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"lost": 12.0, "reason": `disk "full"`}
	if diff := cmp.Diff(want, payload); diff != "" {
		t.Error(diff)
	}
	if row.Event != activitylog.LogGap || row.MessageID != "" || row.At != 5 {
		t.Errorf("%+v", row)
	}
}
