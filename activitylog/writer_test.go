package activitylog

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
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

// started runs a new writer until the test ends. A slow machine is waited for: what a stop
// leaves to the end of its program would go on beside the rest of the test.
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

// query returns the rows of an SQL query, each as its columns joined by '|', as
// any other program would read them.
func query(t testing.TB, path, sql string) []string {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var rows []string
	err = sqlitex.ExecuteTransient(conn, sql, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		columns := make([]string, s.ColumnCount())
		for i := range columns {
			columns[i] = s.ColumnText(i)
			if s.ColumnType(i) == sqlite.TypeNull {
				columns[i] = "NULL"
			}
		}
		rows = append(rows, strings.Join(columns, "|"))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func mustSync(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func numbered(i int) Row {
	return Row{At: time.Now().UnixMicro(), Event: SendStart, MessageID: fmt.Sprintf("msg_%08d", i), Status: StatusStart}
}

func TestRowsAreWrittenAsTheSchemaSays(t *testing.T) {
	w, path, stop := started(t, &Options{Bus: "east"})
	at := time.Date(2026, 2, 17, 12, 0, 0, 45000, time.UTC).UnixMicro()
	w.Append(
		Row{At: at, Event: SendStart, MessageID: "msg_1", RPCID: "7", Actor: "tg:42", Topic: "agent:a", Status: StatusStart, Payload: []byte(`{"text":"é|"}`)},
		Row{At: at + 1e6, Event: Rejected, MessageID: "msg_2", Error: "no"},
		Row{At: at + 2_000_001, Event: PeerConnected, Actor: "tg:42"},
	)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	got := query(t, path, "SELECT id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error, bus FROM activity_log ORDER BY id")
	want := []string{
		`1|2026-02-17T12:00:00.000045Z|send_start|msg_1|7|tg:42|agent:a|start|{"text":"é|"}|NULL|east`,
		`2|2026-02-17T12:00:01.000045Z|rejected|msg_2|NULL|NULL|NULL|NULL|NULL|no|east`,
		`3|2026-02-17T12:00:02.000046Z|peer_connected||NULL|tg:42|NULL|NULL|NULL|NULL|east`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := query(t, path, "SELECT typeof(payload_json), json_extract(payload_json, '$.text') FROM activity_log WHERE id = 1"); got[0] != "text|é|" {
		t.Errorf("payload_json is %s; want JSON text", got)
	}
}

func TestSchemaIsTheSpecificationsWithBusAtTheEnd(t *testing.T) {
	w, path, _ := started(t, nil)
	mustSync(t, w)
	w.Append(numbered(1))
	mustSync(t, w)
	got := query(t, path, "SELECT group_concat(name, ' ') FROM pragma_table_info('activity_log')")
	if want := "id ts event message_id rpc_id actor topic status payload_json error bus"; got[0] != want {
		t.Errorf("the columns are %s; want %s", got[0], want)
	}
	if got := query(t, path, "PRAGMA journal_mode"); got[0] != "wal" {
		t.Errorf("journal mode %s", got)
	}
}

func TestStopWritesEverythingInOrder(t *testing.T) {
	const publishers, each = 8, 500
	w, path, stop := started(t, nil)
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				row := Row{At: time.Now().UnixMicro(), Event: SendStart, MessageID: "m", Actor: fmt.Sprint(p), RPCID: fmt.Sprint(i)}
				if !w.TryAppend(row) {
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
	got := query(t, path, `SELECT count(*), count(DISTINCT actor || ':' || rpc_id), sum(ordered) FROM (
		SELECT actor, rpc_id, CAST(rpc_id AS INTEGER) = row_number() OVER (PARTITION BY actor ORDER BY id) - 1 AS ordered FROM activity_log)`)
	if want := fmt.Sprintf("%d|%[1]d|%[1]d", publishers*each); got[0] != want {
		t.Errorf("rows, distinct rows, rows in their sender's order: %s, want %s", got[0], want)
	}
}

func TestRowsAfterTheEndAreCountedNotQueued(t *testing.T) {
	w, _, stop := started(t, nil)
	w.Append(numbered(1))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.Append(numbered(2))
	if s := w.Stats(); s.Written != 1 || s.Lost != 1 || s.QueuedRows != 0 {
		t.Errorf("%+v", s)
	}
}

func TestAfterAStopTheFileIsWholeByItself(t *testing.T) {
	w, path, stop := started(t, nil)
	w.Append(numbered(1))
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
	if got := query(t, moved, "SELECT message_id FROM activity_log"); len(got) != 1 || got[0] != "msg_00000001" {
		t.Errorf("a copy of the file alone holds %s", got)
	}
}

func TestOnCommitSeesEveryRowWithItsID(t *testing.T) {
	var ids []int64
	var messages []string
	w, path, stop := started(t, &Options{OnCommit: func(first int64, rows []Row) {
		for i, r := range rows {
			ids = append(ids, first+int64(i))
			messages = append(messages, r.MessageID)
		}
	}})
	for i := range 2100 {
		w.Append(numbered(i))
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range ids {
		got = append(got, fmt.Sprintf("%d|%s", ids[i], messages[i]))
	}
	if diff := cmp.Diff(query(t, path, "SELECT id, message_id FROM activity_log ORDER BY id"), got); diff != "" {
		t.Error(diff)
	}
}

func TestGapRowIsTheDocumentedJSON(t *testing.T) {
	row := gapRow(gap{rows: 12, reason: `disk "full"`}, time.UnixMicro(5))
	var payload map[string]any
	if err := json.Unmarshal(row.Payload, &payload); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"lost": 12.0, "reason": `disk "full"`}
	if diff := cmp.Diff(want, payload); diff != "" {
		t.Error(diff)
	}
	if row.Event != LogGap || row.MessageID != "" || row.At != 5 {
		t.Errorf("%+v", row)
	}
}
