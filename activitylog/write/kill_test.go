package write

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
)

// killedLog, in the environment, makes the test binary a program that appends
// to that log until it is killed.
const killedLog = "HUBBUB_TEST_KILLED_LOG"

// killedCommit names the step of a commit at which such a program kills itself.
const killedCommit = "HUBBUB_TEST_KILLED_COMMIT"

func TestMain(m *testing.M) {
	if step := os.Getenv(killedStep); step != "" {
		killAt(step)
	}
	if path := os.Getenv(killedLog); path != "" {
		appendUntilKilled(path)
		return
	}
	os.Exit(m.Run())
}

// appendUntilKilled appends numbered rows and prints each number whose row, and
// all before it, the log has promised to hold.
func appendUntilKilled(path string) {
	if at := os.Getenv(killedCommit); at != "" {
		left := 20
		segment.Failpoint = func(name string) {
			if left--; name == at && left < 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		signEvery = time.Millisecond
	}
	w := NewWriter(path, nil)
	go func() {
		if err := w.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}()
	for i := 1; ; i++ {
		w.Append(logtest.Numbered(i))
		if i%10 == 0 {
			if err := w.Sync(context.Background()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(i)
		}
	}
}

func TestKill_LosesOnlyTheEnd(t *testing.T) {
	for round := range 6 {
		path := filepath.Join(t.TempDir(), "activity.db")
		promised := killAfter(t, path, 1+round*7)
		// Every run before the kill wrote 1, 2, 3 and so on, without a hole.
		got := logtest.Query(t, path, `SELECT count(*), max(message_id), count(*) = max(CAST(substr(message_id, 5) AS INTEGER)) FROM activity_log`)
		var rows, last, whole int
		if _, err := fmt.Sscanf(got[0], "%d|msg_%d|%d", &rows, &last, &whole); err != nil {
			t.Fatalf("%s: %v", got[0], err)
		}
		if rows < promised || rows != last || whole != 1 {
			t.Errorf("round %d: %d rows, the last is %d; %d were promised", round, rows, last, promised)
		}
		if got := logtest.Query(t, path, "PRAGMA integrity_check"); got[0] != "ok" {
			t.Errorf("round %d: %s", round, got)
		}
		// The next run continues where this one ended.
		w := NewWriter(path, nil)
		running(t, w)
		w.Append(logtest.Numbered(last + 1))
		mustSync(t, w)
		if got := logtest.Query(t, path, "SELECT max(id) FROM activity_log"); got[0] != strconv.Itoa(rows+1) {
			t.Errorf("round %d: the next row has id %s after %d rows", round, got[0], rows)
		}
	}
}

// killAfter runs the appending program, kills it after the given number of promises, and returns
// the last of them.
func killAfter(t *testing.T, path string, promises int) int {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), killedLog+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, last := bufio.NewScanner(out), 0
	for seen := 0; lines.Scan(); {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
		if seen++; seen == promises {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Fatalf("the program ended with %v before it was killed", err)
	}
	return last
}

// TestKill_SeparatesNoRowFromItsLeaf checks that the log has both or neither, and
// that committed rows can be proved after the next start.
func TestKill_SeparatesNoRowFromItsLeaf(t *testing.T) {
	for _, at := range []string{"rows stored", "leaves stored"} {
		path := filepath.Join(t.TempDir(), "activity.db")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), killedLog+"="+path, killedCommit+"="+at)
		if err := cmd.Run(); err == nil || err.Error() != "signal: killed" {
			t.Fatalf("%s: the program ended with %v", at, err)
		}
		if a, told := audited(t, path, nil); told != "" || a.Entries == 0 || a.Signed == 0 || a.Signed == a.Entries {
			t.Errorf("%s: %+v: %s", at, a, told)
		}
		w := NewWriter(path, nil)
		stop := running(t, w)
		w.Append(logtest.Numbered(0))
		mustSync(t, w)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if a, told := audited(t, path, nil); told != "" || a.Signed != a.Entries {
			t.Errorf("%s, and started again: %+v: %s", at, a, told)
		}
	}
}
