package up

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/grant"
	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/internal/program"

	"github.com/google/go-cmp/cmp"
)

// settingsOf reads settings as `hubbub up` does.
func settingsOf(t *testing.T, text string) (path string, settings map[string]any) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hubbub.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := program.ReadTOML(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, settings
}

// TestConfigError_NamesTheLineInAnyEncoding writes the same file as editors of several systems do.
func TestConfigError_NamesTheLineInAnyEncoding(t *testing.T) {
	const text = "[bus]\nlisten = '127.0.0.1:0'\nlisten-on = 'x'\n"
	wide := "\xff\xfe"
	for _, c := range text {
		wide += string([]byte{byte(c), 0})
	}
	for _, file := range []string{text, "\ufeff" + text, wide} {
		path, _ := settingsOf(t, file)
		if got := (&Request{File: path}).configError("bus", "listen-on", "unknown"); got.Line != 3 {
			t.Errorf("%.4q: line %d; want 3", file, got.Line)
		}
	}
}

func planOf(t *testing.T, text string, env ...string) (*Plan, error) {
	t.Helper()
	r := Request{Env: env, Data: "/d", LogLevel: "info", Find: func(name string) (string, error) { return "/bin/" + name, nil }}
	if text != "" {
		r.File, r.Settings = settingsOf(t, text)
	}
	return NewPlan(r)
}

func names(p *Plan) (running []string, idle map[string]string) {
	idle = map[string]string{}
	for _, c := range p.Children {
		running = append(running, c.Name)
	}
	for _, i := range p.skipped {
		idle[i.name] = i.reason
	}
	return running, idle
}

func TestNewPlan_StartsConfiguredPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		env     []string
		running []string
		idle    map[string]string // by name, a part of the reason
	}{
		"nothing at all": {
			running: []string{"bus", "system", "broker"},
			idle:    map[string]string{"tg": "TELEGRAM_BOT_TOKEN", "chorus": "[chorus]"},
		},
		"a token alone": {
			env:     []string{"TELEGRAM_BOT_TOKEN=1:a"},
			running: []string{"bus", "system", "broker", "tg"},
			idle:    map[string]string{"chorus": "[chorus]"},
		},
		"a token in a file": {
			env:     []string{"TELEGRAM_BOT_TOKEN_FILE=/t"},
			running: []string{"bus", "system", "broker", "tg"},
			idle:    map[string]string{"chorus": "[chorus]"},
		},
		"everything": {
			file:    "[system]\n[broker]\n[chorus]\n[tg]\nallow-user = [1]\n",
			env:     []string{"TELEGRAM_BOT_TOKEN=1:a"},
			running: []string{"bus", "system", "broker", "tg", "chorus"},
			idle:    map[string]string{},
		},
		"a bridge for Matrix": {
			file:    "[matrix]\nhomeserver = \"https://hs.example.org\"\n",
			env:     []string{"MATRIX_PASSWORD_FILE=/p"},
			running: []string{"bus", "system", "broker", "matrix"},
			idle:    map[string]string{"tg": "TELEGRAM_BOT_TOKEN", "chorus": "[chorus]"},
		},
		"a bridge for Matrix from the environment": {
			env:     []string{"MATRIX_ACCESS_TOKEN=t", "HUBBUB_HOMESERVER=https://hs.example.org"},
			running: []string{"bus", "system", "broker", "matrix"},
			idle:    map[string]string{"tg": "TELEGRAM_BOT_TOKEN", "chorus": "[chorus]"},
		},
		"a bridge for Matrix without a homeserver": {
			env:     []string{"MATRIX_ACCESS_TOKEN=t"},
			running: []string{"bus", "system", "broker"},
			idle:    map[string]string{"tg": "TELEGRAM_BOT_TOKEN", "chorus": "[chorus]", "matrix": "HUBBUB_HOMESERVER"},
		},
		"a bridge for Matrix without a token": {
			file:    "[matrix]\n",
			running: []string{"bus", "system", "broker"},
			idle:    map[string]string{"tg": "TELEGRAM_BOT_TOKEN", "chorus": "[chorus]", "matrix": "MATRIX_ACCESS_TOKEN"},
		},
		"a bridge without its token": {
			file:    "[tg]\nallow-user = [1]\n",
			running: []string{"bus", "system", "broker"},
			idle:    map[string]string{"tg": "@BotFather", "chorus": "[chorus]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planOf(t, c.file, c.env...)
			if err != nil {
				t.Fatal(err)
			}
			running, idle := names(p)
			if diff := cmp.Diff(c.running, running); diff != "" {
				t.Error(diff)
			}
			for name, reason := range c.idle {
				if !strings.Contains(idle[name], reason) {
					t.Errorf("%s is idle because %q, want %q", name, idle[name], reason)
				}
			}
			if len(idle) != len(c.idle) {
				t.Errorf("idle: %v", idle)
			}
		})
	}
}

func TestNewPlan_OneProgram(t *testing.T) {
	p, err := planOf(t, `
[bus]
listen = ["0.0.0.0:9000"]
[tg]
allow-user = [7]
[agent]
harness = "openai"
role = ["backend-agents", "on-call"]
`, "TELEGRAM_BOT_TOKEN=secret-token", "OPENAI_API_KEY=secret-key", "HUBBUB_TOKEN=secret-mine", "HUBBUB_LISTEN=1:1", "NOTIFY_SOCKET=/s", "HUBBUB_ALLOW_CHAT=5", "PATH=/bin", "OTEL_EXPORTER_OTLP_HEADERS=api-key=secret-otel")
	if err != nil {
		t.Fatal(err)
	}
	if want := "OPENAI_API_KEY=secret-key\n"; p.AgentEnv != want {
		t.Errorf("keys of the agents: %q", p.AgentEnv)
	}
	env, args := map[string]string{}, map[string]string{}
	for _, c := range p.Children {
		env[c.Name], args[c.Name] = strings.Join(c.Env, " "), strings.Join(c.Args, " ")
	}
	for name, want := range map[string]string{
		"bus":    "HUBBUB_LISTEN=1:1 HUBBUB_ALLOW_CHAT=5 PATH=/bin OTEL_EXPORTER_OTLP_HEADERS=api-key=secret-otel",
		"tg":     "TELEGRAM_BOT_TOKEN=secret-token HUBBUB_ALLOW_CHAT=5 PATH=/bin",
		"system": "HUBBUB_ALLOW_CHAT=5 PATH=/bin",
	} {
		if env[name] != want+" GOTRACEBACK=crash" {
			t.Errorf("environment of %s: %s", name, env[name])
		}
	}
	for name, want := range map[string][]string{
		"bus":    {"--data /d", "#bus", "--log-format json"},
		"tg":     {"--bus ws://1:1", "--token-file /d/tokens/tg", "#tg"},
		"system": {"--agent-env-file /d/agent.env", "--agent-arg=--harness=openai --agent-arg=--role=backend-agents --agent-arg=--role=on-call"},
	} {
		for _, w := range want {
			if !strings.Contains(args[name], w) {
				t.Errorf("arguments of %s lack %q: %s", name, w, args[name])
			}
		}
	}
	for name, a := range args {
		if strings.Contains(a, "secret") {
			t.Errorf("a secret in the arguments of %s: %s", name, a)
		}
	}
}

// TestNewPlan_FindsTheAddressOfTheBus compares the address that the programs dial with the settings
// that the bus reads: variables win over the file, and an empty certificate means no TLS.
func TestNewPlan_FindsTheAddressOfTheBus(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		env  []string
		want string
	}{
		"nothing":                   {"", nil, "ws://127.0.0.1:7892"},
		"an address":                {"[bus]\nlisten = '0.0.0.0:8000'", nil, "ws://127.0.0.1:8000"},
		"an address and a variable": {"[bus]\nlisten = '0.0.0.0:8000'", []string{"HUBBUB_LISTEN=0.0.0.0:7892"}, "ws://127.0.0.1:7892"},
		"an empty variable":         {"[bus]\nlisten = '0.0.0.0:8000'", []string{"HUBBUB_LISTEN="}, "ws://127.0.0.1:8000"},
		"a certificate":             {"[bus]\ntls-cert = 'c'\ntls-key = 'k'", nil, "wss://127.0.0.1:7892"},
		"no certificate":            {"[bus]\ntls-cert = ''\ntls-key = ''", nil, "ws://127.0.0.1:7892"},
		"variables of TLS":          {"", []string{"HUBBUB_TLS_CERT=c", "HUBBUB_TLS_KEY=k"}, "wss://127.0.0.1:7892"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := planOf(t, c.file, c.env...)
			if err != nil {
				t.Fatal(err)
			}
			if p.Bus != c.want {
				t.Errorf("the programs dial %s; want %s", p.Bus, c.want)
			}
		})
	}
}

func TestNewPlan_RejectsErrors(t *testing.T) {
	for file, says := range map[string]string{
		"telegram = 1":            `unknown key "telegram"`,
		"[telegram]":              `unknown key "telegram"`,
		"bus = 'ws://x'":          "must be a table",
		"[data]":                  "not a table",
		"[tg]\ndata = '/x'":       `[tg] "data" may not be set`,
		"[agent]\nid = 'x'":       `[agent] "id" may not be set`,
		"[bus]\nlisten = 'where'": "not an address",
		"[bus]\nlisten = ''":      "not an address",
	} {
		if _, err := planOf(t, file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", file, err, says)
		}
	}
}

func TestProvision_KeepsValidTokens(t *testing.T) {
	data := t.TempDir()
	tokens := func() map[string]string {
		t.Helper()
		if err := provision.Provision(data, "OPENAI_API_KEY=key\n"); err != nil {
			t.Fatal(err)
		}
		m := map[string]string{}
		for _, g := range provision.Grants {
			path := program.TokenPath(data, g.Name)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %s", path, info.Mode())
			}
			m[g.Name] = strings.TrimSpace(string(b))
		}
		return m
	}
	first := tokens()
	keys := filepath.Join(data, provision.AgentEnvFile)
	if b, err := os.ReadFile(keys); err != nil || string(b) != "OPENAI_API_KEY=key\n" {
		t.Errorf("keys of the agents: %q, %v", b, err)
	}
	if info, err := os.Stat(keys); err == nil && info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %s", keys, info.Mode())
	}
	file := grant.NewFile(filepath.Join(data, grant.FileName))
	if err := file.Reload(); err != nil {
		t.Fatal(err)
	}
	for name, token := range first {
		if c, ok := file.Lookup(token); !ok || c.Name != name {
			t.Errorf("the token of %s is not known to the bus", name)
		}
	}
	if diff := cmp.Diff(first, tokens()); diff != "" {
		t.Errorf("a second run changed tokens: %s", diff)
	}
	if err := os.Remove(program.TokenPath(data, "hubbub-tg")); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Revoke("hubbub-cli", nil); err != nil {
		t.Fatal(err)
	}
	own, err := file.Create(grant.Credential{Name: "tg", Identities: []string{"tg:9"}})
	if err != nil {
		t.Fatal(err)
	}
	third := tokens()
	if err := file.Reload(); err != nil {
		t.Fatal(err)
	}
	if c, ok := file.Lookup(own); !ok || c.Name != "tg" {
		t.Error("a credential of the operator's is gone")
	}
	for name := range first {
		if changed := third[name] != first[name]; changed != (name == "hubbub-tg" || name == "hubbub-cli") {
			t.Errorf("%s changed: %t", name, changed)
		}
	}
}
