package write

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestSegments_ReadAsOneLog reads each row as it was appended and under its id, by page,
// by message and by SQL, even if the first row of its message is in an older file.
func TestSegments_ReadAsOneLog(t *testing.T) {
	path, rows := segmented(t, 40, &Options{SegmentRows: 7, Bus: "east"})
	numbers := logtest.Sealed(t, path)
	if len(numbers) < 20 {
		t.Fatalf("sealed are %v", numbers)
	}
	r := opened(t, path)
	var got, backward []string
	if err := r.Each(t.Context(), read.Filter{}, func(e *activitylog.Entry) error {
		got = append(got, logtest.Plain(e))
		if e.Type != "tg_message" || e.From != "tg:1" || e.Bus != "east" {
			t.Errorf("row %d is of type %q from %q, bus %q", e.ID, e.Type, e.From, e.Bus)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(logtest.WantEntries(rows), got); diff != "" {
		t.Error(diff)
	}
	for at := (read.Cursor)(nil); ; {
		page, next, err := r.Before(t.Context(), read.Filter{}, at, 9)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range slices.Backward(page) {
			backward = append(backward, logtest.Plain(&page[i]))
		}
		at = next
	}
	slices.Reverse(backward)
	if diff := cmp.Diff(got, backward); diff != "" {
		t.Error(diff)
	}
	for i := range 40 {
		m, err := r.Message(t.Context(), fmt.Sprintf("msg_%06d", i))
		if want := len(logtest.Sent(i, time.Now())); err != nil || len(m.Rows) != want {
			t.Errorf("message %d has %d rows (%v); want %d", i, len(m.Rows), err, want)
		}
	}
	var sql []string
	for _, n := range append(numbers, 0) {
		file := segment.Path(path, n)
		if n == 0 {
			file = path
		}
		for _, line := range logtest.Query(t, file, "SELECT id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error FROM activity_log ORDER BY id") {
			sql = append(sql, strings.ReplaceAll(line, "NULL", ""))
		}
	}
	if diff := cmp.Diff(got, sql); diff != "" {
		t.Error(diff)
	}
	if v := verdict(t, path); !v.OK() || v.Rows != int64(len(rows)) {
		t.Errorf("%+v", v)
	}
}

func TestSegment_EndsByBytesAndAge(t *testing.T) {
	for _, opts := range []*Options{{SegmentBytes: 1}, {SegmentAge: time.Nanosecond}} {
		path, rows := segmented(t, 20, opts)
		numbers, err := segment.Numbers(path)
		if err != nil || len(numbers) < 1 {
			t.Errorf("%+v: segments %v, %v", opts, numbers, err)
		}
		if got, _, err := opened(t, path).After(t.Context(), read.Filter{}, nil, 1000); err != nil || len(got) != len(rows) {
			t.Errorf("%d rows of %d, %v", len(got), len(rows), err)
		}
	}
}

// TestSeal_FileIsNeverWrittenAgain also checks the lookup tables, and the checksum with sha256sum.
func TestSeal_FileIsNeverWrittenAgain(t *testing.T) {
	path, _ := segmented(t, 20, &Options{SegmentRows: 20})
	k := &compactor{path: path}
	if err := k.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := segment.Path(path, 1)
	if got := logtest.Query(t, first, "SELECT count(*) FROM sqlite_master WHERE name IN ('lookup', 'about')"); got[0] != "2" {
		t.Errorf("%s tables", got)
	}
	if left, _ := filepath.Glob(first + "-*"); len(left) > 0 {
		t.Errorf("beside it: %q", left)
	}
	check := exec.Command("sha256sum", "--check", filepath.Base(first)+segment.ChecksumSuffix)
	check.Dir = filepath.Dir(path)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

func TestSeal_IsLogged(t *testing.T) {
	var lines bytes.Buffer
	log := zerolog.New(&lines)
	w, path, stop := started(t, &Options{SegmentRows: 6, Log: &log})
	for i := 0; len(logtest.Sealed(t, path)) < 1; i++ {
		w.Append(logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Minute))...)
		mustSync(t, w)
	}
	if err := errors.Join(stop(), (&compactor{path: path, log: &log}).compact(t.Context()), (&compactor{path: path, log: &log}).compact(t.Context())); err != nil {
		t.Fatal(err)
	}
	// A stop may cut the first try short.
	if told := lines.String(); !strings.Contains(told, "sealing a file") || strings.Count(told, `"took_ms":`) != 1 {
		t.Errorf("told:\n%s", told)
	}
}

func TestPrune_RemovesWholeFiles(t *testing.T) {
	w, path, stop := started(t, &Options{SegmentRows: 6})
	for i := 0; len(logtest.Sealed(t, path)) < 2; i++ { // a file ends when it is ready to, some rows after its sixth
		w.Append(logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Minute))...)
		mustSync(t, w)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, err := time.Parse(time.RFC3339, logtest.Query(t, segment.Path(path, 1), "SELECT max(ts) FROM activity_log")[0])
	if err != nil {
		t.Fatal(err)
	}
	cut := last.Add(time.Second)
	everything := func() (list []activitylog.Entry) {
		if err := opened(t, path).Each(t.Context(), read.Filter{}, func(e *activitylog.Entry) error {
			list = append(list, *e)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	all := everything()
	reader := opened(t, path) // it holds a file that is removed
	held := int64(0)
	err = reader.Logs()[0].With(t.Context(), func(l *segment.Snapshot) {
		v := l.Open(l.Parts[0])
		removed, err := Prune(t.Context(), path, cut)
		if err != nil || removed.Segments == 0 || removed.Rows == 0 || removed.Bytes == 0 {
			t.Errorf("%+v, %v", removed, err)
		}
		held = v.Rows()
	})
	if err != nil || held == 0 {
		t.Errorf("a reader that held a file reads %d rows, %v", held, err)
	}
	left := everything()
	if len(left) == 0 || left[len(left)-1].ID != all[len(all)-1].ID {
		t.Fatalf("%d rows are left", len(left))
	}
	for _, e := range all[:len(all)-len(left)] {
		if !e.Time().Before(cut) {
			t.Errorf("row %d from %s was deleted", e.ID, e.TS)
		}
	}
	if v := verdict(t, path); !v.OK() {
		t.Errorf("%+v", v)
	}
	if _, err := Prune(t.Context(), path, logtest.Epoch.Add(240*time.Hour)); err != nil {
		t.Fatal(err)
	}
	again := NewWriter(path, nil) // ids are not used again
	running(t, again)
	again.Append(logtest.Numbered(1))
	mustSync(t, again)
	var rows []string // in the live file, or in one that was just rotated
	for _, e := range everything() {
		if e.ID > int64(len(all)) && !e.Is(activitylog.LogPruned) {
			rows = append(rows, e.MessageID)
		}
	}
	if len(rows) != 1 || rows[0] != logtest.Numbered(1).MessageID {
		t.Errorf("the rows after %d are %q", len(all), rows)
	}
}

func TestPrune_RefusesOtherFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if _, err := Prune(t.Context(), path, time.Now()); !errors.Is(err, activitylog.ErrNoLog) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was created")
	}
}

func TestRetention_ParseAndString(t *testing.T) {
	for text, want := range map[string]string{
		"forever": "forever", "90d": "90 days", "36h": "36h0m0s", "20GiB": "20 GiB", "500MB": "476.837158203125 MiB", "1KiB": "1 KiB", "0.5KiB": "512 bytes", "3TiB": "3 TiB", "1025KiB": "1.0009765625 MiB", "2KB": "1.953125 KiB", "1s": "1s",
	} {
		k, err := activitylog.ParseRetention(text)
		if err != nil || k.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, k, err, want)
		}
	}
	for _, text := range []string{"", "0", "0d", "-1d", "0GiB", "-5GiB", "GiB", "NaNGiB", "always", "1e30TiB"} {
		if k, err := activitylog.ParseRetention(text); err == nil {
			t.Errorf("%q is %+v", text, k)
		}
	}
}

func TestRetention_ByBytes(t *testing.T) {
	path, _ := segmented(t, 20, &Options{SegmentRows: 7})
	k := &compactor{path: path}
	if err := k.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, _ := segment.Numbers(path)
	info, err := os.Stat(segment.Path(path, before[0]))
	if err != nil {
		t.Fatal(err)
	}
	k.retention.Bytes = 4 * info.Size()
	if err := k.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := segment.Numbers(path)
	if err != nil || len(after) == 0 || len(after) > 3 || !slices.Equal(after, before[len(before)-len(after):]) {
		t.Errorf("segments %v of %v, %v", after, before, err)
	}
}

// TestFull_ByRowsBytesOrAge checks that a file is full when it reaches a bound, and never
// without a row.
func TestFull_ByRowsBytesOrAge(t *testing.T) {
	s, err := openDatabase(filepath.Join(t.TempDir(), "activity.db"), testOptions("bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // the test looks at its bounds
	d := s.(*database)
	if _, _, err := d.write([]activitylog.Row{{Event: activitylog.SendStart, MessageID: "m-1"}, {Event: activitylog.SendStart, MessageID: "m-2"}}); err != nil {
		t.Fatal(err)
	}
	bytes, err := sqlitex.ResultInt64(d.pages)
	if err != nil {
		t.Fatal(err)
	}
	d.firstRowAt = time.Now().Add(-time.Hour).UnixMicro()
	const many, long = 1 << 40, 1000 * time.Hour
	for _, c := range []struct {
		rows, bytes int64
		age         time.Duration
		stored      int64
		want        bool
	}{
		{many, many, long, 2, false},
		{2, many, long, 2, true},
		{3, many, long, 2, false},
		{many, bytes, long, 2, true},
		{many, bytes + 1, long, 2, false},
		{many, many, time.Hour, 2, true},
		{many, many, 2 * time.Hour, 2, false},
		{0, 0, 0, 0, false},
		{1, 1, 1, 1, true},
	} {
		d.opts.SegmentRows, d.opts.SegmentBytes, d.opts.SegmentAge, d.rows = c.rows, c.bytes, c.age, c.stored
		if got := d.full(); got != c.want {
			t.Errorf("%d rows of at most %d, %d bytes of %d and an hour of %v: full is %v", c.stored, c.rows, bytes, c.bytes, c.age, got)
		}
	}
}

// TestRotation_WaitsForCheckpoint keeps the file until its checkpoint, which runs concurrently
// with the writer, has ended, and longer if a reader was in the way.
func TestRotation_WaitsForCheckpoint(t *testing.T) {
	s, err := openDatabase(filepath.Join(t.TempDir(), "activity.db"), testOptions("bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // the test looks at what is due
	d := s.(*database)
	if _, _, err := d.write([]activitylog.Row{{Event: activitylog.SendStart, MessageID: "m-1"}}); err != nil {
		t.Fatal(err)
	}
	began, end := make(chan struct{}, 2), make(chan struct{})
	d.checkpoint = func(string) error {
		began <- struct{}{}
		<-end
		return nil
	}
	due := func(what string, want bool) {
		t.Helper()
		if got := d.due(); got != want {
			t.Errorf("%s: due is %v", what, got)
		}
	}
	due("one row of many", false)
	d.opts.SegmentRows = 1
	due("before its checkpoint", false)
	<-began
	due("while that runs", false)
	close(end)
	for len(d.background) == 0 {
		runtime.Gosched()
	}
	due("after it", true)
	d.lastAttempt = time.Now().Add(time.Hour)
	due("after a reader was in the way", false)
	d.lastAttempt = time.Now().Add(-sealEvery)
	due("a second later", true)
	if len(began) != 0 {
		t.Error("another checkpoint began")
	}
}

// TestIsSealed distinguishes sealed files, whose names have at least six digits, from
// the files beside them.
func TestIsSealed(t *testing.T) {
	for name, want := range map[string]bool{
		"activity-000001.db": true, "activity-000001.db.sha256": true, "activity-1000000.db": true, "activity-2147483647.db": true,
		"activity-2147483648.db": false, "activity-00001.db": false, "activity-00000a.db": false, "activity.db": false, "other-000001.db": false,
		"activity.db-wal": false, "activity-000001": true, "activity--00001.db": false,
	} {
		if got := read.IsSealed("/data/activity.db", name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
