package write

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A gatedDatabase is a log whose checkpoints in the background wait until the
// gate is open.
type gatedDatabase struct {
	*database
	gate    chan struct{}
	running atomic.Int64 // checkpoints in the background
	rows    int          // written
}

func openGated(t *testing.T) *gatedDatabase {
	t.Helper()
	s, err := openDatabase(filepath.Join(t.TempDir(), "activity.db"), testOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	g := &gatedDatabase{database: s.(*database), gate: make(chan struct{})}
	g.checkpoint = func(path string) error {
		g.running.Add(1)
		defer g.running.Add(-1)
		<-g.gate
		return backgroundCheckpoint(path, func(int) {})
	}
	return g
}

// largePayload makes a write-ahead log large with few rows.
var largePayload = []byte(strconv.Quote(strings.Repeat("x", 64<<10)))

// put writes n rows of 64 KiB.
func (g *gatedDatabase) put(t *testing.T, rows int) {
	t.Helper()
	batch := make([]activitylog.Row, rows)
	for i := range batch {
		batch[i] = logtest.Numbered(g.rows + i)
		batch[i].Payload = largePayload
	}
	for len(batch) > 0 {
		_, n, err := g.write(batch)
		if err != nil {
			t.Fatal(err)
		}
		batch = batch[n:]
		g.rows += n
	}
}

// growBehindReader makes the write-ahead log larger than it should be, with the help of a reader
// that keeps a transaction open until the returned function ends it.
func (g *gatedDatabase) growBehindReader(t *testing.T, bytes int64) (release func()) {
	t.Helper()
	g.put(t, 1)
	reader, err := sqlite.OpenConn(g.path, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"BEGIN", "SELECT count(*) FROM activity_log"} {
		if err := sqlitex.ExecuteTransient(reader, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	for g.wal < bytes {
		g.put(t, 32)
	}
	return func() {
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	}
}

// backfilled returns how many frames of the write-ahead log are in the database,
// from the WAL-index as SQLite's file format describes it.
func (g *gatedDatabase) backfilled(t *testing.T) uint32 {
	t.Helper()
	shm, err := os.ReadFile(g.path + "-shm")
	if err != nil {
		t.Fatal(err)
	}
	return binary.NativeEndian.Uint32(shm[96:])
}

// end closes the log, which must hold every row that was written, in one file.
func (g *gatedDatabase) end(t *testing.T) {
	t.Helper()
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	if g.running.Load() != 0 {
		t.Error("the log was closed before its checkpoint ended")
	}
	if info, err := os.Stat(g.path + "-wal"); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a write-ahead log is left: %v, %v", info, err)
	}
	if got := logtest.Query(t, g.path, "SELECT count(*) FROM activity_log"); got[0] != strconv.Itoa(g.rows) {
		t.Errorf("%s rows are in the log; %d were written", got[0], g.rows)
	}
	if got := logtest.Query(t, g.path, "PRAGMA integrity_check"); got[0] != "ok" {
		t.Errorf("integrity: %s", got)
	}
}

// TestCheckpoint_DelaysNoCommit lets a reader release a large write-ahead log:
// rows are committed before its checkpoint has moved a page.
func TestCheckpoint_DelaysNoCommit(t *testing.T) {
	g := openGated(t)
	release := g.growBehindReader(t, usualWAL*3/2)
	before := g.backfilled(t)
	release()
	for range 20 {
		g.put(t, 1)
	}
	if now := g.backfilled(t); now != before {
		t.Errorf("commits have moved pages into the database: %d before, %d after", before, now)
	}
	close(g.gate)
	g.end(t)
}

func TestClose_WaitsForBackgroundCheckpoint(t *testing.T) {
	g := openGated(t)
	g.growBehindReader(t, usualWAL+1)()
	g.put(t, 1)
	for g.running.Load() == 0 {
		runtime.Gosched()
	}
	go close(g.gate)
	g.end(t)
}

func TestCheckpoint_FailureIsReported(t *testing.T) {
	g := openGated(t)
	sick := errors.New("the disk is sick")
	g.checkpoint = func(string) error { return sick }
	for {
		if _, _, err := g.write([]activitylog.Row{{Event: activitylog.SendStart, Payload: largePayload}}); err != nil {
			if want := "checkpointing the activity log: the disk is sick"; !errors.Is(err, sick) || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			break
		}
		g.rows++
	}
	g.end(t)
}
