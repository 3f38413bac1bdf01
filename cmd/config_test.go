package cmd_test

import (
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/tg/tgtest"
)

// A configCase is a settings file with the error that it causes, or "".
type configCase struct{ line, says string }

// configCases returns settings files. The address taken is in use.
func configCases(taken string) []configCase {
	return []configCase{
		{"", ""},
		{"telegram = 3", `:1: unknown key "telegram"`},
		{"log-level = 'loud'", `:1: log-level "loud" is none of`},
		{"log-format = 'xml'", `:1: log-format "xml" is neither`},
		{"[bus]\nlisten = 'x'", `:2: [bus] listen "x" is not an address`},
		{"[bus]\n\npeer-window = 'many'", `:3: [bus] peer-window: "many" is not a whole number`},
		{"[bus]\nlisten = '" + taken + "'", "address already in use"},
		{"[bus]\ntls-cert = '/no/cert'\ntls-key = '/no/key'", "no such file"},
		{"[bus]\nallow-origins = ['https://a']", ":2: [bus] unknown key allow-origins"},
		{"[bus]\nname = ['a', 'b']", ":2: [bus] name: takes one value"},
		{"[bus]\ntls-cert = 'cmd.toml'\ntls-key = 'cmd.toml'", ":2: [bus] tls-cert and tls-key: "},
		{"[tg]\nwebhook-secret-file = '/no/file'", ":2: [tg] webhook-secret-file: "},
		{"[tg]\ndata = '/x'", `:2: [tg] "data" may not be set`},
		{"[tg]\npoll-timeout = '2h'", ":2: [tg] poll-timeout must be between"},
		{"[tg]\nallow-user = ['me']", ":2: [tg] allow-user: "},
		{"[system]\nagent-command = '/no/program'", ":2: [system] agent-command: "},
		{"[system]\nagent-env-file = '/no/file'", ":2: [system] agent-env-file: "},
		{"[system]\nagent-arg = ['--harnes=openai']", ":2: [system] agent-arg: "},
		{"[system]\nprofiles = '/no/file'", ":2: [system] profiles: "},
		{"[system]\nmax-agents = -1", ":2: [system] max-agents must be at least 1"},
		{"[broker]\nsweep-interval = '0s'", ":2: [broker] sweep-interval must be"},
		{"[chorus]\nlisten = '127.0.0.1:0'\nallow-target = ['everything']", ":3: [chorus] allow-target "},
		{"[agent]\nharness = 'acp'\nharness-command = 'no-such-program'", ":3: [agent] harness-command: "},
		{"[agent]\nharness = 'openai'", "OPENAI_API_KEY"},
		{"[agent]\nbase-url = 'nowhere'", ":2: [agent] base-url "},
		{"[agent]\nsystem-prompt-file = 'p.txt'", ":2: [agent] system-prompt-file: open p.txt: no such file or directory; agents run in folders of their own"},
		{"[agent]\nrole = [['x']]", ":2: [agent] role must be"},
		{"[agent]\napprove = 'shell, mcp:*'", `:2: [agent] approve: "shell, mcp:*" is one pattern with a space or a comma in it`},
	}
}

// TestConfigCheck_FindsEveryError checks that each wrong table, key, value, file, port, token and
// program is reported with its line before anything starts. `hubbub up` reports the same, and
// exits 2.
func TestConfigCheck_FindsEveryError(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	folder := t.TempDir()
	file, data := filepath.Join(folder, "hubbub.toml"), filepath.Join(folder, "data")
	secret := "TELEGRAM_BOT_TOKEN=1:AAtoken"
	where := []string{"--config", file, "--data", data}
	run := func(command ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), built(t, "hubbub"), append(command, where...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder, secret}
		out, _ := cmd.CombinedOutput() //nolint:errcheck // its code is what counts
		return string(out), cmd.ProcessState.ExitCode()
	}
	open := filepath.Join(folder, "open.env") // its mode is worth a warning
	if err := os.WriteFile(open, []byte("export A=1"), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := append(configCases(taken.Addr().String()),
		configCase{"[system]\nagent-env-file = '" + open + "'", ":2: [system] agent-env-file: " + open + ":1: a line must be KEY=value"})
	for i, c := range cases {
		switch listen := fmt.Sprintf("\nlisten = %q\n", bustest.FreeAddress(t)); {
		case strings.HasPrefix(c.line, "[bus]\nlisten"):
		case strings.HasPrefix(c.line, "[bus]"):
			c.line += listen
		default:
			c.line += "\n[bus]" + listen
		}
		if err := os.WriteFile(file, []byte(c.line), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := run("config", "check")
		if c.says == "" {
			if code != 0 || !strings.Contains(out, "no errors") {
				t.Errorf("%q: exit %d: %s", c.line, code, out)
			}
			continue
		}
		if code != 2 || !strings.Contains(out, c.says) || !strings.Contains(out, "1 error in") {
			t.Errorf("%q: exit %d, want 2 and %q:\n%s", c.line, code, c.says, out)
		}
		if i > 5 {
			continue // `hubbub up` makes the same check
		}
		out, code = run("up")
		if code != 2 || !strings.Contains(out, c.says) {
			t.Errorf("%q: up exits %d, want 2 and %q:\n%s", c.line, code, c.says, out)
		}
	}
	where = where[:2]
	if err := os.WriteFile(file, []byte("# where\ndata = '"+filepath.Join(file, "data")+"'"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := run("config", "check"); code != 2 || !strings.Contains(out, ":2: data ") || !strings.Contains(out, "1 error in") {
		t.Errorf("a data folder in a file: exit %d:\n%s", code, out)
	}
	where, secret = append(where, "--data", data), "NOTHING=1"
	if err := os.WriteFile(file, []byte("[tg]\nalow-chat = [1]\n[bus]\nlisten = '"+bustest.FreeAddress(t)+"'"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := run("config", "check")
	if code != 2 || !strings.Contains(out, ":2: [tg] unknown key alow-chat") || !strings.Contains(out, "TELEGRAM_BOT_TOKEN is not set") {
		t.Errorf("without the bot's token its table is looked at, too: exit %d:\n%s", code, out)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("looking at the settings made the data folder")
	}
	secret = "https_proxy=http:proxy.example:3128"
	for _, command := range [][]string{{"config", "check"}, {"up"}} {
		if out, code := run(command...); code != 2 || strings.Count(out, "https_proxy") != 1 {
			t.Errorf("%s with a wrong proxy: exit %d:\n%s", command, code, out)
		}
	}
}

// TestBridge_EndsWhenTelegramRejectsToken checks for exit code 2: a retry would be rejected
// again.
func TestBridge_EndsWhenTelegramRejectsToken(t *testing.T) {
	api := httptest.NewServer(tgtest.New(nil))
	defer api.Close()
	cmd := exec.CommandContext(t.Context(), built(t, "hubbub-tg"), "--data", t.TempDir(), "--api-url", api.URL)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TELEGRAM_BOT_TOKEN=1:AAtoken"}
	out, _ := cmd.CombinedOutput() //nolint:errcheck // its code is what counts
	if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(out), "not accepted by Telegram") {
		t.Errorf("exit %d, want 2:\n%s", code, out)
	}
}
