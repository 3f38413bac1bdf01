package process_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/peers/system"
	"hubbub/peers/system/process"
)

func TestFind_FindsInstancesAfterARestart(t *testing.T) {
	folder := t.TempDir()
	l := process.New(folder, nil)
	spec := specOf(l, "x")
	if _, err := l.Find(t.Context(), spec, ""); !errors.Is(err, system.ErrNotRunning) {
		t.Fatal(err)
	}
	inst, pid := start(t, l, spec)
	other := process.New(folder, &process.Options{Poll: time.Millisecond, StopTimeout: time.Second})
	for what, handle := range map[string]string{"recorded": inst.Handle(), "not recorded": "", "broken": "{", "of another": `{"pid":1,"start":1}`} {
		found, err := other.Find(t.Context(), spec, handle)
		if err != nil || found.Handle() != inst.Handle() {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
	if found, err := other.Find(t.Context(), specOf(l, "y"), ""); err == nil {
		t.Errorf("another agent is taken for y: %s", found.Handle())
	}
	// The number alone does not make it the same process.
	wrong := strings.Replace(inst.Handle(), `"start":`, `"start":9`, 1)
	if found, err := other.Find(t.Context(), specOf(l, "y"), wrong); err == nil {
		t.Errorf("a process of another start time is taken: %s", found.Handle())
	}
	found, err := other.Find(t.Context(), spec, inst.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Stop(t.Context()); err != nil || !hasEnded(pid) {
		t.Errorf("stopping an adopted agent: %v", err)
	}
	var exit *system.Exit
	if err := found.Wait(t.Context()); !errors.As(err, &exit) {
		t.Error(err)
	}
	if _, err := other.Find(t.Context(), spec, inst.Handle()); !errors.Is(err, system.ErrNotRunning) {
		t.Error("found after its end:", err)
	}
}

// TestFind_IgnoresAgentsOfACopy restores a backup beside the original system, whose processes the
// copy names and must not stop. A folder that was moved is the same one.
func TestFind_IgnoresAgentsOfACopy(t *testing.T) {
	above := t.TempDir()
	l := process.New(filepath.Join(above, "system"), nil)
	inst, _ := start(t, l, specOf(l, "x"))
	copied := process.New(filepath.Join(above, "copy"), nil)
	for range 2 {
		if found, err := copied.Find(t.Context(), specOf(copied, "x"), inst.Handle()); !errors.Is(err, system.ErrNotRunning) {
			t.Fatalf("the copy finds %v, %v", found, err)
		}
		if err := os.MkdirAll(copied.Paths("x").Data, 0o700); err != nil { // the second time, as after a restore
			t.Fatal(err)
		}
	}
	if err := os.Rename(filepath.Join(above, "system"), filepath.Join(above, "moved")); err != nil {
		t.Fatal(err)
	}
	moved := process.New(filepath.Join(above, "moved"), nil)
	if found, err := moved.Find(t.Context(), specOf(moved, "x"), inst.Handle()); err != nil || found.Handle() != inst.Handle() {
		t.Errorf("the moved system finds %v, %v", found, err)
	}
}

func TestKilledSpawner_EndsAgents(t *testing.T) {
	l, pid := startUnderKilledSpawner(t, &process.Options{})
	eventually(t, "the agent ends", func() bool { return hasEnded(pid) })
	if l.Outlives() {
		t.Error("agents outlive the spawner")
	}
}

// startUnderKilledSpawner starts the agent x under a spawner, and kills the spawner. It returns a
// launcher of the same agents, and the process id of x.
func startUnderKilledSpawner(t *testing.T, opts *process.Options) (*process.Launcher, int) {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "TEST_SPAWNER="+folder)
	if opts.KeepAgents {
		cmd.Env = append(cmd.Env, "TEST_KEEP=1")
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out.Read(make([]byte, 8))
	l := process.New(folder, opts)
	pid := number(t, filepath.Join(l.Paths("x").Data, "pid"))
	cmd.Process.Kill()
	cmd.Wait()
	return l, pid
}

func TestKilledSpawner_KeepsAgentsOnDemand(t *testing.T) {
	l, pid := startUnderKilledSpawner(t, &process.Options{Poll: time.Millisecond, KeepAgents: true})
	if !l.Outlives() {
		t.Error("kept agents do not outlive the spawner")
	}
	inst, err := l.Find(t.Context(), specOf(l, "x"), "")
	if err != nil || hasEnded(pid) {
		t.Fatal("a kept agent ended with its spawner:", err)
	}
	child := number(t, filepath.Join(l.Paths("x").Data, "child"))
	if err := inst.Stop(t.Context()); err != nil || !hasEnded(pid) {
		t.Error(err)
	}
	eventually(t, "what the agent started ends", func() bool { return hasEnded(child) })
}
