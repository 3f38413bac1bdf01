package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/system"

	"github.com/rs/zerolog"
)

func write(t *testing.T, mode os.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadEnvFile_ReadsLines(t *testing.T) {
	var log strings.Builder
	logger := zerolog.New(&log)
	path := write(t, 0o644, "# keys\n\nOPENAI_API_KEY=sk-1=2\n  QUOTED=\"a b\"\nSINGLE='$x'\nEMPTY=\n")
	env, err := readEnvFile(path, &logger)
	if want := []string{"OPENAI_API_KEY=sk-1=2", "QUOTED=a b", "SINGLE=$x", "EMPTY="}; err != nil || !slices.Equal(env, want) {
		t.Errorf("%q, %v", env, err)
	}
	if !strings.Contains(log.String(), "chmod 600") || strings.Contains(log.String(), "sk-1") {
		t.Errorf("log %q", log.String())
	}
	for _, bad := range []string{"export A=1", "A", "=1", "1A=2", `A="secret`, "A=secret\x00"} {
		if _, err := readEnvFile(write(t, 0o600, bad), &logger); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if env, err := readEnvFile("", &logger); err != nil || env != nil {
		t.Errorf("no file: %q, %v", env, err)
	}
	if _, err := readEnvFile("/nowhere", &logger); err == nil {
		t.Error("a missing file is passed over")
	}
}

// TestOthersRead_KnowsMountedSecrets includes the secret of a pod, which root owns and the pod's
// group reads.
func TestOthersRead_KnowsMountedSecrets(t *testing.T) {
	for _, c := range []struct {
		mode      fs.FileMode
		own, want bool
	}{
		{0o600, true, false}, {0o640, true, true}, {0o604, true, true},
		{0o440, false, false}, {0o444, false, true},
	} {
		if got := othersRead(c.mode, c.own); got != c.want {
			t.Errorf("mode %o, own %t: %t", c.mode, c.own, got)
		}
	}
}

func TestInheritedEnv_HasNoSecretOfTheSpawner(t *testing.T) {
	spawners, flags := []string{
		"PATH=/bin", "OPENAI_API_KEY=k", "HUBBUB_MODEL=m", "HUBBUB_TOKEN=t", "HUBBUB_TOKEN_FILE=f", "HUBBUB_DATA=d",
		"HUBBUB_MAX_AGENTS=1", "TELEGRAM_BOT_TOKEN=b", "MATRIX_PASSWORD_FILE=p", "https_proxy=x", "NOTIFY_SOCKET=n", "CREDENTIALS_DIRECTORY=c",
	}, []string{"max-agents"}
	want := []string{"PATH=/bin", "OPENAI_API_KEY=k", "HUBBUB_MODEL=m", "https_proxy=x", "GOTRACEBACK=crash"}
	if env := inheritedEnv(spawners, flags, false); !slices.Equal(env, want) {
		t.Errorf("%q", env)
	}
	if env := inheritedEnv(spawners, flags, true); !slices.Equal(env, want[1:]) {
		t.Errorf("units: %q", env)
	}
}

func TestReadProfiles_ReadsLimits(t *testing.T) {
	path := write(t, 0o600, "[big]\nargs = [\"--model=x\"]\nmemory-max = \"2G\"\nfiles-max = 9\nagent-unit = [\"ProtectHome=no\"]\nruntime-max = \"1h\"\n[small]\n")
	profiles, err := readProfiles(path, system.Limits{Memory: 5, Tasks: 7})
	if err != nil {
		t.Fatal(err)
	}
	if got := *profiles["big"].Limits; got != (system.Limits{Memory: 2 << 30, Tasks: 7, Files: 9, Runtime: time.Hour}) || !slices.Equal(profiles["big"].Unit, []string{"ProtectHome=no"}) || profiles["big"].Args[0] != "--model=x" {
		t.Errorf("big: %+v", got)
	}
	if got := *profiles["small"].Limits; got != (system.Limits{Memory: 5, Tasks: 7}) {
		t.Errorf("small: %+v", got)
	}
	if profiles, err := readProfiles(write(t, 0o600, "\xff\xfe[\x00x\x00]\x00"), system.Limits{}); err != nil || len(profiles) != 1 {
		t.Errorf("UTF-16: %+v, %v", profiles, err)
	}
	for _, bad := range []string{"[x]\nunknown = 1", "[\x00x\x00]\x00", "[x]\nmemory-max = \"lots\"", "[x]\nruntime-max = \"1\"", "[x]\nagent-unit = [\"User=root\"]", "x = 1"} {
		if _, err := readProfiles(write(t, 0o600, bad), system.Limits{}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseBytes_ReadsUnits(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "1": 1, "4K": 4096, "512M": 512 << 20, "2G": 2 << 30, "1T": 1 << 40} {
		if n, err := parseBytes(text); err != nil || n != want {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	for _, bad := range []string{"M", "-1M", "0", "1.5G", "1MB", "9999999999G"} {
		if n, err := parseBytes(bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
}

// TestCheckAgents_RunsTheAgentsOwnCheck checks that the agent's own objection is reported without
// its name, and that the check needs no home folder, which a unit does not have.
func TestCheckAgents_RunsTheAgentsOwnCheck(t *testing.T) {
	data := t.TempDir()
	agent := write(t, 0o700, "#!/bin/sh\n[ \"$KEY\" = fits ] && exit 0\necho \"${0##*/}: $* HOME=$HOME KEY=$KEY IN=$(pwd)\" >&2\necho more >&2\nexit 2\n")
	got := checkAgent(t.Context(), agent, data, []string{"--harness=x"}, []string{"KEY=not"})
	if want := "--check --id check --data " + data + " --harness=x HOME= KEY=not IN=" + data; got == nil || got.Error() != want {
		t.Errorf("it says %v; want %q", got, want)
	}
	if got := checkAgent(t.Context(), agent, data, nil, []string{"KEY=fits"}); got != nil {
		t.Errorf("where all is well: %v", got)
	}
	if got := checkAgent(t.Context(), "/nowhere/agent", data, nil, nil); got == nil || !strings.Contains(got.Error(), "/nowhere/agent") {
		t.Errorf("where there is none: %v", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := checkAgent(ended, agent, data, nil, nil); got != nil {
		t.Errorf("at a stop: %v", got)
	}
}

// TestCheckAgents_BoundsAHangingCheck checks that a stop kills a hanging check and the processes
// that it started, one of which may hold its stderr.
func TestCheckAgents_BoundsAHangingCheck(t *testing.T) {
	data := t.TempDir()
	for _, fifo := range []string{"started", "end"} {
		if err := syscall.Mkfifo(filepath.Join(data, fifo), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent := write(t, 0o700, "#!/bin/sh\ncat end &\necho >started\nwait\necho too late >&2\nexit 2\n")
	ctx, cancel := context.WithCancel(t.Context())
	said := make(chan error)
	go func() { said <- checkAgent(ctx, agent, data, nil, nil) }()
	if _, err := os.ReadFile(filepath.Join(data, "started")); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := <-said; got != nil {
		t.Errorf("it says %v", got)
	}
	if f, err := os.OpenFile(filepath.Join(data, "end"), os.O_WRONLY|syscall.O_NONBLOCK, 0); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("what it started still reads: %v, %v", f, err)
	}
}
