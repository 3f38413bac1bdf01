package acp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/acp"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/protocol/http1"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"
)

// TestMain lets the test binary play an ACP program.
func TestMain(m *testing.M) {
	if os.Getenv(harnesstest.ACPRoleEnv) != "" {
		harnesstest.ServeACP()
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// rig is a harness over a program.
type rig struct {
	*acp.Harness
	t    *testing.T
	stop context.CancelFunc
	done chan error

	mu       sync.Mutex
	progress []harness.Progress
	onText   func(string)
}

func start(t *testing.T, argv []string, o *acp.Options) *rig {
	t.Helper()
	if o.Env == nil {
		o.Env = map[string]string{harnesstest.ACPRoleEnv: "fake"}
	}
	o.Env["GORACE"] = "atexit_sleep_ms=0"
	o.Backoff = retry.Backoff{Min: 1, Max: 1}
	r := &rig{Harness: acp.New(argv, o), t: t, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() {
		r.done <- r.Run(ctx, harness.Host{Progress: func(p harness.Progress) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.progress = append(r.progress, p)
			if r.onText != nil && p.Kind == harness.ProgressText {
				r.onText(p.Message)
			}
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-r.done; err != nil && !errors.Is(err, harness.ErrPermanent) {
			t.Errorf("Run: %v", err)
		}
	})
	return r
}

func fakeProgram(t *testing.T, o *acp.Options) *rig { return start(t, []string{os.Args[0]}, o) }

func turn(prompt string) *harness.Turn {
	return &harness.Turn{ID: "t1", Attempt: 1, System: "rules", Prompt: prompt,
		Event: harness.Event{EventID: "evt_1", ChatEvent: harness.ChatEvent{Conversation: harness.Conversation{ID: "C1", Kind: "dm"}}}}
}

func (r *rig) say(prompt string) string {
	r.t.Helper()
	out, err := r.Turn(r.t.Context(), turn(prompt), nil)
	if err != nil {
		r.t.Fatalf("%s: %v", prompt, err)
	}
	return out.FinalText
}

// TestTurn_SendsImagesIfSupported checks that a program without the capability gets no image.
func TestTurn_SendsImagesIfSupported(t *testing.T) {
	for role, want := range map[string]string{"seeing": "images: image/png UE5H, image/gif R0lG", "fake": "images:"} {
		r := fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: role}})
		caps, err := r.Capabilities(t.Context())
		if err != nil || caps.Images != (role == "seeing") {
			t.Errorf("%s: %+v, %v", role, caps, err)
		}
		tn := turn("images")
		tn.Images = []harness.Image{{MimeType: "image/png", Data: []byte("PNG")}, {MimeType: "image/gif", Data: []byte("GIF")}}
		if out, err := r.Turn(t.Context(), tn, nil); err != nil || out.FinalText != want {
			t.Errorf("%s: %q, %v; want %q", role, out.FinalText, err, want)
		}
	}
}

// TestCapabilities_FailWithoutTheProgram checks that Capabilities fails when its context ends.
func TestCapabilities_FailWithoutTheProgram(t *testing.T) {
	h := acp.New([]string{filepath.Join(t.TempDir(), "none")}, &acp.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if caps, err := h.Capabilities(ctx); err == nil || !caps.UsesSystemPrompt || caps.Injection != (harness.Capabilities{}).Injection {
		t.Errorf("%+v, %v", caps, err)
	}
}

func TestFinalText_FollowsTheLastToolCall(t *testing.T) {
	r := fakeProgram(t, &acp.Options{})
	for prompt, want := range map[string]string{
		"say  hello ": "hello", "work": "it is fine", "answer-then-tool": "the answer", "nothing": "",
	} {
		if got := r.say(prompt); got != want {
			t.Errorf("%s: %q, want %q", prompt, got, want)
		}
	}
	out, err := r.Turn(t.Context(), turn("work"), nil)
	if err != nil || out.Usage.ToolCalls != 1 || out.Usage.InputTokens != 5 || out.State != harness.Finished {
		t.Errorf("%+v, %v", out, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls, results int
	for _, p := range r.progress {
		switch p.Kind {
		case harness.ProgressToolCall:
			calls++
		case harness.ProgressToolResult:
			results++
		}
	}
	if calls != 3 || results != 2 {
		t.Errorf("%d calls and %d results were reported, want 3 and 2", calls, results)
	}
}

func TestSession_BelongsToOneConversation(t *testing.T) {
	dir := t.TempDir()
	r := fakeProgram(t, &acp.Options{Dir: dir, MaxSessions: 2})
	ask := func(conversation string, change func(*harness.Turn)) string {
		tn := turn("count")
		tn.Event.Conversation.ID = conversation
		if change != nil {
			change(tn)
		}
		out, err := r.Turn(t.Context(), tn, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out.FinalText
	}
	for i, c := range []struct {
		conversation string
		change       func(*harness.Turn)
		want         string
	}{
		{"C1", nil, "s1 prompt 1 of 2 blocks in " + dir},
		{"C1", nil, "s1 prompt 2 of 2 blocks in " + dir},
		{"C2", nil, "s2 prompt 1 of 2 blocks in " + dir},
		{"C2", func(tn *harness.Turn) { tn.Workspace = "/"; tn.System = "" }, "s3 prompt 1 of 1 blocks in /"},
		{"C1", nil, "s4 prompt 1 of 2 blocks in " + dir}, // forgotten: two are kept
	} {
		if got := ask(c.conversation, c.change); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
}

// TestProcessPool_OneProcessForEachChat covers opencode, which keeps one MCP server of each name
// per process, so that the calls of one chat would arrive with the token of another.
func TestProcessPool_OneProcessForEachChat(t *testing.T) {
	ask := func(r *rig, chat string) string {
		tn := turn("count")
		tn.Event.Conversation.ID, tn.Chat = chat, "tg:"+chat
		tn.ChatServer = &harness.MCPServer{Name: "hubbub", URL: "http://127.0.0.1:9/mcp", Headers: map[string]string{"Authorization": "Bearer of " + chat}}
		out, err := r.Turn(t.Context(), tn, nil)
		if err != nil {
			t.Fatal(err)
		}
		session, _, _ := strings.Cut(out.FinalText, " of")
		return session
	}
	for role, want := range map[string][]string{
		"fake":     {"s1 prompt 1", "s2 prompt 1", "s1 prompt 2", "s3 prompt 1"},
		"opencode": {"s1 prompt 1", "s1 prompt 1", "s1 prompt 2", "s1 prompt 1"},
	} {
		r := fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: role}})
		for i, chat := range []string{"1", "2", "1", "3"} {
			if got := ask(r, chat); got != want[i] {
				t.Errorf("%s, chat %s: %q, want %q", role, chat, got, want[i])
			}
		}
		if role == "opencode" {
			for n := range 12 { // the first processes go
				if got := ask(r, fmt.Sprint("more", n)); got != "s1 prompt 1" {
					t.Errorf("%q", got)
				}
			}
			if got := ask(r, "2"); got != "s1 prompt 1" {
				t.Errorf("the process that was used longest ago is still there: %q", got)
			}
		}
	}
}

func TestTurn_ProgramUsesTheChatTools(t *testing.T) {
	tools, token := &harnesstest.Tools{}, mcptools.NewToken()
	listener, url, err := mcptools.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- http1.Serve(ctx, listener, http1.NewServer(mcptools.NewToolServer(func(string) harness.Tools { return tools }, token, nil)), 2*time.Second)
	}()
	defer func() { cancel(); <-served }()
	tn := turn("chat over mcp")
	tn.ChatServer = mcptools.Address{URL: url, Token: token}.AsServer()

	out, err := fakeProgram(t, &acp.Options{}).Turn(t.Context(), tn, nil)
	if err != nil || out.FinalText != "sent, error false" {
		t.Fatalf("%+v, %v", out, err)
	}
	if calls := tools.Calls(); len(calls) != 1 || calls[0].Name != "chat.send_message" || calls[0].Arguments["text"] != "over mcp" {
		t.Errorf("calls %v", calls)
	}
	out, err = fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "no-http"}}).Turn(t.Context(), tn, nil)
	if err != nil || out.FinalText != "no tools" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestPermission_FollowsTheOption(t *testing.T) {
	for permission, want := range map[acp.Permission]map[string]string{
		acp.PermitReading: {
			"read a file": "once", "execute rm -rf /": "no", "edit config": "no", "other something": "no",
			"other mcp__hubbub__chat_send_message": "no", "other chat.send_message (hubbub MCP Server)": "no", // words of a title
		},
		acp.PermitAsking:     {"read a file": "once", "execute make": "no"}, // no person can be asked
		acp.PermitEverything: {"execute make": "once"},
		acp.PermitNothing:    {"read a file": "no"},
	} {
		r := fakeProgram(t, &acp.Options{Permission: permission})
		for what, answer := range want {
			if got := r.say("permission " + what); got != answer {
				t.Errorf("%s, %s: %q, want %q", permission, what, got, answer)
			}
		}
	}
}

func TestTurn_FailsWithACrashAndTheNextRuns(t *testing.T) {
	r := fakeProgram(t, &acp.Options{})
	if _, err := r.Turn(t.Context(), turn("crash"), nil); !errors.Is(err, harness.ErrTemporary) || !strings.Contains(err.Error(), "exit status 4; it wrote: FATAL: no such model") {
		t.Errorf("err = %v", err)
	}
	for { // the first may still meet the program that dies
		out, err := r.Turn(t.Context(), turn("say back"), nil)
		if err == nil {
			if out.FinalText != "back" {
				t.Errorf("%+v", out)
			}
			return
		}
		if !errors.Is(err, harness.ErrTemporary) {
			t.Fatal(err)
		}
	}
}

// TestRun_ExplainsAProgramThatExits checks that the log has the exit code and the last lines of
// output rather than the error of the closed connection.
func TestRun_ExplainsAProgramThatExits(t *testing.T) {
	lines := make(chan string, 8)
	log := zerolog.New(writer(func(line []byte) {
		if bytes.Contains(line, []byte("program ended")) {
			select {
			case lines <- string(line):
			default: // enough are read
			}
		}
	}))
	start(t, []string{"sh", "-c", "echo no key >&2; exit 3"}, &acp.Options{Log: &log})
	for range 8 {
		if line := <-lines; !strings.Contains(line, "exit status 3; it wrote: no key") {
			t.Error(line)
		}
	}
}

// A writer takes lines of a log.
type writer func(line []byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

func TestTurn_CancelStopsTheProgram(t *testing.T) {
	for _, prompt := range []string{"wait", "hang"} {
		t.Run(prompt, func(t *testing.T) {
			r := fakeProgram(t, &acp.Options{CancelTimeout: 50 * time.Millisecond, Grace: 10 * time.Millisecond})
			cause := errors.New("the message was deleted")
			ctx, cancel := context.WithCancelCause(t.Context())
			r.onText = func(string) { cancel(cause) }
			if _, err := r.Turn(ctx, turn(prompt), nil); !errors.Is(err, cause) {
				t.Errorf("err = %v", err)
			}
			if _, err := r.Capabilities(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTurn_FailureSaysWhatToDo(t *testing.T) {
	r := fakeProgram(t, &acp.Options{})
	if _, err := r.Turn(t.Context(), turn("fail"), nil); !errors.Is(err, harness.ErrTemporary) || !strings.Contains(err.Error(), "no credit") || strings.Contains(err.Error(), "sk-abc") {
		t.Errorf("err = %v", err)
	}
	if _, err := r.Turn(t.Context(), turn("limit"), nil); !errors.Is(err, harness.ErrBudget) {
		t.Errorf("err = %v", err)
	}
	r = fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "logged-out"}})
	if _, err := r.Turn(t.Context(), turn("say x"), nil); !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "log in") {
		t.Errorf("err = %v", err)
	}
	r = fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "future"}})
	if _, err := r.Turn(t.Context(), turn("say x"), nil); !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("err = %v", err)
	}
}

// TestTurn_ReplacesALostSession checks that one error does not end a session, and that a session that
// answers a repeated turn with an error, too, is replaced.
func TestTurn_ReplacesALostSession(t *testing.T) {
	r := fakeProgram(t, &acp.Options{})
	if _, err := r.Turn(t.Context(), turn("fail"), nil); !errors.Is(err, harness.ErrTemporary) {
		t.Errorf("err = %v", err)
	}
	if got := r.say("count"); !strings.HasPrefix(got, "s1 prompt 2 ") {
		t.Errorf("after one error: %s", got)
	}
	for attempt, prompt := range []string{"lose", "count"} {
		again := turn(prompt)
		again.Attempt = attempt + 1
		if _, err := r.Turn(t.Context(), again, nil); !errors.Is(err, harness.ErrTemporary) {
			t.Errorf("attempt %d: err = %v", again.Attempt, err)
		}
	}
	if got := r.say("count"); !strings.HasPrefix(got, "s2 prompt 1 ") {
		t.Errorf("after two errors: %s", got)
	}
}

func TestTurn_RefusesASessionIDThatIsNotText(t *testing.T) {
	r := fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "surrogate"}})
	if _, err := r.Turn(t.Context(), turn("count"), nil); err == nil || !strings.Contains(err.Error(), "session id \"s\ufffd\" must be valid Unicode") {
		t.Errorf("err = %v", err)
	}
}

func TestRun_RestartsASilentProgram(t *testing.T) {
	r := fakeProgram(t, &acp.Options{Env: map[string]string{harnesstest.ACPRoleEnv: "mute"}, InitTimeout: 20 * time.Millisecond, Grace: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.Turn(ctx, turn("say x"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestTurn_EndsWithRun(t *testing.T) {
	r := fakeProgram(t, &acp.Options{Grace: 50 * time.Millisecond})
	r.onText = func(string) { r.stop() }
	if _, err := r.Turn(t.Context(), turn("wait"), nil); err == nil {
		t.Error("the turn of a harness that was stopped succeeded")
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	if _, err := r.Turn(t.Context(), turn("say x"), nil); !errors.Is(err, harness.ErrStopped) {
		t.Errorf("err = %v", err)
	}
}

// TestTurn_WithTheExampleAgentOfTheSDK drives a complete program of another author.
func TestTurn_WithTheExampleAgentOfTheSDK(t *testing.T) {
	if testing.Short() {
		t.Skip("the example takes its time")
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "example-agent")
	build := exec.Command("go", "build", "-o", program, "github.com/coder/acp-go-sdk/example/agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as scripts/build
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r := start(t, []string{program}, &acp.Options{Permission: acp.PermitReading})
	out, err := r.Turn(t.Context(), turn("improve this project"), nil)
	if err != nil || !strings.HasPrefix(out.FinalText, "I understand you prefer not to make that change") || out.Usage.ToolCalls != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}
