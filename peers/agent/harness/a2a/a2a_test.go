package a2a_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/a2a"
	"hubbub/peers/netguard"
	"hubbub/protocol/retry"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

const token = "tok-of-the-agent-elsewhere"

// A remoteAgent is an agent of the official library. It does what the first word says.
type remoteAgent struct {
	*httptest.Server
	card *sdk.AgentCard
	cut  bool // the stream breaks off after its first event

	mu       sync.Mutex
	received []*sdk.Message
	tokens   []string // shown with each request
	working  chan sdk.TaskID
	finish   chan struct{} // lets "wait" end well
	canceled chan sdk.TaskID
	refuse   int // HTTP status of all answers but the card
}

func newRemoteAgent(t *testing.T, binding sdk.TransportProtocol) *remoteAgent {
	t.Helper()
	e := &remoteAgent{working: make(chan sdk.TaskID, 8), finish: make(chan struct{}), canceled: make(chan sdk.TaskID, 8)}
	handler := a2asrv.NewHandler(e)
	answers := map[sdk.TransportProtocol]http.Handler{
		sdk.TransportProtocolJSONRPC: a2asrv.NewJSONRPCHandler(handler), sdk.TransportProtocolHTTPJSON: http.StripPrefix("/a2a", a2asrv.NewRESTHandler(handler)),
	}[binding]
	mux := http.NewServeMux()
	mux.HandleFunc("/below"+a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		e.note(r)
		a2asrv.NewStaticAgentCardHandler(e.card).ServeHTTP(w, r)
	})
	mux.HandleFunc("/a2a/", func(w http.ResponseWriter, r *http.Request) {
		e.note(r)
		if e.refuse != 0 {
			w.WriteHeader(e.refuse)
			return
		}
		if e.cut {
			e.cut = false
			w = &truncatingWriter{ResponseWriter: w}
		}
		answers.ServeHTTP(w, r)
	})
	e.Server = httptest.NewServer(mux)
	t.Cleanup(e.Close)
	e.card = &sdk.AgentCard{
		Name: "elsewhere", Version: "1", SupportedInterfaces: []*sdk.AgentInterface{sdk.NewAgentInterface(e.URL+"/a2a/", binding)},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"}, Capabilities: sdk.AgentCapabilities{Streaming: true},
		Skills: []sdk.AgentSkill{},
	}
	return e
}

func (e *remoteAgent) note(r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens = append(e.tokens, r.Header.Get("Authorization"))
}

func (e *remoteAgent) messages() []*sdk.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.received)
}

// A truncatingWriter breaks the connection after the first event of a stream.
type truncatingWriter struct {
	http.ResponseWriter
}

func (c *truncatingWriter) Flush() {
	c.ResponseWriter.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func text(words string) *sdk.Part { return sdk.NewTextPart(words) }

// Execute implements a2asrv.AgentExecutor.
func (e *remoteAgent) Execute(ctx context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	e.mu.Lock()
	e.received = append(e.received, x.Message)
	e.mu.Unlock()
	_, words, _ := strings.Cut(x.Message.Parts[0].Text(), "<<FENCE\n")
	words, _, _ = strings.Cut(words, "\nFENCE>>")
	said := func(words string) *sdk.Message { return sdk.NewMessage(sdk.MessageRoleAgent, text(words)) }
	return func(yield func(sdk.Event, error) bool) {
		status := func(state sdk.TaskState, words string) bool {
			var m *sdk.Message
			if words != "" {
				m = said(words)
			}
			return yield(sdk.NewStatusUpdateEvent(x, state, m), nil)
		}
		command, _, _ := strings.Cut(strings.TrimPrefix(words, "Will: "), " ")
		if command == "hello" {
			yield(said("hello yourself"), nil)
			return
		}
		if x.StoredTask != nil {
			yield(sdk.NewArtifactEvent(x, text("you chose "+words)), nil)
			status(sdk.TaskStateCompleted, "")
			return
		}
		if !yield(sdk.NewSubmittedTask(x, x.Message), nil) || !status(sdk.TaskStateWorking, "looking") {
			return
		}
		e.working <- x.TaskID
		switch command {
		case "write":
			first := sdk.NewArtifactEvent(x, text("one, "))
			yield(first, nil)
			yield(sdk.NewArtifactUpdateEvent(x, first.Artifact.ID, text("two")), nil)
			yield(sdk.NewArtifactEvent(x, sdk.NewDataPart(map[string]any{"three": 3}), sdk.NewFileURLPart("https://example.com/four", "")), nil)
			status(sdk.TaskStateCompleted, "all of it")
		case "choose":
			status(sdk.TaskStateInputRequired, "which one?")
		case "fail":
			status(sdk.TaskStateFailed, "out of paper, "+token)
		case "reject":
			status(sdk.TaskStateRejected, "I convert currencies alone")
		case "login":
			status(sdk.TaskStateAuthRequired, "")
		case "wait":
			select {
			case <-e.finish:
				status(sdk.TaskStateCompleted, "waited")
			case <-ctx.Done():
			}
		}
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (e *remoteAgent) Cancel(_ context.Context, x *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(x, sdk.TaskStateCanceled, nil), nil)
		e.canceled <- x.TaskID
	}
}

// join runs a harness for the remote agent until the test ends.
func (e *remoteAgent) join(t *testing.T, report func(harness.Progress)) harness.Harness {
	t.Helper()
	h := a2a.New(e.URL+"/below", &a2a.Options{
		Token: func() (string, error) { return token, nil }, Backoff: retry.Backoff{Min: 1, Max: 1}, PollBackoff: retry.Backoff{Min: 1, Max: time.Millisecond},
		Transport: netguard.NewTransport(netguard.New([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx, harness.Host{Progress: report}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, harness.ErrPermanent) {
			t.Errorf("the harness ended: %v", err)
		}
	})
	return h
}

func turn(words string) *harness.Turn {
	return &harness.Turn{
		ID: "t_" + words, Attempt: 1, Chat: "tg:42", System: "our rules", Prompt: "C2A EVENT\nresponse_policy: must_respond\n\nMESSAGE\n<<FENCE\n" + words + "\nFENCE>>\n", Event: harness.Event{
			EventID: "e_" + words, IdempotencyKey: "key of " + words, Decision: harness.Decision{Policy: "must_respond"},
			ChatEvent: harness.ChatEvent{
				Conversation: harness.Conversation{ID: "42", Kind: "dm"}, Author: harness.Author{ID: "77", DisplayName: "Will"},
				Content: []harness.Part{{Type: "text", Text: words}},
			},
		},
	}
}

// both runs a test for each binding of A2A.
func both(t *testing.T, test func(t *testing.T, e *remoteAgent)) {
	for _, binding := range []sdk.TransportProtocol{sdk.TransportProtocolJSONRPC, sdk.TransportProtocolHTTPJSON} {
		t.Run(strings.ReplaceAll(string(binding), "/", ""), func(t *testing.T) { test(t, newRemoteAgent(t, binding)) })
	}
}

// TestTurn_ReturnsTheResultOfTheTask checks that a message or an artifact is the answer, and that a
// task that ends otherwise says why.
func TestTurn_ReturnsTheResultOfTheTask(t *testing.T) {
	both(t, func(t *testing.T, e *remoteAgent) {
		h := e.join(t, nil)
		for words, want := range map[string]string{
			"hello":  "hello yourself",
			"write":  "one, two\n\n```json\n{\n  \"three\": 3\n}\n```\n\nhttps://example.com/four",
			"reject": "I convert currencies alone",
		} {
			outcome, err := h.Turn(t.Context(), turn(words), nil)
			if err != nil || outcome.FinalText != want || outcome.State != harness.Finished {
				t.Errorf("%s: %+v, %v", words, outcome, err)
			}
		}
		_, err := h.Turn(t.Context(), turn("fail"), nil)
		if err == nil || !strings.Contains(err.Error(), "failed: out of paper") || strings.Contains(err.Error(), token) ||
			errors.Is(err, harness.ErrTemporary) || errors.Is(err, harness.ErrPermanent) {
			t.Errorf("a task that failed: %v", err)
		}
		_, err = h.Turn(t.Context(), turn("login"), nil)
		if userErr, ok := errors.AsType[*harness.UserError](err); !ok || !strings.Contains(userErr.Message, "log in") {
			t.Errorf("a task that wants a login: %v", err)
		}
	})
}

// TestTurn_SendsTheEvent checks the header, policy and fence of an event that owes an answer. The
// standing rules precede them when a conversation begins or the rules have changed. Each
// conversation has one context, and a question's answer goes to the task that asked.
func TestTurn_SendsTheEvent(t *testing.T) {
	both(t, func(t *testing.T, e *remoteAgent) {
		h := e.join(t, nil)
		ask := func(m *harness.Turn) string {
			t.Helper()
			outcome, err := h.Turn(t.Context(), m, nil)
			if err != nil {
				t.Fatal(err)
			}
			return outcome.FinalText
		}
		silent, knock := turn("hello nobody"), turn("hello knock")
		silent.Event.Policy, knock.Event.Knock = "may_respond", &harness.Knock{}
		if got := ask(silent) + ask(knock); got != "" {
			t.Errorf("what owes no answer got %q", got)
		}
		room := turn("hello all")
		room.Chat, room.Event.Conversation = "tg:-100", harness.Conversation{ID: "-100", Kind: "channel"}
		changed := turn("choose again")
		changed.System = "other rules"
		answers := []string{ask(turn("choose")), ask(turn("red")), ask(changed), ask(room)}
		if want := []string{"which one?", "you chose red", "which one?"}; !slices.Equal(answers[:3], want) {
			t.Errorf("answers %q", answers)
		}
		received := e.messages()
		if len(received) != 4 {
			t.Fatalf("%d messages", len(received))
		}
		for i, want := range []*harness.Turn{turn("choose"), turn("red"), changed, room} {
			m := received[i]
			rules, rest, _ := strings.Cut(m.Parts[0].Text(), "C2A EVENT")
			if len(m.Parts) != 1 || "C2A EVENT"+rest != want.Prompt || len(m.Metadata) != 0 {
				t.Errorf("message %d is %+v, want %q", i, m.Parts, want.Prompt)
			}
			if first := i != 1; first != strings.HasPrefix(rules, want.System+"\n\n") || first != strings.Contains(rules, "none of the chat tools") {
				t.Errorf("message %d comes behind %q", i, rules)
			}
		}
		if received[0].ID != "key of choose" || received[1].TaskID == "" || received[2].TaskID != "" || received[2].ContextID != received[1].ContextID || received[3].ContextID == received[1].ContextID {
			t.Errorf("%+v\n%+v\n%+v\n%+v", received[0], received[1], received[2], received[3])
		}
		caps, err := h.Capabilities(t.Context())
		if want := (harness.Injection{Immediate: true, Buffered: true, ToolMailbox: true, Interrupt: true}); err != nil || caps.Injection != want || caps.Images {
			t.Errorf("%+v, %v", caps, err)
		}
	})
}

// TestTurn_PollsTheTaskToItsEnd covers a stream that breaks off, an agent without streams, and a
// turn that ends first.
func TestTurn_PollsTheTaskToItsEnd(t *testing.T) {
	both(t, func(t *testing.T, e *remoteAgent) {
		e.cut = true
		h := e.join(t, nil)
		ended := make(chan string, 1)
		go func() {
			outcome, err := h.Turn(context.WithoutCancel(t.Context()), turn("wait"), nil)
			ended <- fmt.Sprint(outcome.FinalText, err)
		}()
		<-e.working
		close(e.finish)
		if got := <-ended; got != "waited<nil>" {
			t.Errorf("a stream that broke off: %s", got)
		}
	})
	both(t, func(t *testing.T, e *remoteAgent) {
		h := e.join(t, nil)
		cause := errors.New("the message was edited")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := h.Turn(ctx, turn("wait"), nil)
			ended <- err
		}()
		id := <-e.working
		cancel(cause)
		if err := <-ended; !errors.Is(err, cause) {
			t.Errorf("a turn that was withdrawn: %v", err)
		}
		if got := <-e.canceled; got != id {
			t.Errorf("canceled %s, want %s", got, id)
		}
	})
	both(t, func(t *testing.T, e *remoteAgent) {
		e.card.Capabilities.Streaming = false
		if outcome, err := e.join(t, nil).Turn(t.Context(), turn("write"), nil); err != nil || !strings.HasPrefix(outcome.FinalText, "one, two") {
			t.Errorf("without streams: %+v, %v", outcome, err)
		}
	})
}

// TestTurn_ReportsPiecesOfTheTask checks that a task's messages and artifacts are reported while
// they arrive.
func TestTurn_ReportsPiecesOfTheTask(t *testing.T) {
	var mu sync.Mutex
	var progress []string
	e := newRemoteAgent(t, sdk.TransportProtocolJSONRPC)
	h := e.join(t, func(p harness.Progress) {
		mu.Lock()
		defer mu.Unlock()
		progress = append(progress, string(p.Kind)+" "+p.Message)
	})
	if _, err := h.Turn(t.Context(), turn("write"), nil); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"status looking", "text one, ", "text two"}; !slices.Equal(progress[:3], want) {
		t.Errorf("told %q", progress)
	}
}

// TestTransport_SendsTheTokenToItsOriginOnly checks that the token goes to the configured
// address, and not to an address of the card.
func TestTransport_SendsTheTokenToItsOriginOnly(t *testing.T) {
	other, home := newRemoteAgent(t, sdk.TransportProtocolJSONRPC), newRemoteAgent(t, sdk.TransportProtocolJSONRPC)
	home.card.SupportedInterfaces = other.card.SupportedInterfaces
	if outcome, err := home.join(t, nil).Turn(t.Context(), turn("hello"), nil); err != nil || outcome.FinalText == "" {
		t.Fatalf("%+v, %v", outcome, err)
	}
	if !slices.Equal(home.tokens, []string{"Bearer " + token}) || !slices.Equal(other.tokens, []string{""}) {
		t.Errorf("shown %q at home and %q elsewhere", home.tokens, other.tokens)
	}
	home.card.SupportedInterfaces = []*sdk.AgentInterface{sdk.NewAgentInterface("http://127.0.0.2:9/hidden", sdk.TransportProtocolJSONRPC)}
	_, err := home.join(t, nil).Turn(t.Context(), turn("hello"), nil)
	if !errors.Is(err, harness.ErrPermanent) || !errors.Is(err, netguard.ErrRefused) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("a card that points at an address that is not public: %v", err)
	}
}

// TestTurn_ExplainsFailures checks that failures that may pass are tried again, and that final ones
// are explained.
func TestTurn_ExplainsFailures(t *testing.T) {
	e := newRemoteAgent(t, sdk.TransportProtocolJSONRPC)
	h := e.join(t, nil)
	if _, err := h.Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	for status, temporary := range map[int]bool{401: false, 307: false, 503: true, 429: true} {
		e.refuse = status
		_, err := h.Turn(t.Context(), turn("hello"), nil)
		userErr, _ := errors.AsType[*harness.UserError](err)
		if errors.Is(err, harness.ErrTemporary) != temporary || temporary == (userErr != nil) || !strings.Contains(err.Error(), fmt.Sprint("it answered ", status)) {
			t.Errorf("HTTP %d: %v", status, err)
		}
	}
	e.refuse = 0
	e.CloseClientConnections()
	outcome, err := h.Turn(t.Context(), turn("hello"), nil)
	for errors.Is(err, harness.ErrTemporary) { // a connection that was there before
		outcome, err = h.Turn(t.Context(), turn("hello"), nil)
	}
	if err != nil || outcome.FinalText == "" {
		t.Errorf("after its troubles: %+v, %v", outcome, err)
	}

	old := newRemoteAgent(t, sdk.TransportProtocolGRPC)
	if _, err := old.join(t, nil).Capabilities(t.Context()); !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "A2A 1.0") {
		t.Errorf("a card without a way that we know: %v", err)
	}
}
