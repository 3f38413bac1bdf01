package cmd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
)

// TestUnknownSchemaVersion_IsRefused gives every program a database of an unknown version. The
// program must say so in a sentence and leave the file unchanged.
func TestUnknownSchemaVersion_IsRefused(t *testing.T) {
	for _, c := range []struct {
		command string
		file    string
		env     string
	}{
		{command: "hubbub-bus --listen 127.0.0.1:0", file: "activity.db"},
		{command: "hubbub log prune --before 1h", file: "activity.db"},
		{command: "hubbub-tg", file: "tg.db", env: "TELEGRAM_BOT_TOKEN=1:x"},
		{command: "hubbub-system", file: "system.db"},
		{command: "hubbub-broker", file: "broker.db"},
		{command: "hubbub-chorus --listen 127.0.0.1:0", file: "chorus.db"},
		{command: "hubbub-agent --id x", file: "agent-x.db"},
	} {
		t.Run(c.command, func(t *testing.T) {
			data := t.TempDir()
			makeFutureDatabase(t, filepath.Join(data, c.file))
			words := strings.Fields(c.command)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, built(t, words[0]), append(words[1:], "--data", data)...)
			cmd.Env = append(cmd.Environ(), c.env, "HUBBUB_BUS=ws://127.0.0.1:1")
			out, err := cmd.CombinedOutput()
			want := 2 // a restart does not help
			if words[0] == "hubbub" {
				want = 1
			}
			if err == nil || cmd.ProcessState.ExitCode() != want || strings.Contains(string(out), "--help") || !strings.Contains(string(out), "schema version 99") || !strings.Contains(string(out), "program that wrote it") {
				t.Errorf("%v: %s", err, out)
			}
			if v := versionOf(t, filepath.Join(data, c.file)); v != 99 {
				t.Errorf("the file has version %d now", v)
			}
		})
	}
}

func makeFutureDatabase(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.OpenExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // what was not written shows
	if err := storetest.Exec(db, "CREATE TABLE activity_log (id INTEGER PRIMARY KEY, ts TEXT); PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
}

func versionOf(t *testing.T, path string) (version int) {
	t.Helper()
	db, err := store.OpenExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	if err := storetest.Scan(db, []any{&version}, "PRAGMA user_version"); err != nil {
		t.Fatal(err)
	}
	return version
}
