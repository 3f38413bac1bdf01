package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/protocol/datafolder"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// A call is one run of a program in a test.
type call struct {
	args []string
	env  map[string]string
}

type outcome struct {
	code           int
	stdout, stderr string
}

func (c call) process(stdout, stderr io.Writer) hostProcess {
	return hostProcess{
		args: c.args, stdin: strings.NewReader(""), stdout: stdout, stderr: stderr,
		lookupEnv: func(k string) (string, bool) { v, ok := c.env[k]; return v, ok },
		exit:      func(int) {},
	}
}

func (c call) run(t *testing.T, p Program) outcome {
	t.Helper()
	if c.env == nil {
		c.env = map[string]string{"HOME": t.TempDir()}
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), p, c.process(&stdout, &stderr))
	return outcome{code, stdout.String(), stderr.String()}
}

// probe is a program that keeps what it was given.
type probe struct {
	Listen string        `flag:"listen" default:"127.0.0.1:1" usage:"where to listen"`
	Wait   time.Duration `flag:"poll-timeout" default:"1s" usage:"how long to wait"`
	Allow  []string      `flag:"allow-user" usage:"who may (repeatable)"`
	All    bool          `flag:"allow-all" usage:"everybody may"`
	env    *Env
	do     func(ctx context.Context, env *Env) error
}

func (s *probe) program() Program {
	return Program{
		Name: "hubbub-test", Summary: "is a test",
		Settings: []any{s},
		Run: func(ctx context.Context, env *Env) error {
			s.env = env
			if s.do != nil {
				return s.do(ctx, env)
			}
			return nil
		},
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSettings_FlagsOverrideVariablesOverrideFile(t *testing.T) {
	file := write(t, `
listen = "file:1"
poll-timeout = "3s"
allow-user = [7, "8"]
allow-all = true
bus = ["ws://a:1", "ws://b:2"]
data = "/from/file"
`)
	var s probe
	out := call{
		args: []string{"--config", file, "--listen", "flag:1"},
		env: map[string]string{
			"HOME": "/home/x", "HUBBUB_LISTEN": "variable:1", "HUBBUB_POLL_TIMEOUT": "2s",
			"HUBBUB_DATA": "/from/variable", "HUBBUB_ALLOW_ALL": "",
		},
	}.run(t, s.program())
	if out.code != 0 {
		t.Fatalf("exit %d: %s", out.code, out.stderr)
	}
	got := []any{s.Listen, s.Wait, s.Allow, s.All, s.env.Buses, s.env.Data}
	want := []any{"flag:1", 2 * time.Second, []string{"7", "8"}, true, []string{"ws://a:1", "ws://b:2"}, "/from/variable"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestConfig_ReadsOneTable(t *testing.T) {
	file := write(t, "data = '/d'\n[tg]\nlisten = 'table:1'\n[bus]\nanything = 1")
	var s probe
	if out := (call{args: []string{"--config", file + "#tg"}}).run(t, s.program()); out.code != 0 || s.Listen != "table:1" {
		t.Errorf("listen %q: %+v", s.Listen, out)
	}
	levels := write(t, "log-level = 'error'\nlog-format = 'console'\n[tg]\nlog-format = 'json'")
	for _, table := range []string{"tg", "absent"} {
		var s probe
		if out := (call{args: []string{"--config", levels + "#" + table}}).run(t, s.program()); out.code != 0 || s.env.LogLevel() != "error" || (s.env.LogFormat() == "json") != (table == "tg") {
			t.Errorf("the log of [%s] is %s at %s: %+v", table, s.env.LogFormat(), s.env.LogLevel(), out)
		}
	}
	if out := (call{args: []string{"--config", file + "#absent"}}).run(t, s.program()); out.code != 0 {
		t.Errorf("a table that the file lacks: %+v", out)
	}
	if out := (call{args: []string{"--config", file + "#bus"}}).run(t, s.program()); out.code != 2 || !strings.Contains(out.stderr, file+"#bus: unknown key \"anything\"") {
		t.Errorf("an unknown key in the table: %+v", out)
	}
}

func TestSettings_DivideRepeatableVariables(t *testing.T) {
	for value, want := range map[string][]string{
		"7, 8,":        {"7", "8"},
		"a,b\nc d\n\n": {"a,b", "c d"},
	} {
		var s probe
		call{env: map[string]string{"HOME": "/x", "HUBBUB_ALLOW_USER": value}}.run(t, s.program())
		if diff := cmp.Diff(want, s.Allow); diff != "" {
			t.Errorf("%q: %s", value, diff)
		}
	}
}

func TestDataFolder_HasADefault(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"XDG_DATA_HOME": "/xdg", "HOME": "/home/x"}, "/xdg/hubbub"},
		{map[string]string{"XDG_DATA_HOME": "relative", "HOME": "/home/x"}, "/home/x/.local/share/hubbub"},
		{map[string]string{"HOME": "/home/x"}, "/home/x/.local/share/hubbub"},
	} {
		var s probe
		if out := (call{env: c.env}).run(t, s.program()); out.code != 0 || s.env.Data != c.want {
			t.Errorf("%v: exit %d, data %v, want %s", c.env, out.code, s.env, c.want)
		}
	}
	var s probe
	if out := (call{env: map[string]string{"A": "b"}}).run(t, s.program()); out.code != 2 || !strings.Contains(out.stderr, "--data") {
		t.Errorf("without a home: %+v", out)
	}
}

func TestUsage_ExitsWith2(t *testing.T) {
	for name, c := range map[string]struct {
		call call
		says string
	}{
		"unknown flag":      {call{args: []string{"--nope"}}, "--nope"},
		"argument":          {call{args: []string{"extra"}}, "extra"},
		"bad value":         {call{args: []string{"--poll-timeout", "soon"}}, "poll-timeout"},
		"bad variable":      {call{env: map[string]string{"HOME": "/x", "HUBBUB_POLL_TIMEOUT": "soon"}}, "HUBBUB_POLL_TIMEOUT"},
		"unknown key":       {call{args: []string{"--config", write(t, "poll-timout = 1")}}, "poll-timout"},
		"table":             {call{args: []string{"--config", write(t, "[tg]\nlisten = 'x'")}}, `"tg"`},
		"secret in file":    {call{args: []string{"--config", write(t, "token = 'abc'")}}, `"token"`},
		"config in config":  {call{args: []string{"--config", write(t, "config = 'abc'")}}, `"config"`},
		"not TOML":          {call{args: []string{"--config", write(t, "a = 1\nb = = 2")}}, "line 2"},
		"list for a single": {call{args: []string{"--config", write(t, "listen = ['a', 'b']")}}, "listen"},
		"nested value":      {call{args: []string{"--config", write(t, "listen = [['a']]")}}, "listen"},
		"bus":               {call{args: []string{"--bus", "http://x"}}, "http://x"},
		"log level":         {call{args: []string{"--log-level", "loud"}}, "loud"},
		"log format":        {call{args: []string{"--log-format", "xml"}}, "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			var s probe
			out := c.call.run(t, s.program())
			if out.code != 2 || !strings.Contains(out.stderr, c.says) || s.env != nil {
				t.Errorf("exit %d, ran %t, stderr %q; want 2 and %q", out.code, s.env != nil, out.stderr, c.says)
			}
		})
	}
}

func TestProgram_PrintsHelpAndVersion(t *testing.T) {
	var s probe
	out := call{args: []string{"--help"}}.run(t, s.program())
	for _, want := range []string{"hubbub-test is a test.", "--poll-timeout", "--token-file", "HUBBUB_LOG_LEVEL"} {
		if !strings.Contains(out.stdout, want) {
			t.Errorf("help lacks %q:\n%s", want, out.stdout)
		}
	}
	if out.code != 0 || s.env != nil {
		t.Errorf("help: %+v", out)
	}
	out = call{args: []string{"--version"}}.run(t, s.program())
	if out.code != 0 || !strings.HasPrefix(out.stdout, "hubbub-test ") || s.env != nil {
		t.Errorf("version: %+v", out)
	}
}

func TestProgram_ReturnsExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{errors.New("the disk is full"), 1, "hubbub-test: the disk is full\n"},
		{Usage("give --id"), 2, "give --id"},
		{fmt.Errorf("wrapped: %w", Usage("give --id")), 2, "give --id"},
		{fmt.Errorf("serving: %w", &net.OpError{Op: "listen", Err: syscall.EADDRINUSE}), 1, "address already in use"},
		{Usage("--listen: %w", &net.DNSError{Err: "no such host", Name: "bus.internal"}), 1, "no such host"},
		{Usage("--tls-cert: %w", &fs.PathError{Op: "open", Path: "/tls/cert", Err: syscall.EMFILE}), 1, "too many open files"},
		{Usage("--token-file: %w", Retryable(errors.New("it is empty"))), 1, "hubbub-test: --token-file: it is empty\n"},
		{Usage("--listen: %w", &net.AddrError{Err: "missing port", Addr: "x"}), 2, "--help"},
		{&net.OpError{Op: "dial", Err: syscall.EADDRNOTAVAIL}, 1, "dial"},
		{fmt.Errorf("version 9: %w", datafolder.ErrOtherVersion), 2, "the program that wrote it"},
	} {
		s := probe{do: func(context.Context, *Env) error { return c.err }}
		if out := (call{}).run(t, s.program()); out.code != c.code || !strings.Contains(out.stderr, c.says) {
			t.Errorf("%v: %+v", c.err, out)
		}
	}
}

func TestLog_LeavesOutSecrets(t *testing.T) {
	tokenFile := write(t, "tok-from-file\n")
	s := probe{do: func(_ context.Context, env *Env) error {
		token, err := env.Token()
		if err != nil {
			return err
		}
		key, err := env.Secret("SOME_KEY")
		if err != nil {
			return err
		}
		env.Log.Info().Str("token", token).Msg("using " + key)
		return fmt.Errorf("calling https://api/%s/x failed", key)
	}}
	out := call{
		args: []string{"--token-file", tokenFile},
		env:  map[string]string{"HOME": "/x", "SOME_KEY_FILE": write(t, `key-with-"quote`), "HUBBUB_TOKEN": "other-token"},
	}.run(t, s.program())
	if out.code != 1 || strings.Contains(out.stderr, "tok-from-file") || strings.Contains(out.stderr, "key-with") {
		t.Errorf("exit %d: %s", out.code, out.stderr)
	}
	if n := strings.Count(out.stderr, redactedText); n != 3 {
		t.Errorf("%d places cut out, want 3: %s", n, out.stderr)
	}
}

func TestToken_IsReadInOrder(t *testing.T) {
	a, b := write(t, "token-in-a"), write(t, "token-in-b")
	data := t.TempDir() // of `hubbub up`
	if err := os.MkdirAll(filepath.Dir(TokenPath(data, "hubbub-test")), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(TokenPath(data, "test"), []byte("token-of-up\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		call call
		want string
	}{
		{"none", call{}, ""},
		{"variable", call{env: map[string]string{"HOME": "/x", "HUBBUB_TOKEN": "token-in-variable"}}, "token-in-variable"},
		{"flag wins", call{args: []string{"--token-file", a}, env: map[string]string{"HOME": "/x", "HUBBUB_TOKEN": "t"}}, "token-in-a"},
		{"variable over file", call{
			args: []string{"--config", write(t, fmt.Sprintf("token-file = %q", b))},
			env:  map[string]string{"HOME": "/x", "HUBBUB_TOKEN": "token-in-variable"},
		}, "token-in-variable"},
		{"file", call{args: []string{"--config", write(t, fmt.Sprintf("token-file = %q", b))}}, "token-in-b"},
		{"left by up", call{args: []string{"--data", data}}, "token-of-up"},
		{"variable over the one left by up", call{
			args: []string{"--data", data},
			env:  map[string]string{"HOME": "/x", "HUBBUB_TOKEN": "token-in-variable"},
		}, "token-in-variable"},
	} {
		var got string
		s := probe{do: func(_ context.Context, env *Env) (err error) { got, err = env.Token(); return err }}
		if out := c.call.run(t, s.program()); out.code != 0 || got != c.want {
			t.Errorf("%s: token %q, want %q (%+v)", c.name, got, c.want, out)
		}
	}
	s := probe{do: func(_ context.Context, env *Env) error { _, err := env.Token(); return err }}
	if out := (call{args: []string{"--token-file", write(t, "\n")}}).run(t, s.program()); out.code != 1 || !strings.Contains(out.stderr, "empty") {
		t.Errorf("empty token file: %+v", out)
	}
}

func TestReady_IsLoggedOnceAtEveryLevel(t *testing.T) {
	s := probe{do: func(_ context.Context, env *Env) error { env.Ready(); env.Ready(); return nil }}
	out := call{args: []string{"--log-level", "error"}}.run(t, s.program())
	var line struct{ Level, Message string }
	if err := json.Unmarshal([]byte(out.stderr), &line); err != nil {
		t.Fatalf("not one JSON line: %q", out.stderr)
	}
	if line.Level != "info" || line.Message != "ready" {
		t.Errorf("got %+v", line)
	}
	out = call{args: []string{"--log-format", "console"}}.run(t, s.program())
	if !strings.Contains(out.stderr, "INF ready") {
		t.Errorf("console line: %q", out.stderr)
	}
}

func TestLogTo_RedirectsTheLog(t *testing.T) {
	var elsewhere bytes.Buffer
	s := probe{do: func(_ context.Context, env *Env) error {
		env.Hide("a-secret")
		env.LogTo(&elsewhere)
		env.Log.Warn().Str("x", "a-secret").Msg("moved")
		return nil
	}}
	out := call{args: []string{"--log-format", "console"}}.run(t, s.program())
	if got := elsewhere.String(); out.stderr != "" || !strings.Contains(got, `"message":"moved"`) || strings.Contains(got, "a-secret") {
		t.Errorf("stderr %q, elsewhere %q", out.stderr, got)
	}
}

// TestSIGHUP_StopsOnlyAtATerminal checks that SIGHUP does not stop a service, which takes it as a
// request to reload its settings.
func TestSIGHUP_StopsOnlyAtATerminal(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("nohup runs the tests: nothing hears SIGHUP")
	}
	for name, terminal := range map[string]bool{"a service": false, "at a terminal": true} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, said := bytes.Buffer{}, bytes.Buffer{}, make(chan string, 8)
			s := probe{do: func(ctx context.Context, env *Env) error {
				env.LogTo(writerFunc(func(line []byte) { said <- string(line) }))
				if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
					return err
				}
				if line := <-said; strings.Contains(line, `"stopping"`) != terminal || strings.Contains(line, "changes nothing") == terminal {
					t.Errorf("at SIGHUP: %s", line)
				}
				if !terminal {
					if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return ctx.Err()
			}}
			o := call{env: map[string]string{"HOME": t.TempDir()}}.process(&stdout, &stderr)
			o.terminal = terminal
			if code := run(t.Context(), s.program(), o); code != 0 {
				t.Errorf("exit %d: %s", code, stderr.String())
			}
		})
	}
}

type writerFunc func(line []byte)

func (w writerFunc) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

func TestSIGTERM_EndsRunCleanly(t *testing.T) {
	s := probe{do: func(ctx context.Context, _ *Env) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	if out := (call{}).run(t, s.program()); out.code != 0 || !strings.Contains(out.stderr, "stopping") {
		t.Errorf("%+v", out)
	}
}

// TestAwaitData_EndsForAStop stops while the folder is made, or while another program has
// it.
func TestAwaitData_EndsForAStop(t *testing.T) {
	for _, taken := range []bool{false, true} {
		s := probe{do: func(ctx context.Context, env *Env) error {
			own := func() {
				release, err := env.OwnData()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(release)
			}
			if taken {
				own()
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-ctx.Done()
			release, err := env.AwaitData(ctx)
			if release != nil || !errors.Is(err, context.Canceled) {
				t.Errorf("taken %t: the folder is given, %v", taken, err)
			}
			if !taken {
				own()
			}
			return err
		}}
		if out := (call{args: []string{"--data", t.TempDir()}}).run(t, s.program()); out.code != 0 {
			t.Errorf("taken %t: %+v", taken, out)
		}
	}
}

func TestEnv_NotifiesSystemd(t *testing.T) {
	folder, err := os.MkdirTemp("", "") // the path of a socket has at most 104 bytes on macOS
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	next := func() string {
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return string(buf[:n])
	}
	s := probe{do: func(ctx context.Context, env *Env) error {
		env.Pulse() // before it is ready, which systemd does not ask for
		env.Ready()
		if got := next(); got != "READY=1" {
			t.Errorf("first %q", got)
		}
		for range 2 { // the second comes too soon, and is not passed on
			env.Pulse()
		}
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("then %q", got)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}}
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "60000000")
	out := call{}.run(t, s.program())
	if out.code != 0 {
		t.Fatalf("%+v", out)
	}
	if got := next(); got != "STOPPING=1" { // nothing feeds the watchdog but the program's pulse
		t.Errorf("at the end %q", got)
	}
}

// tree is a command line of two commands.
func tree(do func(env *Env) error) *Attached {
	root := &cobra.Command{Use: "hubbub"}
	one := &cobra.Command{Use: "one X", RunE: func(cmd *cobra.Command, _ []string) error { return do(From(cmd)) }}
	one.Flags().String("type", "t", "")
	two := &cobra.Command{Use: "two", RunE: func(*cobra.Command, []string) error { return nil }}
	two.Flags().String("since", "", "")
	root.AddCommand(one, two)
	return Attach(root)
}

func TestAttached_RunsCommands(t *testing.T) {
	home := t.TempDir()
	data := filepath.Join(home, ".local", "share", "hubbub")
	if err := os.MkdirAll(filepath.Join(data, "tokens"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "tokens", "cli"), []byte("token-for-people\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a bus with TLS alone":    {[]string{"one", "x", "--config", write(t, "[bus]\ntls-cert = 'c'")}, 0, "ran with wss://127.0.0.1:7892"},
		"runs":                    {[]string{"one", "x"}, 0, "ran"},
		"another command's key":   {[]string{"one", "x", "--config", write(t, "since = '1h'\n[tg]\na = 1")}, 0, "ran"},
		"the bus of the system":   {[]string{"one", "x", "--config", write(t, "[bus]\nlisten = '0.0.0.0:7999'")}, 0, "ran with ws://127.0.0.1:7999"},
		"the bus with TLS":        {[]string{"one", "x", "--config", write(t, "[bus]\nlisten = '[::1]:7999'\ntls-cert = 'c'")}, 0, "ran with wss://[::1]:7999"},
		"the flag wins":           {[]string{"one", "x", "--bus", "ws://other:1", "--config", write(t, "[bus]\nlisten = '0.0.0.0:7999'")}, 0, "ran with ws://other:1"},
		"a bus that is nowhere":   {[]string{"one", "x", "--config", write(t, "[bus]\nlisten = '7999'")}, 2, `listen = "7999" is not an address`},
		"nobody's key":            {[]string{"one", "x", "--config", write(t, "sincee = '1h'")}, 2, "sincee"},
		"too few arguments":       {[]string{"one"}, 2, "X is missing"},
		"unknown command":         {[]string{"three"}, 2, "three"},
		"unknown flag":            {[]string{"one", "x", "--nope"}, 2, "nope"},
		"version":                 {[]string{"--version"}, 0, "hubbub "},
		"version and a flag":      {[]string{"--version", "--data", "/d"}, 0, "hubbub "},
		"a flag and version":      {[]string{"--data", "/d", "--version"}, 0, "hubbub "},
		"version, short":          {[]string{"-v", "--bus", "ws://x:1", "--config", "/c"}, 0, "hubbub "},
		"help and a flag":         {[]string{"--help", "--data", "/d"}, 0, "Available Commands"},
		"help, short":             {[]string{"-h", "--data", "/d", "one"}, 0, "hubbub one X"},
		"help":                    {[]string{"help", "one"}, 0, "hubbub one X"},
		"failure of the command":  {[]string{"one", "x", "--bus", "ws://fails"}, 1, "no such bus"},
		"bad common flag's value": {[]string{"one", "x", "--bus", "ftp://x"}, 2, "ftp://x"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := tree(func(env *Env) error {
				fmt.Fprintln(&stdout, "ran with "+env.Buses[0])
				if env.Buses[0] == "ws://fails" {
					return errors.New("no such bus")
				}
				if token, err := env.Token(); err != nil || token != "token-for-people" {
					t.Errorf("token %q, %v", token, err)
				}
				return nil
			})
			code := a.execute(t.Context(), call{args: c.args, env: map[string]string{"HOME": home}}.process(&stdout, &stderr))
			if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.says) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %d and %q", code, stdout.String(), stderr.String(), c.code, c.says)
			}
		})
	}
}

// TestAttached_RunsWithoutAHome checks that a command that needs no data folder also runs where there
// is no home directory, as in builds of packages.
func TestAttached_RunsWithoutAHome(t *testing.T) {
	for name, c := range map[string]struct {
		annotated bool
		args      []string
		code      int
	}{
		"a command":               {false, []string{"one", "x"}, 2},
		"a command with a folder": {false, []string{"one", "x", "--data", t.TempDir()}, 0},
		"one without data":        {true, []string{"one", "x"}, 0},
		"help":                    {false, []string{"help", "one"}, 0},
		"completion":              {false, []string{"completion", "bash"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := tree(func(env *Env) error {
				if want := !c.annotated; want != (env.Data != "") {
					t.Errorf("the folder is %q", env.Data)
				}
				return nil
			})
			if c.annotated {
				a.root.Annotations = map[string]string{NoData: ""}
			}
			code := a.execute(t.Context(), call{args: c.args, env: map[string]string{"A": "b"}}.process(&stdout, &stderr))
			if code != c.code || code != 0 && !strings.Contains(stderr.String(), "--data") {
				t.Errorf("exit %d, stdout %q, stderr %q; want %d", code, stdout.String(), stderr.String(), c.code)
			}
		})
	}
}

// TestAttached_ReportsAnInterruptedCommand checks that a command that a signal interrupts, such
// as a backup, returns an error, and that a command that runs until it is stopped does not.
func TestAttached_ReportsAnInterruptedCommand(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
	}{"cut short": {context.Canceled, 1}, "until stopped": {nil, 0}} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			a := tree(func(*Env) error { return nil })
			one, _, err := a.root.Find([]string{"one"})
			if err != nil {
				t.Fatal(err)
			}
			one.RunE = func(cmd *cobra.Command, _ []string) error {
				if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
					return err
				}
				<-cmd.Context().Done()
				return c.err
			}
			code := a.execute(t.Context(), call{args: []string{"one", "x"}, env: map[string]string{"HOME": t.TempDir()}}.process(&stdout, &stderr))
			if says := strings.Contains(stderr.String(), "stopped by a signal"); code != c.code || says != (c.code == 1) {
				t.Errorf("exit %d, stderr %q", code, stderr.String())
			}
		})
	}
}
