package subprocess_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/protocol/retry"

	"go.uber.org/goleak"
)

// TestMain lets the test binary play the programs that the tests run.
func TestMain(m *testing.M) {
	switch os.Getenv("CHILD_TEST") {
	case "":
		goleak.VerifyTestMain(m)
	case "cat":
		io.Copy(os.Stdout, os.Stdin) //nolint:errcheck // a test program
	case "env":
		fmt.Println(strings.Join(os.Environ(), "\n"))
	case "fail":
		fmt.Fprintln(os.Stderr, "cannot log in with sk-test-0123456789abcdef")
		os.Exit(3)
	case "family": // starts a grandchild and ignores SIGTERM and the end of stdin
		signalIgnore()
		grandchild := exec.Command("sleep", "600")
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
		fmt.Println(grandchild.Process.Pid)
		select {}
	case "owner": // starts a child and waits to be killed
		p := start("family")
		bufio.NewReader(p.Stdout).ReadString('\n') //nolint:errcheck // a test program
		fmt.Println(p.PID())
		select {}
	}
}

func start(role string) *subprocess.Process {
	p, err := subprocess.Start([]string{os.Args[0]}, &subprocess.Options{Env: map[string]string{"CHILD_TEST": role, "GORACE": "atexit_sleep_ms=0"}, Grace: 50 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	return p
}

func TestProcess_Echo(t *testing.T) {
	p := start("cat")
	fmt.Fprintln(p.Stdin, "hello")
	line, err := bufio.NewReader(p.Stdout).ReadString('\n')
	if err != nil || line != "hello\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p.Stop()
}

func TestStart_HidesSecretsFromTheEnvironment(t *testing.T) {
	t.Setenv("HUBBUB_TOKEN", "top-secret")
	t.Setenv("TELEGRAM_BOT_TOKEN", "top-secret")
	t.Setenv("MATRIX_PASSWORD", "top-secret")
	t.Setenv("CREDENTIALS_DIRECTORY", "/run/top-secret")
	t.Setenv("MODEL_KEY", "top-secret")
	t.Setenv("MODEL_KEY_HINT", "kept")
	t.Setenv("OTHER", "kept")
	p, err := subprocess.Start([]string{os.Args[0]}, &subprocess.Options{
		Env: map[string]string{"CHILD_TEST": "env", "GORACE": "atexit_sleep_ms=0"}, HideEnv: []string{"MODEL_KEY"},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	p.Wait() //nolint:errcheck // it always ends with an error
	if strings.Contains(string(raw), "top-secret") || !strings.Contains(string(raw), "OTHER=kept") || !strings.Contains(string(raw), "MODEL_KEY_HINT=kept") {
		t.Errorf("environment:\n%s", raw)
	}
}

func TestWait_QuotesStderrWithoutKeys(t *testing.T) {
	err := start("fail").Wait()
	if !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "cannot log in") || strings.Contains(err.Error(), "sk-test") {
		t.Errorf("err = %v", err)
	}
}

func TestStart_MissingProgramIsPermanent(t *testing.T) {
	_, err := subprocess.Start([]string{"/no/such/program"}, nil)
	if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "--harness-command") {
		t.Errorf("err = %v", err)
	}
}

func TestStop_KillsTheWholeGroup(t *testing.T) {
	p := start("family")
	pid := readPid(t, p.Stdout)
	p.Stop()
	awaitDeath(t, pid)
}

func readPid(t *testing.T, r io.Reader) int {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func signalIgnore() { signal.Ignore(syscall.SIGTERM) }

// awaitDeath waits until a process is gone or a zombie; the test's own timeout
// ends a wait without success.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	harnesstest.Until(t, "the process dies", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

func TestSupervisor_BacksOffAndForgetsOldFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var starts []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		err := subprocess.NewSupervisor[int]().Run(ctx, retry.Backoff{}, nil, func(context.Context) error {
			starts = append(starts, time.Since(began).Round(time.Second))
			switch len(starts) {
			case 4:
				time.Sleep(2 * time.Minute)
			case 6:
				cancel()
			}
			return errors.New("crashed")
		})
		if err != nil || len(starts) != 6 {
			t.Fatalf("%v, %v", err, starts)
		}
		if gap := starts[4] - starts[3]; gap > 2*time.Minute+2*time.Second {
			t.Errorf("after a long run it waited %s", gap-2*time.Minute)
		}
	})
}

func TestSupervisor_EndsAtAPermanentError(t *testing.T) {
	life := subprocess.NewSupervisor[int]()
	err := life.Run(t.Context(), retry.Backoff{}, nil, func(context.Context) error { return harness.ErrPermanent })
	if !errors.Is(err, harness.ErrPermanent) || !errors.Is(life.Err(), harness.ErrPermanent) {
		t.Errorf("err = %v, %v", err, life.Err())
	}
	if _, err := life.Await(t.Context()); !errors.Is(err, harness.ErrPermanent) {
		t.Errorf("awaiting a run that never comes: %v", err)
	}
}

func TestSupervisor_AwaitReturnsTheInitializedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := subprocess.NewSupervisor[string]()
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		run := 0
		wg.Go(func() {
			if err := life.Run(ctx, retry.Backoff{}, nil, func(ctx context.Context) error {
				run++
				name := fmt.Sprintf("run %d", run)
				life.SetCurrent(&name)
				if run == 1 {
					return errors.New("crashed")
				}
				<-ctx.Done()
				return context.Cause(ctx)
			}); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the first run has crashed
		if life.Current() != nil {
			t.Error("a run that ended counts as alive")
		}
		impatient, end := context.WithTimeout(ctx, time.Millisecond)
		defer end()
		if _, err := life.Await(impatient); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "ended: crashed") {
			t.Errorf("awaiting what crashed: %v", err)
		}
		if name, err := life.Await(ctx); err != nil || *name != "run 2" {
			t.Errorf("%v, %v", name, err)
		}
		stop()
		wg.Wait()
		if _, err := life.Await(t.Context()); !errors.Is(err, harness.ErrStopped) || life.Current() != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestSplitCommand(t *testing.T) {
	words, err := subprocess.SplitCommand(`npx -y "a b" --x='$HOME'`)
	if err != nil || len(words) != 4 || words[2] != "a b" || words[3] != "--x=$HOME" {
		t.Errorf("%q, %v", words, err)
	}
	for _, bad := range []string{"", `"open`} {
		if _, err := subprocess.SplitCommand(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
