package cmd_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/docs"
)

// topicText returns the output of `hubbub help NAME`.
func topicText(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "help", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestDocumentedMetrics_Exist checks that the bus has every documented metric.
func TestDocumentedMetrics_Exist(t *testing.T) {
	addr := bustest.FreeAddress(t)
	start(t, t, "hubbub-bus", nil, "--listen", addr, "--data", t.TempDir())
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	metrics, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, limits := topicText(t, "operating"), topicText(t, "limits")
	names := regexp.MustCompile("(?m)^- `((?:hubbub|process|go)_[a-z_]+)").FindAllStringSubmatch(text, -1)
	for _, m := range names {
		if !strings.Contains(string(metrics), "\n"+m[1]) {
			t.Errorf("the bus has no metric %s", m[1])
		}
	}
	if len(names) < 8 {
		t.Errorf("only %d metrics are explained", len(names))
	}
	for _, m := range regexp.MustCompile(`hubbub_limit_reached_total\{limit="([a-z_]+)"\}`).FindAllStringSubmatch(string(metrics), -1) {
		if flag := "--" + strings.ReplaceAll(m[1], "_", "-"); !strings.Contains(limits, flag) && !strings.Contains(limits, "`"+m[1]+"`") {
			t.Errorf("help limits does not explain the limit %s", m[1])
		}
	}
}

// TestDocumentedLimits_AreInForce compares the documented defaults with those of the bus.
func TestDocumentedLimits_AreInForce(t *testing.T) {
	help := regexp.MustCompile(`\n {6,}([^ -])`).ReplaceAllString(helpOf(t, "hubbub-bus"), " $1") // joins wrapped lines
	lines := regexp.MustCompile("(?m)^- `--([a-z-]+) (\\S+)`").FindAllStringSubmatch(topicText(t, "limits"), -1)
	for _, m := range lines {
		if !regexp.MustCompile(`(?m)--` + m[1] + ` .*\(default ` + regexp.QuoteMeta(m[2]) + `\)$`).MatchString(help) {
			t.Errorf("--%s %s is not a default of the bus", m[1], m[2])
		}
	}
	if len(lines) < 10 {
		t.Errorf("only %d limits were found", len(lines))
	}
}

// TestManualPages writes the pages and lets groff read them, if it is installed.
func TestManualPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man")
	if out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "manual", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pages, err := filepath.Glob(filepath.Join(folder, "*.[17]"))
	if err != nil || len(pages) != 8+len(docs.Topics()) {
		t.Fatalf("%d pages, %v; want %d", len(pages), err, 8+len(docs.Topics()))
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("groff is missing")
	}
	out, err := exec.CommandContext(t.Context(), "groff", append([]string{"-man", "-Tutf8", "-ww", "-z"}, pages...)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "hubbub-tg.1"))
	if err != nil || !strings.Contains(string(text), `\-\-allow\-user`) {
		t.Errorf("the page of hubbub-tg does not show --allow-user: %v", err)
	}
}

// TestCompletions writes the completions and lets bash read them.
func TestCompletions(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "completion", shell).Output()
		if err != nil || len(out) < 500 {
			t.Errorf("%s: %d bytes, %v", shell, len(out), err)
		}
		if shell != "bash" {
			continue
		}
		check := exec.CommandContext(t.Context(), "bash", "-n")
		check.Stdin = strings.NewReader(string(out))
		if said, err := check.CombinedOutput(); err != nil {
			t.Errorf("bash does not take its completion: %v\n%s", err, said)
		}
	}
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "__complete", "tok").Output()
	if err != nil || !strings.Contains(string(out), "token\t") {
		t.Errorf("completing tok: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), built(t, "hubbub"), "__complete", "--log-level", "nonsense", "why", "").CombinedOutput()
	if err != nil || strings.Contains(string(out), "panic") {
		t.Errorf("completing behind wrong settings: %v\n%s", err, out)
	}
}
