package harnesstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"hubbub/peers/agent/harness"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ACPRoleEnv is the environment variable that makes a test binary act as an ACP program: "fake"
// works, "opencode" has that name, and "mute", "no-http", "future", "logged-out", "surrogate" and
// "crash-once FILE" misbehave.
const ACPRoleEnv = "ACP_TEST"

// ServeACP acts as an ACP program without a model, in the role of ACPRoleEnv, until its stdin
// ends. It does what its prompts say. If the prompt comes from an agent, the message in it
// says what to do.
func ServeACP() {
	if os.Getenv(ACPRoleEnv) == "mute" {
		select {}
	}
	f := &acpProgram{sessions: map[acpsdk.SessionId]*acpSession{}}
	f.conn = acpsdk.NewAgentSideConnection(f, os.Stdout, os.Stdin)
	fmt.Println("a line that is not JSON")
	<-f.conn.Done()
}

type acpProgram struct {
	acpsdk.Agent // the methods that nobody calls
	conn         *acpsdk.AgentSideConnection
	mu           sync.Mutex
	sessions     map[acpsdk.SessionId]*acpSession
}

type acpSession struct {
	servers []acpsdk.McpServer
	cwd     string
	prompts int
	broken  bool // it answers each prompt with an error
	cancel  context.CancelFunc
}

func (f *acpProgram) Initialize(context.Context, acpsdk.InitializeRequest) (acpsdk.InitializeResponse, error) {
	r := acpsdk.InitializeResponse{ProtocolVersion: acpsdk.ProtocolVersionNumber}
	r.AgentCapabilities.McpCapabilities.Http = os.Getenv(ACPRoleEnv) != "no-http"
	r.AgentCapabilities.PromptCapabilities.Image = os.Getenv(ACPRoleEnv) == "seeing"
	if os.Getenv(ACPRoleEnv) == "opencode" {
		r.AgentInfo = &acpsdk.Implementation{Name: "OpenCode", Version: "1"}
	}
	if os.Getenv(ACPRoleEnv) == "future" {
		r.ProtocolVersion = 99
	}
	return r, nil
}

func (f *acpProgram) NewSession(_ context.Context, r acpsdk.NewSessionRequest) (acpsdk.NewSessionResponse, error) {
	if os.Getenv(ACPRoleEnv) == "logged-out" {
		return acpsdk.NewSessionResponse{}, acpsdk.NewAuthRequired(nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := acpsdk.SessionId(fmt.Sprintf("s%d", len(f.sessions)+1))
	if os.Getenv(ACPRoleEnv) == "surrogate" {
		id = "s\ufffd" // what a JSON decoder makes of an unpaired surrogate
	}
	f.sessions[id] = &acpSession{servers: r.McpServers, cwd: r.Cwd}
	return acpsdk.NewSessionResponse{SessionId: id}, nil
}

func (f *acpProgram) Cancel(_ context.Context, n acpsdk.CancelNotification) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[n.SessionId]; s != nil && s.cancel != nil {
		s.cancel()
	}
	return nil
}

func (f *acpProgram) Prompt(_ context.Context, r acpsdk.PromptRequest) (acpsdk.PromptResponse, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f.mu.Lock()
	s := f.sessions[r.SessionId]
	s.cancel = cancel
	s.prompts++
	n, broken := s.prompts, s.broken
	f.mu.Unlock()
	if broken {
		return acpsdk.PromptResponse{}, acpsdk.NewInternalError(map[string]any{"details": "no such process"})
	}
	end := acpsdk.PromptResponse{
		StopReason: acpsdk.StopReasonEndTurn,
		Usage:      &acpsdk.Usage{InputTokens: 5, OutputTokens: 3},
	}
	if file, crashes := strings.CutPrefix(os.Getenv(ACPRoleEnv), "crash-once "); crashes {
		crashOnce(file)
	}
	event, text := parsePrompt(r.Prompt[len(r.Prompt)-1].Text.Text)
	command, argument, _ := strings.Cut(text, " ")
	switch command {
	case "say":
		f.say(r.SessionId, argument)
	case "answer": // arguments: a file with a JSON list, and the index of the text to send in pieces
		f.answer(r.SessionId, argument)
	case "work":
		f.say(r.SessionId, "let me look")
		f.update(
			r.SessionId,
			acpsdk.StartToolCall("c1", "Reading", acpsdk.WithStartKind(acpsdk.ToolKindRead),
				acpsdk.WithStartRawInput(map[string]any{"path": "x"})),
		)
		f.update(r.SessionId, acpsdk.UpdateToolCall("c1", acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted)))
		f.say(r.SessionId, "it is ")
		f.say(r.SessionId, "fine")
	case "answer-then-tool":
		f.say(r.SessionId, "the answer")
		f.update(r.SessionId, acpsdk.StartToolCall("c1", "Tidying"))
	case "count":
		f.say(r.SessionId, fmt.Sprintf("%s prompt %d of %d blocks in %s", r.SessionId, n, len(r.Prompt), s.cwd))
	case "images":
		var seen []string
		for _, b := range r.Prompt {
			if b.Image != nil {
				seen = append(seen, b.Image.MimeType+" "+b.Image.Data)
			}
		}
		f.say(r.SessionId, "images: "+strings.Join(seen, ", "))
	case "crash":
		fmt.Fprintln(os.Stderr, "FATAL: no such model\n    at somewhere\nNode.js v20")
		os.Exit(4)
	case "crash-once":
		crashOnce(argument)
		f.say(r.SessionId, "survived")
	case "tell": // argument: a file for what the program was given
		s.tell(argument)
		f.say(r.SessionId, "told")
	case "hold": // arguments: an address that answers once the program may go on, and what the program reads
		address, _, _ := strings.Cut(argument, " ")
		hold(ctx, address)
		f.say(r.SessionId, HoldReply(text))
	case "wait":
		f.say(r.SessionId, "waiting")
		<-ctx.Done()
		end.StopReason = acpsdk.StopReasonCancelled
	case "hang":
		f.say(r.SessionId, "hanging")
		select {}
	case "fail":
		return end, acpsdk.NewInternalError(map[string]any{"details": "no credit for sk-abcdef123456"})
	case "lose":
		f.mu.Lock()
		s.broken = true
		f.mu.Unlock()
		return end, acpsdk.NewInternalError(map[string]any{"details": "no such process"})
	case "limit":
		end.StopReason = acpsdk.StopReasonMaxTurnRequests
	case "permission-of": // arguments: a file for the ID of this process, and the requested permission
		file, what, _ := strings.Cut(argument, " ")
		os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())), 0o600) //nolint:errcheck // then the test fails
		f.say(r.SessionId, f.permission(ctx, r.SessionId, what))
	case "permission":
		f.say(r.SessionId, f.permission(ctx, r.SessionId, argument))
	case "chat": // sends the argument with the chat tools
		f.say(r.SessionId, s.withTools(ctx, func(tools harness.Tools) string {
			arguments, _ := json.Marshal(
				map[string]any{"text": argument, "inReplyTo": event},
			) //nolint:errcheck // strings
			return fmt.Sprintf("sent, error %v", tools.Call(ctx, "chat.send_message", arguments).IsError)
		}))
	case "play": // takes the argument as an event, and does what a scripted agent does
		f.say(r.SessionId,
			s.withTools(ctx, func(tools harness.Tools) string { return playScripted(ctx, []byte(argument), tools) }))
	default:
		end.StopReason = f.write(ctx, r.SessionId, command, argument)
	}
	return end, nil
}

// write handles the requests that write more than one text, and returns the
// stop reason.
func (f *acpProgram) write(ctx context.Context, id acpsdk.SessionId, command, argument string) acpsdk.StopReason {
	switch command {
	case "parts": // sends each part of the argument with a thought or the end of a call after it
		for i, part := range strings.Split(argument, "|") {
			f.say(id, part)
			if i%2 == 0 {
				f.update(id, acpsdk.UpdateAgentThoughtText("INNER"))
			} else {
				f.update(id, acpsdk.UpdateToolCall("c1", acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted)))
			}
		}
	case "content": // argument: a JSON list of content blocks
		var blocks []acpsdk.ContentBlock
		if err := json.Unmarshal([]byte(argument), &blocks); err != nil {
			f.say(id, err.Error())
		}
		for _, b := range blocks {
			f.update(id, acpsdk.UpdateAgentMessage(b))
		}
	case "stop-by": // arguments: a reason to stop, and a text before it
		reason, text, _ := strings.Cut(argument, " ")
		f.say(id, text)
		return acpsdk.StopReason(reason)
	case "elicit": // argument: the schema of what it wants to know
		f.say(id, f.elicit(ctx, id, argument))
	}
	return acpsdk.StopReasonEndTurn
}

// tell writes to a file what the program was given.
func (s *acpSession) tell(file string) {
	raw := strings.Join(os.Environ(), "\n")
	for _, server := range s.servers {
		raw += fmt.Sprintf("\n%+v", server.Http)
	}
	os.WriteFile(file, []byte(raw), 0o600) //nolint:errcheck // then the test fails
	fmt.Fprintln(os.Stderr, "my token is", strings.TrimPrefix(s.servers[0].Http.Headers[0].Value, "Bearer "))
}

// answer sends one of the texts in a file.
func (f *acpProgram) answer(id acpsdk.SessionId, argument string) {
	file, number, _ := strings.Cut(argument, " ")
	raw, err := os.ReadFile(file)
	n, numberErr := strconv.Atoi(number)
	var list []string
	if err = errors.Join(err, numberErr, json.Unmarshal(raw, &list)); err != nil {
		f.say(id, err.Error())
		return
	}
	for piece := range slices.Chunk([]rune(list[n]), 40) {
		f.say(id, string(piece))
	}
}

// crashOnce ends the program unless the file exists, which it creates.
func crashOnce(file string) {
	if _, err := os.Stat(file); err != nil {
		os.WriteFile(file, nil, 0o600) //nolint:errcheck // then it crashes again
		os.Exit(4)
	}
}

// parsePrompt returns what a prompt tells the program to do: the message from an agent's event,
// or the whole prompt.
func parsePrompt(prompt string) (event, text string) {
	header, message, found := strings.Cut(prompt, "\nMESSAGE\n<<")
	if !found {
		return "", prompt
	}
	_, event, _ = strings.Cut(header, "\nevent_id: ")
	event, _, _ = strings.Cut(event, "\n")
	fence, text, _ := strings.Cut(message, "\n")
	text, _, _ = strings.Cut(text, "\n"+fence+">>")
	return event, text
}

func (f *acpProgram) say(id acpsdk.SessionId, text string) {
	f.update(id, acpsdk.UpdateAgentMessageText(text))
}

func (f *acpProgram) update(id acpsdk.SessionId, u acpsdk.SessionUpdate) {
	f.conn.SessionUpdate(
		context.Background(),
		acpsdk.SessionNotification{SessionId: id, Update: u},
	) //nolint:errcheck // a test program
}

// elicit asks a person for what a schema describes, and returns the answer.
func (f *acpProgram) elicit(ctx context.Context, id acpsdk.SessionId, schema string) string {
	var r acpsdk.UnstableCreateElicitationRequest
	err := json.Unmarshal(
		fmt.Appendf(nil, `{"mode":"form","sessionId":%q,"message":"What?","requestedSchema":%s}`, id, schema), &r)
	if err != nil {
		return err.Error()
	}
	answer, err := f.conn.UnstableCreateElicitation(ctx, r)
	if err != nil {
		return err.Error()
	}
	raw, _ := json.Marshal(answer) //nolint:errcheck // it was JSON
	return "answered: " + string(raw)
}

// permission requests a permission, "kind title", and returns the answer.
func (f *acpProgram) permission(ctx context.Context, id acpsdk.SessionId, what string) string {
	kind, title, _ := strings.Cut(what, " ")
	r, err := f.conn.RequestPermission(ctx, acpsdk.RequestPermissionRequest{
		SessionId: id,
		ToolCall: acpsdk.ToolCallUpdate{
			ToolCallId: "c1",
			Title:      acpsdk.Ptr(title),
			Kind:       acpsdk.Ptr(acpsdk.ToolKind(kind)),
		},
		Options: []acpsdk.PermissionOption{
			{Kind: acpsdk.PermissionOptionKindAllowAlways, OptionId: "always", Name: "Always"},
			{Kind: acpsdk.PermissionOptionKindAllowOnce, OptionId: "once", Name: "Once"},
			{Kind: acpsdk.PermissionOptionKindRejectOnce, OptionId: "no", Name: "No"},
		},
	})
	if err != nil {
		return err.Error()
	}
	if r.Outcome.Selected == nil {
		return "cancelled"
	}
	return string(r.Outcome.Selected.OptionId)
}

// withTools calls do with the chat tools of the session's first MCP server.
func (s *acpSession) withTools(ctx context.Context, do func(harness.Tools) string) string {
	if len(s.servers) == 0 || s.servers[0].Http == nil {
		return "no tools"
	}
	server := s.servers[0].Http
	session, err := mcp.NewClient(&mcp.Implementation{Name: "fake", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint:             server.Url,
			DisableStandaloneSSE: true,
			HTTPClient:           &http.Client{Transport: headerTransport{server.Headers[0]}},
		}, nil)
	if err != nil {
		return err.Error()
	}
	defer session.Close() //nolint:errcheck // a test program
	return do(&Tools{Answer: func(ctx context.Context, c Call) (harness.Result, bool) {
		r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments})
		if err != nil {
			return harness.ErrorResult(err.Error(), nil), true
		}
		raw, _ := json.Marshal(r.StructuredContent) //nolint:errcheck // it was JSON
		return harness.Result{IsError: r.IsError, StructuredContent: raw}, true
	}})
}

type headerTransport struct{ h acpsdk.HttpHeader }

func (h headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(h.h.Name, h.h.Value)
	return http.DefaultTransport.RoundTrip(r)
}
