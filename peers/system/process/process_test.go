package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/system"
	"hubbub/peers/system/process"

	"github.com/rs/zerolog"
)

// TestMain makes this program an agent or a spawner when it is started as one.
func TestMain(m *testing.M) {
	switch {
	case slices.Contains(os.Args, "--id"):
		os.Exit(agent(os.Args[1:]))
	case os.Getenv("TEST_SPAWNER") != "":
		os.Exit(spawner(os.Getenv("TEST_SPAWNER")))
	}
	os.Exit(m.Run())
}

// agent does what its arguments say, and writes its process id to its folder.
func agent(args []string) int {
	has := func(arg string) bool { return slices.Contains(args, arg) }
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "--exit=") }); i >= 0 {
		code, _ := strconv.Atoi(strings.TrimPrefix(args[i], "--exit="))
		fmt.Println(`{"level":"info","message":"begins"}` + "\nx: no model is here\nTry x --help.")
		return code
	}
	if has("--deaf") {
		signal.Ignore(syscall.SIGTERM)
	}
	if has("--family") {
		child := exec.Command("/bin/sleep", "1000")
		child.SysProcAttr = &syscall.SysProcAttr{Setpgid: has("--apart")} // as the program of a harness
		if err := child.Start(); err != nil {
			return 1
		}
		os.WriteFile("child", []byte(strconv.Itoa(child.Process.Pid)), 0o600)
	}
	if has("--talk") {
		fmt.Println(strings.Repeat("x", 3000))
	}
	if has("--greedy") {
		b := make([]byte, 0)
		for len(b) < 1<<30 {
			b = append(b, make([]byte, 1<<20)...)
		}
	}
	os.WriteFile("env", []byte(strings.Join(os.Environ(), "\n")), 0o600)
	os.WriteFile("pid.partial", []byte(strconv.Itoa(os.Getpid())), 0o600)
	os.Rename("pid.partial", "pid")
	<-time.After(time.Hour)
	return 0
}

// spawner starts an agent and waits to be killed.
func spawner(folder string) int {
	l := process.New(folder, &process.Options{KeepAgents: os.Getenv("TEST_KEEP") != ""})
	if _, err := l.Start(context.Background(), specOf(l, "x", "--family", "--apart")); err != nil {
		return 1
	}
	fmt.Println("started")
	<-time.After(time.Hour)
	return 0
}

func specOf(l *process.Launcher, name system.AgentName, args ...string) system.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return system.Spec{Name: name, Command: self, Args: append([]string{"--id", string(name), "--data", l.Paths(name).Data}, args...)}
}

// eventually waits for something that another process does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if holds() {
			return
		}
		<-time.After(5 * time.Millisecond) // of another process, which no clock of ours drives
	}
	t.Fatal("it never happens that", what)
}

func number(t *testing.T, path string) int {
	t.Helper()
	var n int
	eventually(t, "there is "+path, func() bool {
		b, err := os.ReadFile(path)
		n, _ = strconv.Atoi(string(b))
		return err == nil && n > 0
	})
	return n
}

// hasEnded reports whether a process has ended. On Linux, a zombie counts as ended.
func hasEnded(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return bytes.Contains(stat, []byte(") Z ")) || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func start(t *testing.T, l *process.Launcher, spec system.Spec) (system.Instance, int) {
	t.Helper()
	inst, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inst.Stop(context.Background()) })
	return inst, number(t, filepath.Join(l.Paths(spec.Name).Data, "pid"))
}

func checkModes(t *testing.T, want map[string]fs.FileMode) {
	t.Helper()
	for path, mode := range want {
		if info, err := os.Stat(path); err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != mode {
			t.Errorf("%s: %v, want %v", path, info.Mode(), mode)
		}
	}
}

func TestStop_EndsTheWholeGroup(t *testing.T) {
	for _, args := range [][]string{{"--family"}, {"--family", "--deaf"}} {
		l := process.New(t.TempDir(), &process.Options{StopTimeout: 200 * time.Millisecond})
		inst, pid := start(t, l, specOf(l, "x", args...))
		child := number(t, filepath.Join(l.Paths("x").Data, "child"))
		if err := inst.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !hasEnded(pid) {
			t.Error("the agent still runs")
		}
		eventually(t, "its child ends", func() bool { return hasEnded(child) })
	}
}

func TestCrash_EndsTheWholeGroup(t *testing.T) {
	l := process.New(t.TempDir(), nil)
	inst, pid := start(t, l, specOf(l, "x", "--family"))
	child := number(t, filepath.Join(l.Paths("x").Data, "child"))
	syscall.Kill(pid, syscall.SIGKILL)
	var exit *system.Exit
	if err := inst.Wait(t.Context()); !errors.As(err, &exit) || exit.Reason != "signal: killed" || exit.Permanent {
		t.Errorf("%v", err)
	}
	eventually(t, "its child ends", func() bool { return hasEnded(child) })
}

func TestEnd_TellsTheCause(t *testing.T) {
	l := process.New(t.TempDir(), nil)
	for code, hopeless := range map[int]bool{0: false, 1: false, 2: true} {
		inst, err := l.Start(t.Context(), specOf(l, "x", fmt.Sprint("--exit=", code)))
		if err != nil {
			t.Fatal(err)
		}
		var exit *system.Exit
		if err := inst.Wait(t.Context()); !errors.As(err, &exit) || exit.Reason != fmt.Sprint("exit status ", code) || exit.Permanent != hopeless ||
			code != 0 && exit.Error() != exit.Reason+": x: no model is here" {
			t.Errorf("exit %d: %+v", code, err)
		}
	}
	for _, command := range []string{"/nowhere/agent", t.TempDir()} {
		if _, err := l.Start(t.Context(), system.Spec{Name: "x", Command: command}); !errors.Is(err, system.ErrPermanent) {
			t.Errorf("%s: %v", command, err)
		}
	}
	if _, err := l.Start(t.Context(), system.Spec{Name: "../x", Command: "/bin/true"}); !errors.Is(err, system.ErrPermanent) {
		t.Error("a name that escapes:", err)
	}
}

func TestStart_SetsEnvironmentAndFolder(t *testing.T) {
	t.Setenv("SECRET_OF_THE_SPAWNER", "1")
	l := process.New(t.TempDir(), nil)
	spec := specOf(l, "x")
	spec.Env = []string{"KEY=value"}
	start(t, l, spec)
	env, err := os.ReadFile(filepath.Join(l.Paths("x").Data, "env"))
	if err != nil || string(env) != "KEY=value" {
		t.Errorf("environment %q, %v", env, err)
	}
	checkModes(t, map[string]fs.FileMode{
		l.Paths("x").Data: 0o700, l.LogFile("x"): 0o600, filepath.Dir(l.LogFile("x")): 0o700,
	})
}

// TestWarnings_AreLogged checks that the spawner logs an agent's warnings since its
// start, each once, and only as many at a time as a person can read.
func TestWarnings_AreLogged(t *testing.T) {
	said := make(lines, 100)
	log := zerolog.New(said)
	l := process.New(t.TempDir(), &process.Options{Log: &log})
	warns := `{"level":"warn","reason":"401","peer":"agent:other","time":"2026-11-26T14:00:00Z","message":"turn failed"}` + "\n"
	if err := os.MkdirAll(filepath.Dir(l.LogFile("x")), 0o700); err != nil {
		t.Fatal(err)
	}
	appendTo(t, l.LogFile("x"), warns) // by an earlier one
	start(t, l, specOf(l, "x"))
	appendTo(t, l.LogFile("x"), `{"level":"info","message":"ready"}`+"\nno JSON\n"+strings.Repeat(warns, 11)+warns[:9])
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	want := `{"level":"warn","peer":"agent:x","reason":"401","message":"turn failed"}` + "\n"
	for range 10 {
		if got := <-said; got != want {
			t.Errorf("passed on %q, want %q", got, want)
		}
	}
	if got := <-said; !strings.Contains(got, `"agent logged further warnings; see its log"`) {
		t.Errorf("the eleventh: %q", got)
	}
	appendTo(t, l.LogFile("x"), warns[9:])
	if got := <-said; got != want {
		t.Errorf("a line in two parts: %q", got)
	}
	cancel()
	if err := <-done; err != nil || len(said) > 0 {
		t.Errorf("%v; %d more lines", err, len(said))
	}
}

// TestWarnings_AreLogged_AfterTheLogIsCut checks a log that is as long at the next check as it
// was before it was cut.
func TestWarnings_AreLogged_AfterTheLogIsCut(t *testing.T) {
	said := make(lines, 100)
	log := zerolog.New(said)
	l := process.New(t.TempDir(), &process.Options{Log: &log, MaxLog: 1000})
	start(t, l, specOf(l, "x"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	for _, warning := range []string{"first", "other"} {
		appendTo(t, l.LogFile("x"), `{"level":"warn","message":"`+warning+`"}`+strings.Repeat("\n", 1000))
		eventually(t, "the warning "+warning, func() bool { return len(said) > 0 })
		if got := <-said; !strings.Contains(got, warning) {
			t.Errorf("passed on %q, want the warning %q", got, warning)
		}
		eventually(t, "the log is cut", func() bool {
			info, err := os.Stat(l.LogFile("x"))
			return err == nil && info.Size() == 0
		})
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// lines take each line of a log.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestLogs_AreBounded(t *testing.T) {
	l := process.New(t.TempDir(), &process.Options{MaxLog: 1000})
	start(t, l, specOf(l, "x", "--talk"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	eventually(t, "the log is cut", func() bool {
		now, err := os.Stat(l.LogFile("x"))
		older, err2 := os.Stat(l.LogFile("x") + ".1")
		return err == nil && err2 == nil && now.Size() == 0 && older.Size() == 1000 && older.Mode().Perm() == 0o600
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
