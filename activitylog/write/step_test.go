package write

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// killedStep is the environment variable that makes the test binary write the log killedLog and
// kill itself at that step of a change of its files.
const killedStep = "HUBBUB_TEST_KILLED_STEP"

// stepOptions give a log a new file every few rows, and keep few of them if the kill must come
// while one is removed.
func stepOptions(name string) *Options {
	o := &Options{SegmentRows: 12}
	if strings.HasPrefix(name, "unlinked") {
		o.Retention.Bytes = 300 << 10
	}
	return o
}

func killAt(at string) {
	at, path, _ := strings.Cut(at, "|")
	segment.Failpoint = func(name string) {
		if name == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	w := NewWriter(path, stepOptions(at))
	w.compactor.record = nil // rows about removals would change the ids of the others
	go func() { fmt.Fprintln(os.Stderr, w.Run(context.Background())) }()
	sum := 0
	for i := 0; ; i++ {
		rows := logtest.Sent(i, time.Now())
		for _, r := range rows {
			w.Append(r)
			if sum++; sum%3 == 0 {
				if err := w.Sync(context.Background()); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Println(sum)
			}
		}
	}
}

// TestKill_AtEachStepKeepsPromises kills a program at each step of a rotation, of
// sealing, of adopting an older log and of retention. Every promised row is there,
// once and in order; the next program continues after it, and finishes what was
// begun.
func TestKill_AtEachStepKeepsPromises(t *testing.T) {
	for _, name := range []string{
		"prepared", "sealing", "moved", "replaced",
		"copied", "indexes made", "indexed", "sealed",
		"unlinked", "unlinked" + segment.ChecksumSuffix, "unlinked-shm",
	} {
		t.Run(fmt.Sprint(name), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "activity.db")
			promised := runToStep(t, name, path)
			rows := sameRows(t, path)
			if rows < promised {
				t.Errorf("%d rows are there of %d that were promised", rows, promised)
			}
			appendMore(t, path, rows, stepOptions(name))
			if after := sameRows(t, path); after != rows+60 {
				t.Errorf("%d rows after 60 were added to %d", after, rows)
			}
			if v := verdict(t, path); !v.OK() {
				t.Errorf("%+v", v.Problems)
			}
			for _, n := range logtest.Sealed(t, path) {
				line, err := segment.Checksum(t.Context(), segment.Path(path, n))
				if want, _ := os.ReadFile(segment.Path(path, n) + segment.ChecksumSuffix); err != nil || line != string(want) {
					t.Errorf("segment %d has the checksum %q, and beside it stands %q, %v", n, line, want, err)
				}
			}
			if left, _ := filepath.Glob(segment.Path(path, 1)[:len(path)-len(".db")] + "-*.db" + segment.PreparedSuffix + "*"); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// runToStep runs the program that kills itself at a step, and returns how many rows it was
// promised.
func runToStep(t *testing.T, at, path string) (promised int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), killedStep+"="+at+"|"+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the program ended with %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if promised, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
			t.Fatal(err)
		}
	}
	return promised
}

// sameRows returns the last row in the log of the program, whose oldest files may be
// gone. It fails if a row is missing, repeated, or changed.
func sameRows(t *testing.T, path string) (last int) {
	t.Helper()
	var want []activitylog.Row
	next, messages := 0, 0
	err := opened(t, path).Each(t.Context(), read.Filter{}, func(e *activitylog.Entry) error {
		n := int(e.ID)
		if next == 0 {
			next = n
		}
		for ; len(want) < n; messages++ {
			want = append(want, logtest.Sent(messages, time.Time{})...)
		}
		w := want[n-1].Entry(e.ID)
		w.TS = e.TS
		if n != next || logtest.Plain(&w) != logtest.Plain(e) {
			t.Fatalf("row %d is %s; want row %d, %s", n, logtest.Plain(e), next, logtest.Plain(&w))
		}
		next++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return max(next-1, 0)
}

// appendMore appends 60 rows after the first ones, as another program does, and completes the
// work in the background.
func appendMore(t *testing.T, path string, rows int, opts *Options) {
	t.Helper()
	w := NewWriter(path, opts)
	w.compactor.record = nil
	stop := running(t, w)
	sum := 0
	for i := 0; sum < rows+60; i++ {
		for _, r := range logtest.Sent(i, time.Now()) {
			if sum++; sum > rows && sum <= rows+60 {
				w.Append(r)
				mustSync(t, w)
			}
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.compactor.compact(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestRotate_WaitsForAFileThatIsBeingOpened lets a reader of this process open the log, stops it
// before it has opened the write-ahead log, and rotates: rows of the new file were lost when the
// reader then repaired the index of the new write-ahead log.
func TestRotate_WaitsForAFileThatIsBeingOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	s, err := openDatabase(path, testOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	d := s.(*database)
	store := func(i int) {
		t.Helper()
		if _, _, err := d.write(logtest.Sent(i, logtest.Epoch)); err != nil {
			t.Fatal(err)
		}
	}
	store(1)
	opened, appendMore := make(chan struct{}), make(chan struct{})
	before := segment.Failpoint
	segment.Failpoint = func(name string) {
		if name == "opened" {
			close(opened)
			<-appendMore
		}
	}
	read := make(chan error, 1)
	go func() {
		v, err := segment.Open(path)
		if err == nil {
			err = v.Conn.Close()
		}
		read <- err
	}()
	<-opened
	if err := d.rotate(); !errors.Is(err, errInUse) {
		t.Errorf("a rotation while the file is being opened: %v", err)
	}
	close(appendMore)
	if err := <-read; err != nil {
		t.Error(err)
	}
	segment.Failpoint = before
	if err := d.rotate(); err != nil {
		t.Fatal(err)
	}
	store(2)
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if v := verdict(t, path); !v.OK() {
		t.Errorf("%+v", v.Problems)
	}
}

// TestSeal_IgnoresChecksumOfOtherFile uses a checksum left by a log that was moved away;
// the new file of that number is sealed nevertheless.
func TestSeal_IgnoresChecksumOfOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	if err := os.WriteFile(segment.Path(path, 1)+segment.ChecksumSuffix, []byte("of another"), 0o600); err != nil {
		t.Fatal(err)
	}
	store(t, path, &Options{SegmentRows: 1}, logtest.Sent(1, logtest.Epoch), logtest.Sent(2, logtest.Epoch))
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	line, err := segment.Checksum(t.Context(), segment.Path(path, 1))
	if got, _ := os.ReadFile(segment.Path(path, 1) + segment.ChecksumSuffix); err != nil || string(got) != line {
		t.Errorf("the checksum is %q; want %q, %v", got, line, err)
	}
}

// TestFollow_MissesNothingAcrossFiles follows a log whose files are sealed, replaced by
// copies with indexes, and removed, while it is written.
func TestFollow_MissesNothingAcrossFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	w := NewWriter(path, &Options{SegmentRows: 12, Retention: activitylog.Retention{Bytes: 1 << 20}, StopTimeout: time.Minute})
	w.compactor.record = nil
	stop := running(t, w)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const burst = 40
	var got []activitylog.Entry
	caughtUp, followed := make(chan bool, 1), make(chan error, 1)
	go func() {
		followed <- opened(t, path).Follow(ctx, read.Filter{}, nil, nil, func(rows []activitylog.Entry) error {
			if got = append(got, rows...); len(got)%burst == 0 {
				caughtUp <- true
			}
			return nil
		})
	}()
	written := 0
	for newest := 0; newest < 4; { // a file ends when no reader is in its way
		for range burst {
			w.Append(logtest.Numbered(written))
			written++
		}
		mustSync(t, w)
		select {
		case <-caughtUp:
		case err := <-followed:
			t.Fatal(err)
		}
		if files := logtest.Sealed(t, path); len(files) > 0 {
			newest = files[len(files)-1]
		}
	}
	cancel()
	if err := <-followed; err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(got) != written {
		t.Fatalf("%d rows of %d were followed, over files %v", len(got), written, logtest.Sealed(t, path))
	}
	for i, e := range got {
		if e.ID != int64(i+1) || e.MessageID != fmt.Sprintf("msg_%08d", i) {
			t.Fatalf("row %d of the follower is %s", i, logtest.Plain(&e))
		}
	}
}

// TestRotation_WithOverlappingReaders uses readers whose transactions overlap, so that one
// is open at every moment, while rows are written.
func TestRotation_WithOverlappingReaders(t *testing.T) {
	w, path, stop := started(t, &Options{SegmentRows: 12})
	w.Append(logtest.Numbered(0))
	mustSync(t, w)
	var readers sync.WaitGroup
	ended := make(chan struct{})
	conns := []*sqlite.Conn{readerOf(t, path), readerOf(t, path)}
	readers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-ended:
				for _, c := range conns {
					c.Close() //nolint:errcheck // only read
				}
				return
			default:
			}
			c := conns[i%len(conns)]
			err := errors.Join(sqlitex.Execute(c, "ROLLBACK", nil), readSome(c))
			if err != nil && len(logtest.Sealed(t, path)) == 0 { // the file has its old name
				t.Error(err)
				return
			}
		}
	})
	for i := 1; len(logtest.Sealed(t, path)) == 0; i++ {
		w.Append(logtest.Numbered(i))
		mustSync(t, w)
	}
	close(ended)
	readers.Wait()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// readerOf opens a log to read it, with a transaction that has begun.
func readerOf(t *testing.T, path string) *sqlite.Conn {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		err = readSome(c)
	}
	if err != nil {
		t.Error(err)
	}
	return c
}

func readSome(c *sqlite.Conn) error {
	return errors.Join(sqlitex.Execute(c, "BEGIN", nil), sqlitex.Execute(c, "SELECT count(*) FROM event", nil))
}
