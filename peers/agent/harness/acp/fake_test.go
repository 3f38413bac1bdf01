package acp_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	acpsdk "github.com/coder/acp-go-sdk"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// TestMain lets the test binary play an ACP program: a fake one whose prompts
// say what it does.
func TestMain(m *testing.M) {
	if os.Getenv("ACP_TEST") == "" {
		goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
		return
	}
	if os.Getenv("ACP_TEST") == "mute" {
		select {}
	}
	f := &fake{sessions: map[acpsdk.SessionId]*fakeSession{}}
	f.conn = acpsdk.NewAgentSideConnection(f, os.Stdout, os.Stdin)
	fmt.Println("a line that is not JSON")
	<-f.conn.Done()
}

// fake is an ACP program without a model.
type fake struct {
	conn     *acpsdk.AgentSideConnection
	mu       sync.Mutex
	sessions map[acpsdk.SessionId]*fakeSession
}

type fakeSession struct {
	servers []acpsdk.McpServer
	cwd     string
	prompts int
	cancel  context.CancelFunc
}

func (f *fake) Initialize(context.Context, acpsdk.InitializeRequest) (acpsdk.InitializeResponse, error) {
	r := acpsdk.InitializeResponse{ProtocolVersion: acpsdk.ProtocolVersionNumber}
	r.AgentCapabilities.McpCapabilities.Http = os.Getenv("ACP_TEST") != "no-http"
	if os.Getenv("ACP_TEST") == "future" {
		r.ProtocolVersion = 99
	}
	return r, nil
}

func (f *fake) NewSession(_ context.Context, r acpsdk.NewSessionRequest) (acpsdk.NewSessionResponse, error) {
	if os.Getenv("ACP_TEST") == "logged-out" {
		return acpsdk.NewSessionResponse{}, acpsdk.NewAuthRequired(nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := acpsdk.SessionId(fmt.Sprintf("s%d", len(f.sessions)+1))
	f.sessions[id] = &fakeSession{servers: r.McpServers, cwd: r.Cwd}
	return acpsdk.NewSessionResponse{SessionId: id}, nil
}

func (f *fake) Cancel(_ context.Context, n acpsdk.CancelNotification) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.sessions[n.SessionId]; s != nil && s.cancel != nil {
		s.cancel()
	}
	return nil
}

func (f *fake) Prompt(_ context.Context, r acpsdk.PromptRequest) (acpsdk.PromptResponse, error) {
	f.mu.Lock()
	s := f.sessions[r.SessionId]
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.prompts++
	n := s.prompts
	f.mu.Unlock()
	defer cancel()
	end := acpsdk.PromptResponse{StopReason: acpsdk.StopReasonEndTurn, Usage: &acpsdk.Usage{InputTokens: 5, OutputTokens: 3}}
	command, argument, _ := strings.Cut(r.Prompt[len(r.Prompt)-1].Text.Text, " ")
	switch command {
	case "say":
		f.say(r.SessionId, argument)
	case "work":
		f.say(r.SessionId, "let me look")
		f.update(r.SessionId, acpsdk.StartToolCall("c1", "Reading", acpsdk.WithStartKind(acpsdk.ToolKindRead), acpsdk.WithStartRawInput(map[string]any{"path": "x"})))
		f.update(r.SessionId, acpsdk.UpdateToolCall("c1", acpsdk.WithUpdateStatus(acpsdk.ToolCallStatusCompleted)))
		f.say(r.SessionId, "it is ")
		f.say(r.SessionId, "fine")
	case "answer-then-tool":
		f.say(r.SessionId, "the answer")
		f.update(r.SessionId, acpsdk.StartToolCall("c1", "Tidying"))
	case "count":
		f.say(r.SessionId, fmt.Sprintf("%s prompt %d of %d blocks in %s", r.SessionId, n, len(r.Prompt), s.cwd))
	case "crash":
		os.Exit(4)
	case "wait":
		f.say(r.SessionId, "waiting")
		<-ctx.Done()
		end.StopReason = acpsdk.StopReasonCancelled
	case "hang":
		f.say(r.SessionId, "hanging")
		select {}
	case "fail":
		return end, acpsdk.NewInternalError(map[string]any{"details": "no credit for sk-abcdef123456"})
	case "limit":
		end.StopReason = acpsdk.StopReasonMaxTurnRequests
	case "permission":
		f.say(r.SessionId, f.permission(ctx, r.SessionId, argument))
	case "chat":
		f.say(r.SessionId, f.chat(ctx, s, argument))
	}
	return end, nil
}

func (f *fake) say(id acpsdk.SessionId, text string) {
	f.update(id, acpsdk.UpdateAgentMessageText(text))
}

func (f *fake) update(id acpsdk.SessionId, u acpsdk.SessionUpdate) {
	f.conn.SessionUpdate(context.Background(), acpsdk.SessionNotification{SessionId: id, Update: u}) //nolint:errcheck // a test program
}

// permission asks for a permission, "kind title", and says what came back.
func (f *fake) permission(ctx context.Context, id acpsdk.SessionId, what string) string {
	kind, title, _ := strings.Cut(what, " ")
	r, err := f.conn.RequestPermission(ctx, acpsdk.RequestPermissionRequest{
		SessionId: id,
		ToolCall:  acpsdk.ToolCallUpdate{ToolCallId: "c1", Title: acpsdk.Ptr(title), Kind: acpsdk.Ptr(acpsdk.ToolKind(kind))},
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

// chat sends a message with the chat tools of the session's first MCP server.
func (f *fake) chat(ctx context.Context, s *fakeSession, text string) string {
	if len(s.servers) == 0 || s.servers[0].Http == nil {
		return "no tools"
	}
	server := s.servers[0].Http
	session, err := mcp.NewClient(&mcp.Implementation{Name: "fake", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: server.Url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: header{server.Headers[0]}},
	}, nil)
	if err != nil {
		return err.Error()
	}
	defer session.Close() //nolint:errcheck // a test program
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "chat.send_message", Arguments: map[string]any{"text": text}})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("sent, error %v", result.IsError)
}

type header struct{ h acpsdk.HttpHeader }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set(h.h.Name, h.h.Value)
	return http.DefaultTransport.RoundTrip(r)
}

func (f *fake) Authenticate(context.Context, acpsdk.AuthenticateRequest) (acpsdk.AuthenticateResponse, error) {
	return acpsdk.AuthenticateResponse{}, nil
}

func (f *fake) Logout(context.Context, acpsdk.LogoutRequest) (acpsdk.LogoutResponse, error) {
	return acpsdk.LogoutResponse{}, nil
}

func (f *fake) CloseSession(context.Context, acpsdk.CloseSessionRequest) (acpsdk.CloseSessionResponse, error) {
	return acpsdk.CloseSessionResponse{}, nil
}

func (f *fake) ListSessions(context.Context, acpsdk.ListSessionsRequest) (acpsdk.ListSessionsResponse, error) {
	return acpsdk.ListSessionsResponse{}, nil
}

func (f *fake) ResumeSession(context.Context, acpsdk.ResumeSessionRequest) (acpsdk.ResumeSessionResponse, error) {
	return acpsdk.ResumeSessionResponse{}, nil
}

func (f *fake) SetSessionConfigOption(context.Context, acpsdk.SetSessionConfigOptionRequest) (acpsdk.SetSessionConfigOptionResponse, error) {
	return acpsdk.SetSessionConfigOptionResponse{}, nil
}

func (f *fake) SetSessionMode(context.Context, acpsdk.SetSessionModeRequest) (acpsdk.SetSessionModeResponse, error) {
	return acpsdk.SetSessionModeResponse{}, nil
}
