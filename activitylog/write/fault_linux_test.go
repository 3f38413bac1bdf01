package write

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// failureSignal is a logger that signals when the writer reports that it cannot write.
type failureSignal struct {
	once   sync.Once
	failed chan struct{}
}

func newFailureSignal() *failureSignal { return &failureSignal{failed: make(chan struct{})} }

func (a *failureSignal) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("writing failed")) {
		a.once.Do(func() { close(a.failed) })
	}
	return len(line), nil
}

func (a *failureSignal) log() *zerolog.Logger {
	log := zerolog.New(a)
	return &log
}

// overflow appends twice as many rows as the queue of 100 takes. It returns how many
// it appended.
func overflow(w *Writer, payload string) int {
	for i := range 200 {
		row := logtest.Numbered(i)
		row.Payload = []byte(payload)
		w.Append(row)
	}
	return 200
}

// checkGap verifies that what was appended is in the log or counted by gaps.
func checkGap(t *testing.T, w *Writer, path string, appended int, reason string) {
	t.Helper()
	mustSync(t, w)
	s := w.Stats()
	if s.Failing || s.Lost == 0 {
		t.Errorf("after the fault: %+v", s)
	}
	got := logtest.Query(t, path, `SELECT count(*) FILTER (WHERE event = 'send_start'),
		sum(json_extract(payload_json, '$.lost')) FILTER (WHERE event = 'log_gap') FROM activity_log`)
	if want := fmt.Sprintf("%d|%d", int64(appended)-s.Lost, s.Lost); got[0] != want {
		t.Errorf("rows in the log, rows counted as lost: %s, want %s", got[0], want)
	}
	reasons := logtest.Query(t, path, `SELECT DISTINCT json_extract(payload_json, '$.reason') FROM activity_log WHERE event = 'log_gap'`)
	if !strings.Contains(strings.Join(reasons, "\n"), reason) {
		t.Errorf("the gap says %q; want %q in it", reasons, reason)
	}
	if got := logtest.Query(t, path, "PRAGMA integrity_check"); got[0] != "ok" {
		t.Errorf("integrity: %s", got)
	}
}

func TestWriter_OutlivesLockedDatabase(t *testing.T) {
	t.Parallel()
	w, path, _ := started(t, &Options{QueueRows: 100})
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	other, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := sqlitex.ExecuteTransient(other, "BEGIN EXCLUSIVE", nil); err != nil {
		t.Fatal(err)
	}
	appended := 1 + overflow(w, `{}`)
	if s := w.Stats(); s.Lost == 0 || s.QueuedRows > 100 {
		t.Errorf("while locked: %+v", s)
	}
	if err := sqlitex.ExecuteTransient(other, "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	checkGap(t, w, path, appended, "locked")
}

// mountTemporary mounts a small tmpfs, or skips the test.
func mountTemporary(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a file system of %s cannot be mounted here (%v); run as root to test a full disk", size, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestWriter_OutlivesFullDisk(t *testing.T) {
	t.Parallel()
	dir := mountTemporary(t, "1m")
	path := filepath.Join(dir, "activity.db")
	failure := newFailureSignal()
	w := NewWriter(path, &Options{QueueRows: 100, Log: failure.log()})
	running(t, w)
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	for _, err := os.Stat(path + segment.PreparedSuffix); err != nil; _, err = os.Stat(path + segment.PreparedSuffix) {
		runtime.Gosched() // the next file takes space, too, and briefly more of it
	}
	filler := filepath.Join(dir, "ballast")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	appended := 1 + overflow(w, `"`+strings.Repeat("x", 1000)+`"`) // more than fits into the write-ahead log
	<-failure.failed
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	checkGap(t, w, path, appended, "full")
}

// TestCreate_LeavesNoTornFile fills the disk at each step of creating a segment: the file appears
// complete, or not at all and then once there is room.
func TestCreate_LeavesNoTornFile(t *testing.T) {
	t.Parallel()
	dir := mountTemporary(t, "4k")
	resize := func(size string) {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size="+size); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "activity.db")
	failures := 0
	for pages := 1; ; pages++ {
		resize(fmt.Sprintf("%dk", 4*pages))
		failed := makeReady(path)
		if failed != nil {
			failures++
			resize("4m")
			if err := makeReady(path); err != nil {
				t.Fatalf("with %d pages free: %v, and with enough: %v", pages, failed, err)
			}
		}
		if got := logtest.Query(t, path, "PRAGMA integrity_check"); got[0] != "ok" {
			t.Fatalf("with %d pages free: %v, and the file is damaged: %s", pages, failed, got)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "*.new*")); err != nil || len(left) > 0 {
			t.Errorf("with %d pages free: %v stay beside the file (%v)", pages, left, err)
		}
		for _, end := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if failed == nil {
			break
		}
	}
	if failures == 0 {
		t.Error("the disk was never full")
	}
}

// TestReader_WorksOnFullDisk also covers a log without a running bus, and rows that
// a bus writes later.
func TestReader_WorksOnFullDisk(t *testing.T) {
	dir := mountTemporary(t, "512k")
	path := filepath.Join(dir, "activity.db")
	write := func() {
		w := NewWriter(path, nil)
		stop := running(t, w)
		w.Append(logtest.Numbered(0))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	write()
	filler := filepath.Join(dir, "ballast")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	r := opened(t, path)
	for want := 1; want <= 2; want++ {
		rows, _, err := r.After(t.Context(), read.Filter{}, nil, 10)
		if err != nil || len(rows) != want {
			t.Errorf("%d rows, %v; want %d", len(rows), err, want)
		}
		if want == 1 {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			write()
		}
	}
}

func TestWriter_OutlivesReadOnlyFileSystem(t *testing.T) {
	dir := mountTemporary(t, "4m")
	path := filepath.Join(dir, "activity.db")
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, "size=4m"); err != nil {
		t.Fatal(err)
	}
	failure := newFailureSignal()
	w := NewWriter(path, &Options{QueueRows: 100, Log: failure.log()})
	running(t, w)
	<-failure.failed
	appended := overflow(w, `{}`)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=4m"); err != nil {
		t.Fatal(err)
	}
	checkGap(t, w, path, appended, "read-only")
}

func TestWriter_LeavesForeignFileUntouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	foreign := strings.Repeat("this is a diary, not a database\n", 100)
	if err := os.WriteFile(path, []byte(foreign), 0o600); err != nil {
		t.Fatal(err)
	}
	failure := newFailureSignal()
	w := NewWriter(path, &Options{StopTimeout: time.Millisecond, Log: failure.log()})
	stop := running(t, w)
	<-failure.failed
	w.Append(logtest.Numbered(0))
	if err := stop(); err == nil || !strings.Contains(err.Error(), "not a database (move it away") {
		t.Errorf("Run ended with %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != foreign {
		t.Errorf("the file was changed (%v)", err)
	}
}

func TestWriter_RecreatesDeletedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "activity.db")
	w := NewWriter(path, nil)
	running(t, w)
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	for os.RemoveAll(filepath.Dir(path)) != nil { // the writer may be making a file there
	}
	w.Append(logtest.Numbered(1))
	mustSync(t, w)
	if got := logtest.Query(t, path, "SELECT message_id FROM activity_log"); len(got) != 1 || got[0] != "msg_00000001" {
		t.Errorf("the new log holds %s", got)
	}
}

// openReader opens a connection with a read transaction.
func openReader(t *testing.T, path string) *sqlite.Conn {
	t.Helper()
	reader, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"BEGIN", "SELECT count(*) FROM activity_log"} {
		if err := sqlitex.ExecuteTransient(reader, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	return reader
}

// TestWriter_MovedLogLosesNothing moves only the file, while a reader's
// transaction keeps rows in the write-ahead log beside it.
func TestWriter_MovedLogLosesNothing(t *testing.T) {
	w, path, _ := started(t, nil)
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	reader := openReader(t, path)
	defer reader.Close()
	w.Append(logtest.Numbered(1))
	mustSync(t, w)
	moved := filepath.Join(filepath.Dir(path), "moved.db")
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	w.Append(logtest.Numbered(2))
	mustSync(t, w)
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(path + "-wal.*")
	if err != nil || len(kept) != 1 {
		t.Fatalf("write-ahead logs that were kept: %q, %v", kept, err)
	}
	if err := os.Rename(kept[0], moved+"-wal"); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{moved: "[msg_00000000 msg_00000001]", path: "[msg_00000002]"} {
		if got := fmt.Sprint(logtest.Query(t, file, "SELECT message_id FROM activity_log")); got != want {
			t.Errorf("%s holds %s; want %s", file, got, want)
		}
		if got := logtest.Query(t, file, "PRAGMA integrity_check"); got[0] != "ok" {
			t.Errorf("%s: %s", file, got)
		}
	}
}

func TestWriter_BoundsWALDespiteReader(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	w, path, _ := started(t, &Options{MaxWAL: bound, QueueRows: 100})
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	reader := openReader(t, path)
	defer reader.Close()
	appended := 1
	payload := fmt.Appendf(nil, "%q", strings.Repeat("x", 8000))
	for lost := int64(-1); lost < 0 || w.Stats().Lost == lost; appended++ {
		row := logtest.Numbered(appended)
		row.Payload = payload
		w.Append(row)
		if s := w.Stats(); lost < 0 && strings.Contains(s.LastError, errWALFull.Error()) {
			lost = s.Lost // from here on, it is the reader who makes it lose rows
		}
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if slack := int64(chunkRows * 9000); info.Size() > bound+slack {
		t.Errorf("the write-ahead log has %d bytes; bound %d", info.Size(), bound)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	checkGap(t, w, path, appended, "reader")
	if info, err = os.Stat(path + "-wal"); err != nil || info.Size() > bound {
		t.Errorf("the write-ahead log still has %d bytes (%v)", info.Size(), err)
	}
}

// TestOpen_KeepsLocksOfReaders lets a reader of this process hold a transaction
// while the writer opens the log again, as after an error. The reader's lock on the
// file must stay. Otherwise another program that closes the log would believe
// itself the last one, and delete the write-ahead log under the writer.
func TestOpen_KeepsLocksOfReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	first, err := openDatabase(path, testOptions("bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.close() //nolint:errcheck // the test looks at its locks
	if _, _, err := first.write([]activitylog.Row{{Event: activitylog.SendStart, MessageID: "m-1"}}); err != nil {
		t.Fatal(err)
	}
	before := locks(t, path)
	second, err := openDatabase(path, testOptions("bus"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.close() //nolint:errcheck // it wrote nothing
	if after := locks(t, path); before == 0 || after < before {
		t.Errorf("%d locks on the log; %d after it was opened once more", before, after)
	}
}

// locks counts the locks of processes on a file.
func locks(t *testing.T, path string) (n int) {
	t.Helper()
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Skip(err)
	}
	inode := fmt.Sprintf(":%d ", info.Ino)
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, inode) && strings.Contains(line, fmt.Sprintf(" %d ", os.Getpid())) {
			n++
		}
	}
	return n
}

// TestPrune_WorksOnFullDisk checks that the hashes kept for a file fit into the space that the
// file used.
func TestPrune_WorksOnFullDisk(t *testing.T) {
	whole, _ := threePerFile(t, 8)
	dir := mountTemporary(t, "2m")
	path := filepath.Join(dir, "log", filepath.Base(whole))
	if err := os.CopyFS(filepath.Dir(path), os.DirFS(filepath.Dir(whole))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	r, err := Prune(t.Context(), path, logtest.Epoch.Add(24*time.Hour))
	if err != nil || r.Segments != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for n := 1; n <= 2; n++ {
		if _, err := os.Stat(segment.KeptTreePath(segment.Path(path, n))); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(segment.Path(path, n)); err == nil {
			t.Errorf("segment %d is there", n)
		}
	}
}
