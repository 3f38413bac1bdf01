package write

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/read"
)

// The tests of this file start this test binary again as a user without rights, or with few files.
// It prints what each reader gives.
const (
	readerPath    = "HUBBUB_TEST_READER"
	readerMessage = "HUBBUB_TEST_READER_MESSAGE"
)

func init() {
	path := os.Getenv(readerPath)
	if path == "" {
		return
	}
	for _, line := range readEverything(path, os.Getenv(readerMessage)) {
		fmt.Println(line)
	}
	os.Exit(0)
}

// readEverything returns a line for each kind of reading.
func readEverything(path, message string) (lines []string) {
	ctx := context.Background()
	add := func(name string, result any, err error) {
		if err != nil {
			result = "error: " + err.Error()
		}
		lines = append(lines, fmt.Sprintf("%s: %v", name, result))
	}
	r := read.Open(path)
	defer r.Close()
	n := 0
	err := r.Each(ctx, read.Filter{}, func(*activitylog.Entry) error { n++; return nil })
	add("each", n, err)
	last, _, err := r.Before(ctx, read.Filter{Since: logtest.Epoch}, nil, 3)
	add("before", len(last), err)
	following, stop := context.WithTimeout(ctx, time.Minute)
	n = 0
	err = r.Follow(following, read.Filter{}, nil, nil, func(rows []activitylog.Entry) error {
		if n += len(rows); len(rows) > 0 {
			stop()
		}
		return nil
	})
	stop()
	add("follow", n > 0, err)
	found, err := r.Message(ctx, message)
	add("trace", found != nil, err)
	about := 0
	err = r.ChatEvents(ctx, read.AttentionFilter{EventID: message}, func(*activitylog.ChatEvent) error { about++; return nil })
	add("why", about, err)
	n = 0
	const sorting = "SELECT id FROM activity_log ORDER BY payload_json || hex(zeroblob(20000)), ts"
	err = r.SQL(ctx, sorting, func([]string, []any) error { n++; return nil })
	add("sql", n, err)
	verdict, err := audit.Verify(ctx, r, nil)
	problems := -1
	if verdict != nil {
		problems = len(verdict.Problems)
	}
	add("verify", problems, err)
	proofs, err := audit.Prove(ctx, r, message, "")
	add("prove", len(proofs) > 0, err)
	return lines
}

// asReader runs readEverything with a log in another process.
func asReader(t *testing.T, program, path, message, limit string, user *syscall.Credential) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", limit+`exec "$0"`, program)
	cmd.Env = append(os.Environ(), readerPath+"="+path, readerMessage+"="+message)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// copied copies the files of a folder, except those with the given suffixes. It repeats this if
// the set of files changes, because a writer may seal a file in the meantime.
func copied(t *testing.T, from, to string, except ...string) {
	t.Helper()
	for names := []string(nil); ; {
		before := names
		names = namesIn(t, from)
		if before != nil && slices.Equal(before, names) {
			return
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(to, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if slices.ContainsFunc(except, func(end string) bool { return strings.HasSuffix(name, end) }) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(from, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), content, 0o600)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
}

// namesIn returns the names of the files in a folder.
func namesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestReaders_WorkOnCopiesThatCannotBeWritten copies a stopped log, and one that a bus is writing,
// with and without its -shm file, to files of mode 0444 in a folder of mode 0555.
func TestReaders_WorkOnCopiesThatCannotBeWritten(t *testing.T) {
	w, path, _ := started(t, &Options{SegmentRows: 40})
	var rows int
	for i := range 30 {
		list := logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Second))
		rows += len(list)
		w.Append(list...)
		if i%5 == 0 {
			mustSync(t, w)
		}
	}
	mustSync(t, w)
	folder := filepath.Dir(path)
	user := &syscall.Credential{Uid: 65534, Gid: 65534}
	if os.Geteuid() != 0 {
		user = nil // an ordinary user has no rights to take away
	}
	base := reachable(t)
	program := filepath.Join(base, "reader")
	content, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(program, content, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, except := range map[string][]string{
		"live": nil, "no-shm": {"-shm"}, "no-lock": {".lock", ".partial"},
	} {
		to := filepath.Join(base, name)
		copied(t, folder, to, except...)
		if err := forbidWriting(to); err != nil {
			t.Fatal(err)
		}
		got := asReader(t, program, filepath.Join(to, filepath.Base(path)), "msg_000007", "", user)
		want := fmt.Sprintf("each: %d\nbefore: 3\nfollow: true\ntrace: true\nwhy: 0\nsql: %d\nverify: 0\n", rows, rows)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: it reads\n%s; want\n%s", name, got, want)
		}
		_ = os.Chmod(to, 0o755) // or nobody can remove it
	}
	private := filepath.Join(base, "private")
	copied(t, folder, private)
	if user == nil {
		return
	}
	got := asReader(t, program, filepath.Join(private, filepath.Base(path)), "msg_000007", "", user)
	if strings.Count(got, "permission denied") != strings.Count(got, "\n") || strings.Contains(got, "unable to open") {
		t.Errorf("files of another user give\n%s", got)
	}
}

// reachable returns a folder that every user can read.
func reachable(t *testing.T) string {
	t.Helper()
	base, err := os.MkdirTemp("/tmp", "hubbub-readers-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return base
}

func forbidWriting(folder string) error {
	return filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(path, 0o555)
		}
		return os.Chmod(path, 0o444)
	})
}

// TestReaders_NeedFewFiles reads a log of many files with a limit of 24 open files.
func TestReaders_NeedFewFiles(t *testing.T) {
	path, rows := segmented(t, 70, &Options{SegmentRows: 9, Bus: "east"})
	if err := (&compactor{path: path}).compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(logtest.Sealed(t, path)); n < 30 {
		t.Fatalf("%d sealed files are too few", n)
	}
	got := asReader(t, os.Args[0], path, "msg_000007", "ulimit -n 24; ", nil)
	want := fmt.Sprintf("each: %d\nbefore: 3\nfollow: true\ntrace: true\nwhy: 0\nsql: %d\nverify: 0\nprove: true\n", len(rows), len(rows))
	if got != want {
		t.Errorf("it reads\n%s; want\n%s", got, want)
	}
}

// TestReaders_NeedNoTemporaryFolder makes the root and all folders for temporary files
// read-only: what is too large for SQLite's cache is sorted in memory.
func TestReaders_NeedNoTemporaryFolder(t *testing.T) {
	if os.Geteuid() != 0 || exec.CommandContext(t.Context(), "unshare", "-m", "true").Run() != nil {
		t.Skip("only root makes a namespace of mounts here")
	}
	path, rows := segmented(t, 20, &Options{SegmentRows: 60, Bus: "east"})
	readOnly := "[ -n \"$inside\" ] || inside=1 exec unshare -m /bin/sh -c 'mount --make-rprivate / && " +
		"mount --bind / / && cd / && mount -o remount,bind,ro / && " +
		"for d in /tmp /var/tmp; do mount --bind $d $d && mount -o remount,bind,ro $d || exit 1; done; " +
		"exec \"$0\"' \"$0\"; "
	got := asReader(t, os.Args[0], path, "msg_000007", readOnly, nil)
	want := fmt.Sprintf("each: %d\nbefore: 3\nfollow: true\ntrace: true\nwhy: 0\nsql: %d\nverify: 0\nprove: true\n", len(rows), len(rows))
	if got != want {
		t.Errorf("it reads\n%s; want\n%s", got, want)
	}
}
