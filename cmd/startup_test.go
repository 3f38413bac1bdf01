package cmd_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hubbub/protocol/datafolder"
)

// programEnv is the least environment with which each program has valid settings.
var programEnv = []string{"TELEGRAM_BOT_TOKEN=1:AAtoken", "HUBBUB_ID=lead",
	"MATRIX_ACCESS_TOKEN=none", "HUBBUB_HOMESERVER=https://matrix.example"}

// exitOf runs a program to its end, and returns what it prints and its exit code.
func exitOf(t *testing.T, env []string, name string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(append([]string{"PATH=" + os.Getenv("PATH")}, programEnv...), env...)
	out, _ := cmd.CombinedOutput() //nolint:errcheck // its code is what counts
	return string(out), cmd.ProcessState.ExitCode()
}

// TestStart_ExitsWith1ForWhatMayHeal checks that a program whose start fails for a reason that
// may disappear exits with 1, so that its supervisor starts it again, and that only invalid
// settings exit with 2.
func TestStart_ExitsWith1ForWhatMayHeal(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty, half := file("empty", ""), file("half", "-----BEGIN CERTIFICATE-----\nMIIB")
	begun, lines, odd := file("begun", "123456"), file("lines", "1:AAtoken\n2:BBtoken\n"), file("odd", "a/b")
	zeros := file("zeros", strings.Repeat("\x00", 40))        // after a power cut
	const absent, foreign = "/no/such/file", "192.0.2.1:7892" // no machine has this address
	for _, c := range []struct {
		programs string
		args     string
		env      string
		code     int
		says     string
	}{
		{"bus chorus", "--listen " + taken.Addr().String(), "", 1, "address already in use"},
		{"bus chorus", "--plaintext --listen " + foreign, "", 1, syscall.EADDRNOTAVAIL.Error()},
		{"bus chorus", "--tls-cert " + absent + " --tls-key " + absent, "", 1, absent},
		{"bus chorus", "--tls-cert " + empty + " --tls-key " + empty, "", 1, "--tls-cert and --tls-key"},
		{"bus chorus", "--tls-cert " + half + " --tls-key " + half, "", 1, "--tls-cert and --tls-key"},
		{"bus broker tg matrix", "--cluster nats://127.0.0.1:1 --cluster-creds " + absent, "", 1, absent},
		{"bus system broker tg matrix chorus agent", "--config " + absent, "", 1, absent},
		{"bus system broker tg matrix chorus agent", "--config " + absent + "#bus", "", 1, absent},
		{"bus system broker tg matrix chorus agent", "--config " + half, "", 2, "line 1"},
		{"bus", "--cluster nats://127.0.0.1:1 --cluster-ca " + absent, "", 1, absent},
		{"system broker tg matrix chorus agent", "--token-file " + absent, "", 1, absent},
		{"system broker tg matrix chorus agent", "--token-file " + empty, "", 1, "is empty"},
		{"system broker tg matrix chorus agent", "--token-file " + zeros, "", 1, "is not text"},
		{"tg", "", "TELEGRAM_BOT_TOKEN= TELEGRAM_BOT_TOKEN_FILE=" + absent, 1, absent},
		{"tg", "", "TELEGRAM_BOT_TOKEN= TELEGRAM_BOT_TOKEN_FILE=" + empty, 1, "is empty"},
		{"system broker tg matrix chorus agent", "--token-file " + lines, "", 1, "has a line break"},
		{"tg", "", "TELEGRAM_BOT_TOKEN= TELEGRAM_BOT_TOKEN_FILE=" + begun, 1, "not a bot token"},
		{"tg", "", "TELEGRAM_BOT_TOKEN= TELEGRAM_BOT_TOKEN_FILE=" + lines, 1, "has a line break"},
		{"tg", "--webhook-secret-file " + absent, "", 1, absent},
		{"tg", "--webhook-secret-file " + odd, "", 1, "--webhook-secret-file: "},
		{"tg", "", "TELEGRAM_WEBHOOK_SECRET=a/b", 2, "TELEGRAM_WEBHOOK_SECRET: the webhook secret must"},
		{"agent", "--harness openai", "OPENAI_API_KEY_FILE=" + empty, 1, "is empty"},
		{"agent", "--system-prompt-file " + absent, "", 1, absent},
		{"agent", "--mcp-file " + absent, "", 1, absent},
		{"agent", "--harness acp --harness-command " + absent, "", 1, absent},
		{"agent", "--harness c2a --harness-command no-such-program", "", 1, "no-such-program"},
		{"agent", "--transcribe " + absent, "", 1, absent},
		{"agent", "--read-pdf no-such-program", "", 1, "no-such-program"},
		{"agent", "--read-pdf '", "", 2, "--read-pdf"},
		{"agent", "--workspace " + absent, "", 1, absent},
		{"system", "--profiles " + absent, "", 1, absent},
		{"system", "--agent-command " + absent, "", 1, absent},
		{"bus broker system chorus agent", "--data /proc/none", "", 1, "data folder"},

		{"bus chorus", "--listen 127.0.0.1:99999", "", 2, "--listen"},
		{"tg", "--webhook-url https://a.example --webhook-listen 8443", "", 2, "--webhook-listen"},
		{"tg", "--files-listen 127.0.0.1:http-or-so", "", 2, "--files-listen"},
		{"bus chorus", "--tls-cert " + empty, "", 2, "belong together"},
		{"system broker tg chorus agent", "--bus http://127.0.0.1:7892", "", 2, "--bus"},
		{"tg", "", "TELEGRAM_BOT_TOKEN=none", 2, "TELEGRAM_BOT_TOKEN"},
		{"system", "--profiles " + half, "", 2, "--profiles"},
		{"agent", "--mcp-file " + half, "", 2, "--mcp-file"},
		{"agent", "--harness openai", "", 2, "OPENAI_API_KEY"},
		{"bus system broker tg matrix chorus agent", "", "https_proxy=http:proxy.example:3128", 2, "https_proxy"},
	} {
		for program := range strings.FieldsSeq(c.programs) {
			args := append([]string{"--data", filepath.Join(dir, "data")}, strings.Fields(c.args)...)
			out, code := exitOf(t, strings.Fields(c.env), built(t, "hubbub-"+program), args...)
			if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, "--help") != (code == 2) {
				t.Errorf("hubbub-%s %s %s: exit %d, want %d and %q:\n%s", program, c.args, c.env, code, c.code, c.says, out)
			}
		}
	}
}

// TestUp_ExitsWith1ForWhatMayHeal checks the same for the whole system.
func TestUp_ExitsWith1ForWhatMayHeal(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	held, err := datafolder.Lock(filepath.Join(dir, "hubbub.lock"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	free := "[bus]\nlisten = '127.0.0.1:0'\n"
	for _, c := range []struct {
		settings string
		code     int
		says     string
	}{
		{free, 1, "another hubbub works on the data folder"},
		{"[bus]\nlisten = '" + taken.Addr().String() + "'", 1, ":2: [bus] listen"},
		{free + "tls-cert = '/no/cert'\ntls-key = '/no/key'", 1, "/no/cert"},
		{free + "[agent]\nmcp-file = '/no/file'", 1, "/no/file"},
		{free + "[system]\nagent-env-file = '/no/file'", 1, "/no/file"},
		{"[bus]\nlisten = '" + taken.Addr().String() + "'\nlisten-on = 'x'", 2, "unknown key listen-on"},
	} {
		file := filepath.Join(dir, "hubbub.toml")
		if err := os.WriteFile(file, []byte(c.settings), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := exitOf(t, nil, built(t, "hubbub"), "up", "--config", file, "--data", dir)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit %d, want %d and %q:\n%s", c.settings, code, c.code, c.says, out)
		}
	}
}

// TestStart_HealsFromTooFewFiles checks that a program which may open too few files never exits as
// if its settings were wrong, not even where Go's runtime fails before main.
func TestStart_HealsFromTooFewFiles(t *testing.T) {
	t.Parallel()
	env := []string{"GOTRACEBACK=crash"} // as the units, `hubbub up` and the spawner set it
	for _, program := range []string{"hubbub-bus", "hubbub-system", "hubbub-broker", "hubbub-tg", "hubbub-matrix", "hubbub-chorus", "hubbub-agent"} {
		for _, files := range []string{"5", "8"} {
			out, code := exitOf(t, env, "sh", "-c", `ulimit -c 0; ulimit -n "$2"; exec "$0" --data "$1"`,
				built(t, program), filepath.Join(t.TempDir(), "new"), files)
			if code == 0 || code == 2 {
				t.Errorf("%s with %s files: exit %d:\n%s", program, files, code, out)
			}
		}
	}
}
