package activitylog

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

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"zombiezen.com/go/sqlite/sqlitex"
)

// sent returns the rows of one message as a bus appends them, with an unusual outcome now
// and then.
func sent(i int, at time.Time) []Row {
	id, of := fmt.Sprintf("msg_%06d", i), &Sending{}
	row := func(event Event, rpcID, actor, status, payload, text string) Row {
		return Row{At: at.UnixMicro() + int64(event), Event: event, MessageID: id, RPCID: rpcID, Actor: actor, Topic: "agent:a", Status: status, Payload: []byte(payload), Error: text, Of: of}
	}
	rows := []Row{row(SendStart, "07", "tg:1", StatusStart, fmt.Sprintf(`{"messageId":%q,"type":"tg_message","from":"tg:1"}`, id), "")}
	addressee := `,"addressee":"ok"}`
	switch i % 5 {
	case 0:
		return append(rows, row(SendFinish, "07", "tg:1", StatusNoSubscriber, fmt.Sprintf(`{"accepted":true,"messageId":%q,"deliveredTo":0}`, id), ""))
	case 1:
		addressee = `,"addressee":"failed","failures":[]}`
	case 2:
		addressee = "}"
	}
	return append(rows,
		row(ProcessStart, "12", "agent:a", StatusStart, "", ""),
		row(ProcessStart, "a-1", "log:x", StatusStart, "", ""),
		row(ProcessFinish, "12", "agent:a", StatusOK, `{"processed":true}`, ""),
		row(ProcessFinish, "a-1", "log:x", string(protocol.OutcomeTimeout), "", "no answer"),
		row(SendFinish, "07", "tg:1", StatusOK, fmt.Sprintf(`{"accepted":true,"messageId":%q,"deliveredTo":2%s`, id, addressee), ""))
}

// wantEntries are the rows as they must be read.
func wantEntries(rows []Row) (list []string) {
	for i := range rows {
		e := rows[i].Entry(int64(i + 1))
		list = append(list, plain(&e))
	}
	return list
}

func plain(e *Entry) string {
	return strings.Join([]string{fmt.Sprint(e.ID), e.TS, e.Event, e.MessageID, e.RPCID, e.Actor, e.Topic, e.Status, string(e.Payload), e.Error}, "|")
}

// segmented writes messages to a log of small segments, whose rows it returns.
func segmented(t *testing.T, messages int, opts *Options) (path string, rows []Row) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data", "activity.db")
	var commits [][]Row
	for i := range messages {
		list := sent(i, time.Now())
		rows = append(rows, list...)
		if i%3 > 0 {
			commits = append(commits, list)
			continue
		}
		for _, r := range list { // each row may be the last of its file
			commits = append(commits, []Row{r})
		}
	}
	store(t, path, opts, commits...)
	return path, rows
}

// store writes commits to the log at path as a Writer does, but seals the live file as soon
// as it is full: a Writer does when the disk lets it.
func store(t *testing.T, path string, opts *Options, commits ...[]Row) {
	t.Helper()
	s, err := openDatabase(path, &NewWriter(path, opts).opts)
	if err != nil {
		t.Fatal(err)
	}
	d := s.(*database)
	for _, rows := range commits {
		for len(rows) > 0 {
			d.shrink = -time.Hour // or a busy machine makes two commits of one
			_, n, err := d.write(rows)
			if err := errors.Join(err, d.sync()); err != nil {
				t.Fatal(err)
			}
			rows = rows[n:]
		}
		if !d.full() {
			continue
		}
		for !d.due() {
			if err := d.awaitCheckpoint(); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.rotate(); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(d.close(), publishCheckpoint(path)); err != nil {
		t.Fatal(err)
	}
}

// TestSegmentsMeet: whatever file a row is in, it is read as it was appended, under the id
// that it always had, by pages, by message, and by SQL; also where the first row of its
// message is in an older file.
func TestSegmentsMeet(t *testing.T) {
	path, rows := segmented(t, 40, &Options{SegmentRows: 7, Bus: "east"})
	numbers := sealed(t, path)
	if len(numbers) < 20 {
		t.Fatalf("sealed are %v", numbers)
	}
	r := opened(t, path)
	var got, backward []string
	if err := r.Each(t.Context(), Filter{}, func(e *Entry) error {
		got = append(got, plain(e))
		if e.Type != "tg_message" || e.From != "tg:1" || e.Bus != "east" {
			t.Errorf("row %d is of type %q from %q, bus %q", e.ID, e.Type, e.From, e.Bus)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantEntries(rows), got); diff != "" {
		t.Error(diff)
	}
	for at := (Cursor)(nil); ; {
		page, next, err := r.Before(t.Context(), Filter{}, at, 9)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range slices.Backward(page) {
			backward = append(backward, plain(&page[i]))
		}
		at = next
	}
	slices.Reverse(backward)
	if diff := cmp.Diff(got, backward); diff != "" {
		t.Error(diff)
	}
	for i := range 40 {
		m, err := r.Message(t.Context(), fmt.Sprintf("msg_%06d", i))
		if want := len(sent(i, time.Now())); err != nil || len(m.Rows) != want {
			t.Errorf("message %d has %d rows (%v); want %d", i, len(m.Rows), err, want)
		}
	}
	var sql []string
	for _, n := range append(numbers, 0) {
		file := segmentPath(path, n)
		if n == 0 {
			file = path
		}
		for _, line := range query(t, file, "SELECT id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error FROM activity_log ORDER BY id") {
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

func TestASegmentEndsByItsBytesAndItsAge(t *testing.T) {
	for _, opts := range []*Options{{SegmentBytes: 1}, {SegmentAge: time.Nanosecond}} {
		path, rows := segmented(t, 20, opts)
		numbers, err := segmentNumbers(path)
		if err != nil || len(numbers) < 1 {
			t.Errorf("%+v: segments %v, %v", opts, numbers, err)
		}
		if got, _, err := opened(t, path).After(t.Context(), Filter{}, nil, 1000); err != nil || len(got) != len(rows) {
			t.Errorf("%d rows of %d, %v", len(got), len(rows), err)
		}
	}
}

// TestASealedFileIsNeverWrittenAgain: it has what it is searched by, and a checksum that sha256sum reads.
func TestASealedFileIsNeverWrittenAgain(t *testing.T) {
	path, _ := segmented(t, 20, &Options{SegmentRows: 20})
	k := &compactor{path: path}
	if err := k.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := segmentPath(path, 1)
	if got := query(t, first, "SELECT count(*) FROM sqlite_master WHERE name IN ('lookup', 'about')"); got[0] != "2" {
		t.Errorf("%s tables", got)
	}
	if left, _ := filepath.Glob(first + "-*"); len(left) > 0 {
		t.Errorf("beside it: %q", left)
	}
	check := exec.Command("sha256sum", "--check", filepath.Base(first)+checksumSuffix)
	check.Dir = filepath.Dir(path)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

func TestASealIsTold(t *testing.T) {
	var lines bytes.Buffer
	log := zerolog.New(&lines)
	w, path, stop := started(t, &Options{SegmentRows: 6, Log: &log})
	for i := 0; len(sealed(t, path)) < 1; i++ {
		w.Append(sent(i, epoch.Add(time.Duration(i)*time.Minute))...)
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

func TestPruneTakesWholeFiles(t *testing.T) {
	w, path, stop := started(t, &Options{SegmentRows: 6})
	for i := 0; len(sealed(t, path)) < 2; i++ { // a file ends when it is ready to, some rows after its sixth
		w.Append(sent(i, epoch.Add(time.Duration(i)*time.Minute))...)
		mustSync(t, w)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	last, err := time.Parse(time.RFC3339, query(t, segmentPath(path, 1), "SELECT max(ts) FROM activity_log")[0])
	if err != nil {
		t.Fatal(err)
	}
	cut := last.Add(time.Second)
	everything := func() (list []Entry) {
		if err := opened(t, path).Each(t.Context(), Filter{}, func(e *Entry) error {
			list = append(list, *e)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return list
	}
	all := everything()
	reader := opened(t, path) // it holds a file that leaves
	var held []Entry
	err = reader.sources[0].with(t.Context(), func(l *snapshot) {
		l.open(l.parts[0])
		removed, err := Prune(t.Context(), path, cut)
		if err != nil || removed.Segments == 0 || removed.Rows == 0 || removed.Bytes == 0 {
			t.Errorf("%+v, %v", removed, err)
		}
		held = (&pager{limit: 100}).read(l, l.parts[0], window{1, 100})
	})
	if err != nil || len(held) == 0 {
		t.Errorf("a reader that held a file reads %d rows, %v", len(held), err)
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
	if _, err := Prune(t.Context(), path, epoch.Add(240*time.Hour)); err != nil {
		t.Fatal(err)
	}
	again := NewWriter(path, nil) // ids are not used again
	running(t, again)
	again.Append(numbered(1))
	mustSync(t, again)
	var rows []string // in the live file, or in one that was just rotated
	for _, e := range everything() {
		if e.ID > int64(len(all)) && !e.Is(LogPruned) {
			rows = append(rows, e.MessageID)
		}
	}
	if len(rows) != 1 || rows[0] != numbered(1).MessageID {
		t.Errorf("the rows after %d are %q", len(all), rows)
	}
}

// sealed returns the numbers of the sealed files.
func sealed(t *testing.T, path string) []int {
	t.Helper()
	numbers, err := segmentNumbers(path)
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func TestPruneOfWhatIsNoLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if _, err := Prune(t.Context(), path, time.Now()); !errors.Is(err, ErrNoLog) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was created")
	}
}

func TestWhatIsKeptIsReadAndSaid(t *testing.T) {
	for text, want := range map[string]string{
		"forever": "forever", "90d": "90 days", "36h": "36h0m0s", "20GiB": "20 GiB", "500MB": "476.837158203125 MiB", "1KiB": "1 KiB", "0.5KiB": "512 bytes", "3TiB": "3 TiB", "1025KiB": "1.0009765625 MiB", "2KB": "1.953125 KiB", "1s": "1s",
	} {
		k, err := ParseRetention(text)
		if err != nil || k.String() != want {
			t.Errorf("%s is %s, %v; want %s", text, k, err, want)
		}
	}
	for _, text := range []string{"", "0", "0d", "-1d", "0GiB", "-5GiB", "GiB", "NaNGiB", "always", "1e30TiB"} {
		if k, err := ParseRetention(text); err == nil {
			t.Errorf("%q is %+v", text, k)
		}
	}
}

func TestBytesAreKept(t *testing.T) {
	path, _ := segmented(t, 20, &Options{SegmentRows: 7})
	k := &compactor{path: path}
	if err := k.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, _ := segmentNumbers(path)
	info, err := os.Stat(segmentPath(path, before[0]))
	if err != nil {
		t.Fatal(err)
	}
	k.retention.Bytes = 4 * info.Size()
	if err := k.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, err := segmentNumbers(path)
	if err != nil || len(after) == 0 || len(after) > 3 || !slices.Equal(after, before[len(before)-len(after):]) {
		t.Errorf("segments %v of %v, %v", after, before, err)
	}
}

// TestWhenAFileIsFull: with as many rows, bytes or as much time as it may have, and never
// without a row.
func TestWhenAFileIsFull(t *testing.T) {
	s, err := openDatabase(filepath.Join(t.TempDir(), "activity.db"), testOptions("bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // the test looks at its bounds
	d := s.(*database)
	if _, _, err := d.write([]Row{{Event: SendStart, MessageID: "m-1"}, {Event: SendStart, MessageID: "m-2"}}); err != nil {
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

// TestAFileIsDueOnceACheckpointWasMade of its rows, which runs beside the writer; and not so soon
// after a reader was in the way.
func TestAFileIsDueOnceACheckpointWasMade(t *testing.T) {
	s, err := openDatabase(filepath.Join(t.TempDir(), "activity.db"), testOptions("bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // the test looks at what is due
	d := s.(*database)
	if _, _, err := d.write([]Row{{Event: SendStart, MessageID: "m-1"}}); err != nil {
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

// TestWhichFilesAreSealedOnes by their names: at least six digits, and what lies beside them.
func TestWhichFilesAreSealedOnes(t *testing.T) {
	for name, want := range map[string]bool{
		"activity-000001.db": true, "activity-000001.db.sha256": true, "activity-1000000.db": true, "activity-2147483647.db": true,
		"activity-2147483648.db": false, "activity-00001.db": false, "activity-00000a.db": false, "activity.db": false, "other-000001.db": false,
		"activity.db-wal": false, "activity-000001": true, "activity--00001.db": false,
	} {
		if got := IsSealed("/data/activity.db", name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
