package cmd_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
)

// TestSample_IsUpToDate checks that deploy/hubbub.toml matches the programs; scripts/generate
// writes it.
func TestSample_IsUpToDate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "deploy", "hubbub.toml"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "config", "sample").Output()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(made), string(text)); diff != "" {
		t.Errorf("deploy/hubbub.toml is out of date; run scripts/generate:\n%s", diff)
	}
}

var commentedKey = regexp.MustCompile(`^# ((?:\[[a-z]+\]|[a-z0-9-]+ = .*)\n)`)

// TestSample_IsAccepted lets each program read its table of both samples, first as they are printed
// and then without the comment signs. Every default must be accepted, and no key may be missing.
func TestSample_IsAccepted(t *testing.T) {
	for _, edition := range []struct {
		args  []string
		fixed []string // flags that the units give
	}{
		{args: []string{"config", "sample"}},
		{args: []string{"config", "sample", "--services"}, fixed: []string{"launcher", "agent-env-file"}},
	} {
		text, err := exec.CommandContext(t.Context(), built(t, "hubbub"), edition.args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		checkAccepted(t, string(text))
		checkSample(t, string(text), edition.fixed)
	}
}

// checkAccepted lets each program read its table.
func checkAccepted(t *testing.T, sample string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hubbub.toml")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bus", "system", "broker", "tg", "agent", "matrix", "chorus"} {
		// A wrong level is reported after all other errors in settings.
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub-"+name), "--config", path+"#"+name, "--data", t.TempDir(), "--log-level", "none-such").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "none-such") {
			t.Errorf("hubbub-%s does not take its table of the sample: %s", name, out)
		}
	}
}

func checkSample(t *testing.T, text string, fixed []string) {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(commentedKey.ReplaceAllString(line, "$1"))
	}
	var file map[string]any
	if _, err := toml.Decode(all.String(), &file); err != nil {
		t.Fatalf("without the signs of comment the sample is no TOML: %v", err)
	}
	checkAccepted(t, all.String())
	for _, name := range []string{"bus", "system", "broker", "tg", "agent", "matrix", "chorus"} {
		table, _ := file[name].(map[string]any)
		if table == nil {
			t.Errorf("the sample lacks [%s]", name)
			continue
		}
		missing := settingsOf(t, "hubbub-"+name)
		for key := range table {
			delete(missing, key)
		}
		for _, key := range append([]string{"bus", "token-file", "data", "config", "log-level", "log-format", "id"}, fixed...) {
			delete(missing, key)
		}
		if len(missing) > 0 {
			t.Errorf("[%s] of the sample lacks %v", name, missing)
		}
	}
}

// settingsOf returns the names of a program's settings.
func settingsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built(t, name), "--describe").Output()
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Settings []struct{ Name string } }
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range d.Settings {
		names[s.Name] = true
	}
	return names
}
