package cmd_test

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/bus/bustest"
)

// a2aEnv names the folder in which scripts/test-a2a has installed A2A's JavaScript SDK.
const a2aEnv = "HUBBUB_A2A"

// javaScript returns a command that runs a script of testdata with the SDK.
func javaScript(t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	return node(t, a2aEnv, "make test-a2a", filepath.Join("a2a", script), args...)
}

// node returns a command that runs a script of testdata with packages from the folder in a
// variable. target names the make target that installs them.
func node(t *testing.T, variable, target, path string, args ...string) *exec.Cmd {
	t.Helper()
	folder, script := os.Getenv(variable), filepath.Base(path)
	if folder == "" {
		t.Skipf("%s is not set: %s installs what it needs and sets it", variable, target)
	}
	source, err := os.ReadFile(filepath.Join("testdata", path))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() // node resolves imports beside the script
	if err := os.Symlink(filepath.Join(folder, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, script), source, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(dir, script)}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	return cmd
}

// TestJavaScriptSDK runs agents and clients of A2A's JavaScript SDK against Hubbub.
func TestJavaScriptSDK(t *testing.T) {
	for _, binding := range []string{"rpc", "rest"} {
		t.Run("an agent over "+binding, func(t *testing.T) { checkJoinsChat(t, binding) })
	}
	for _, binding := range []string{"JSONRPC", "HTTP+JSON"} {
		t.Run("a client over "+binding, func(t *testing.T) { checkReachesAgent(t, binding) })
	}
}

// checkJoinsChat runs an agent of the SDK in a direct chat and in a group.
func checkJoinsChat(t *testing.T, binding string) {
	address := bustest.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: "the agent of the SDK", sign: regexp.MustCompile(`(?m)^ready$`)}
	p.cmd = javaScript(t, "agent.mjs", port, binding)
	p.cmd.Stderr = p
	p.start(t)
	s := newFixture(t, "--harness=a2a", "--a2a-url=http://"+address)
	s.start("broker")
	will := s.api.User("Will")
	chat, group := s.api.DM(will), s.api.Group(-42, "Team")
	s.api.Say(chat, will, "hello")
	if got := s.awaitTexts(chat, 1); !slices.Equal(got, []string{"I heard hello"}) {
		t.Errorf("in a direct chat: %q", got)
	}
	s.api.Say(group, will, "lunch is at noon")
	s.api.Say(group, s.api.User("Ann"), "@"+s.api.Bot().Username+" which day is it?")
	if got := s.awaitTexts(group, 1); !slices.Equal(got, []string{"I heard @" + s.api.Bot().Username + " which day is it?"}) {
		t.Errorf("in a group: %q", got)
	}
	wait := s.api.Say(chat, will, "wait")
	s.await("the task", func() bool { return strings.Contains(p.whole(), `heard "wait"`) })
	s.api.EditText(wait, "go on")
	s.await("the end of the task", func() bool { return strings.Contains(p.whole(), "cancelled") })
	if got := s.awaitTexts(chat, 2); got[1] != "I heard go on" {
		t.Errorf("after an edit: %q", got)
	}
	if strings.Contains(p.whole(), "lunch") {
		t.Error("what nobody asked the agent was sent to it")
	}
	checkReceived(t, p.whole())
}

// checkReceived checks what an agent of the SDK has printed of each message: its header with the
// policy, and the words in a fence, preceded once per conversation by the rules and the contract.
func checkReceived(t *testing.T, printed string) {
	t.Helper()
	header := regexp.MustCompile(`(?s)C2A EVENT\n.*\nauthor: human:(Will|Ann)\n.*\nresponse_policy: must_respond\n.*\nfence: (\w+)\n\nMESSAGE\n<<(\w+)\n(.+)\n(\w+)>>\n$`)
	heard, introduced := []string{}, 0
	for _, line := range regexp.MustCompile(`(?m)^received (.*)$`).FindAllStringSubmatch(printed, -1) {
		var prompt string
		if err := json.Unmarshal([]byte(line[1]), &prompt); err != nil {
			t.Fatal(err)
		}
		parts := header.FindStringSubmatch(prompt)
		if parts == nil || parts[2] != parts[3] || parts[2] != parts[5] {
			t.Errorf("received without a header or fence: %s", prompt)
			continue
		}
		heard = append(heard, parts[1]+": "+parts[4])
		if rules, _, _ := strings.Cut(prompt, "C2A EVENT\n"); rules != "" {
			introduced++
			mustContain(t, rules, "## Delegation", "must_not_respond: send nothing", "You have none of the chat tools",
				"in conversations of the broker a mention inside your text wakes nobody. In a chat, an @name of an agent in your text obliges that agent")
		}
	}
	if introduced != 2 || len(heard) != 4 || heard[0] != "Will: hello" || !strings.HasPrefix(heard[1], "Ann: @") || heard[2] != "Will: wait" || heard[3] != "Will: go on" {
		t.Errorf("received %q, %d times with the rules; want four messages of two conversations", heard, introduced)
	}
}

// checkReachesAgent lets a client of the SDK talk to a scripted agent.
func checkReachesAgent(t *testing.T, binding string) {
	javaScript(t, "client.mjs") // skips if the SDK is missing
	s := newFixture(t)
	s.start("chorus")
	at := regexp.MustCompile(`"listen":"([^"]+)"`).FindStringSubmatch(s.run["chorus"].whole())
	if at == nil {
		t.Fatalf("the gateway did not say where it listens: %s", s.run["chorus"].text())
	}
	out, err := exec.CommandContext(t.Context(), built(t, "hubbub"), "chorus", "inbox", "create", "js", "--data", s.data).Output()
	_, secret, ok := strings.Cut(strings.TrimSpace(string(out)), "/inbox/")
	if err != nil || !ok {
		t.Fatalf("%s, %v", out, err)
	}
	said, err := javaScript(t, "client.mjs", "http://"+at[1], secret, binding).CombinedOutput()
	want := []string{
		`^task TASK_STATE_COMPLETED Hello.*scripted agent`, `^got TASK_STATE_COMPLETED$`, `^artifact .*is it done`, `^status TASK_STATE_COMPLETED$`,
		`^cancel TASK_STATE_CANCELED$`, `^refused 401$`,
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for i, pattern := range want {
		if len(lines) != len(want) || !regexp.MustCompile(pattern).MatchString(lines[i]) {
			t.Fatalf("line %d is not %q, %v:\n%s", i+1, pattern, err, said)
		}
	}
}
