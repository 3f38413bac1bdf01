package proc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/proc"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

// TestMain lets the test binary play the programs that the tests run.
func TestMain(m *testing.M) {
	role := os.Getenv("CHILD_TEST")
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if role == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Println("ready")
	switch role {
	case "cat":
		io.Copy(os.Stdout, os.Stdin) //nolint:errcheck // a test program
	case "usage":
		fmt.Fprint(os.Stderr, "wrong")
		os.Exit(2)
	case "deaf":
		<-time.After(time.Hour)
	case "env":
		fmt.Print(strings.Join(os.Environ(), "\n"))
	case "holder": // a process that leaves the group holds its output
		holder := exec.Command("/bin/sleep", "600")
		holder.Stdout, holder.SysProcAttr = os.Stdout, &syscall.SysProcAttr{Setpgid: true}
		if err := holder.Start(); err != nil {
			panic(err)
		}
		fmt.Println(holder.Process.Pid)
	}
}

func command(role string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(env, "CHILD_TEST="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// run runs a program to its end and returns its lines.
func run(t *testing.T, cmd *exec.Cmd) ([]string, error) {
	t.Helper()
	var lines []string
	p, err := proc.Start(cmd, &proc.Options{OnLine: func(line []byte) { lines = append(lines, string(line)) }})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Wait()
	return lines, err
}

func TestProcess_DeliversWholeLinesAndItsCause(t *testing.T) {
	lines, err := run(t, command("usage"))
	if !proc.IsUsageError(err) || !slices.Equal(slices.Sorted(slices.Values(lines)), []string{"ready", "wrong"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if _, err := proc.Start(exec.Command("/no/such/program"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
}

func TestEnvironment_IsThatOfTheCommand(t *testing.T) {
	t.Setenv("TOP_SECRET", "1")
	lines, err := run(t, command("env", "KEY=value"))
	if err != nil || !slices.Contains(lines, "KEY=value") || slices.Contains(lines, "TOP_SECRET=1") {
		t.Errorf("%q, %v", lines, err)
	}
	if env := proc.DropEnv(os.Environ(), "TOP_*"); slices.Contains(env, "TOP_SECRET=1") || len(env) == 0 {
		t.Errorf("%q", env)
	}
	all := []string{"A=1", "AB=2", "B=A"}
	if got := proc.DropEnv(all, "A"); !slices.Equal(got, []string{"AB=2", "B=A"}) {
		t.Errorf("without A: %q", got)
	}
	if got := proc.KeepEnv(all, "A*"); !slices.Equal(got, []string{"A=1", "AB=2"}) {
		t.Errorf("only A*: %q", got)
	}
}

// TestStop_KillsAProcessThatIgnoresIt also checks that the end of a context
// ends the grace early.
func TestStop_KillsAProcessThatIgnoresIt(t *testing.T) {
	for _, grace := range []time.Duration{time.Millisecond, time.Hour} {
		ready := make(chan struct{})
		p, err := proc.Start(command("deaf"), &proc.Options{OnLine: func([]byte) { close(ready) }})
		if err != nil {
			t.Fatal(err)
		}
		<-ready
		ctx, cancel := context.WithCancel(t.Context())
		if grace == time.Hour {
			cancel()
		}
		p.Stop(ctx, grace)
		cancel()
		if err := p.Wait(); err == nil || !p.WaitFor(t.Context(), time.Hour) {
			t.Errorf("it ended with %v", err)
		}
	}
}

// TestWait_LeavesOutputHeldByAnother covers a process that left the group.
func TestWait_LeavesOutputHeldByAnother(t *testing.T) {
	lines, err := run(t, command("holder"))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%q, %v", lines, err)
	}
	var pid int
	if _, err := fmt.Sscan(lines[1], &pid); err != nil {
		t.Fatal(err)
	}
	syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it is ours
}

// TestProcess_OutlivesTheThreadThatStartedIt checks that the death signal of Linux, which depends
// on the thread, is not sent.
func TestProcess_OutlivesTheThreadThatStartedIt(t *testing.T) {
	cmd := command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	started := make(chan *proc.Process)
	go func() {
		runtime.LockOSThread() // so that the thread ends with the goroutine
		p, err := proc.Start(cmd, &proc.Options{ParentDeathSignal: syscall.SIGKILL})
		if err != nil {
			panic(err)
		}
		started <- p
	}()
	p := <-started
	w.Close()
	r := bufio.NewReader(out)
	for range 100 { // until the thread has ended for sure
		runtime.Gosched()
	}
	fmt.Fprintln(in, "hello")
	for _, want := range []string{"ready\n", "hello\n"} {
		if line, err := r.ReadString('\n'); err != nil || line != want {
			t.Errorf("%q, %v", line, err)
		}
	}
	in.Close()
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	out.Close()
}

// TestKillDependents_SendsTheirSignal checks a system whose kernel does not send it.
func TestKillDependents_SendsTheirSignal(t *testing.T) {
	p, err := proc.Start(exec.Command("/bin/sleep", "600"), &proc.Options{ParentDeathSignal: syscall.SIGTERM})
	if err != nil {
		t.Fatal(err)
	}
	proc.SignalDependents(false)
	if !p.WaitFor(t.Context(), time.Minute) {
		p.Kill()
	}
	if err := p.Wait(); err == nil || err.Error() != "signal: terminated" {
		t.Errorf("it ended with %v", err)
	}
}

func TestStart_EndsAProcessThatFails(t *testing.T) {
	pid := 0
	_, err := proc.Start(command("deaf"), &proc.Options{OnStart: func(n int) error {
		pid = n
		return io.ErrUnexpectedEOF
	}})
	if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		t.Errorf("err = %v, process %d", err, pid)
	}
}

// TestLines checks that, for all lengths and writes, each line comes once and in order, and that
// long ones are cut.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{10, 4096, 70_000}).Draw(t, "limit")
		var input string
		var want []string
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			n := rapid.SampledFrom([]int{0, 1, 9, 10, 11, 4095, 4096, 4097, 69_999, 70_000, 70_001, 100_000}).Draw(t, "length")
			input += strings.Repeat("x", n) + rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			if n > 0 {
				want = append(want, strings.Repeat("x", min(n, limit)))
			}
		}
		if rest := rapid.SampledFrom([]string{"", "tail"}).Draw(t, "rest"); rest != "" {
			input += rest
			want = append(want, rest)
		}
		var got []string
		lines := proc.LineWriter{Max: limit, OnLine: func(line []byte, _ bool) { got = append(got, string(line)) }}
		for input != "" {
			n := rapid.IntRange(1, len(input)).Draw(t, "piece")
			lines.Write([]byte(input[:n])) //nolint:errcheck // it never fails
			input = input[n:]
		}
		lines.Flush()
		if !slices.Equal(got, want) {
			t.Fatalf("%d lines, want %d", len(got), len(want))
		}
	})
}

func TestKeep_RestartsUntilStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, last := 0, 0
		err := proc.Supervise(t.Context(), time.Minute, func(context.Context) error {
			if runs++; runs == 3 {
				time.Sleep(time.Hour) // long enough to be forgiven
			}
			return io.EOF
		}, func(ends int, err error) (time.Duration, bool) {
			if want := []int{1, 2, 1, 2}[runs-1]; ends != want || !errors.Is(err, io.EOF) {
				t.Errorf("run %d is end %d in a row, %v", runs, ends, err)
			}
			last = ends
			return time.Second, runs == 4
		})
		if !errors.Is(err, io.EOF) || runs != 4 || last != 2 {
			t.Errorf("%d runs, %v", runs, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := proc.Supervise(ctx, time.Minute, func(context.Context) error { return io.EOF }, func(int, error) (time.Duration, bool) {
			cancel()
			return time.Hour, false
		}); err != nil {
			t.Errorf("after its context ended: %v", err)
		}
	})
}
