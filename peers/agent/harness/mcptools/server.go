package mcptools

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/datafolder"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is the path of the server.
const Path = "/mcp"

// maxRequest is the maximum size of a request body.
const maxRequest = 1 << 20

// NewToken makes a random bearer token.
func NewToken() string { return rand.Text() }

// NewToolServer makes the MCP server (streamable HTTP) of an agent's tools and of its relay,
// which may be nil. Requests with the given token use tools(""); requests with a chat's token
// (Address.ForChat) use the tools of that chat. An empty token refuses all requests.
func NewToolServer(tools func(chat string) harness.Tools, token string, relay *Relay) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(Path,
		NewHandler(func(r *http.Request) harness.Tools { return tools(r.Header.Get(chatHeader)) }, agentServer))
	if relay != nil {
		mux.Handle(relayPath, relay)
	}
	return authenticate(mux, token)
}

// agentServer identifies the server of an agent's tools.
var agentServer = &mcp.Implementation{Name: "hubbub-agent", Version: "1"}

// NewHandler makes an MCP endpoint (streamable HTTP, without sessions) for the tools that each
// request may use. The caller must authenticate requests.
func NewHandler(tools func(*http.Request) harness.Tools, name *mcp.Implementation) http.Handler {
	return mcp.NewStreamableHTTPHandler(
		func(r *http.Request) *mcp.Server { return toolServer(tools(r), name) },
		&mcp.StreamableHTTPOptions{
			Stateless:                  true,
			JSONResponse:               true,
			MaxRequestBodyBytes:        maxRequest,
			DisableLocalhostProtection: true,
		},
	)
}

// chatHeader carries the chat of a request's token from authenticate to the handlers.
const chatHeader = "Hubbub-Chat"

// authenticate passes on only requests that may use the server.
func authenticate(next http.Handler, token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		presented, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		chat, right := checkToken(token, presented)
		r.Header.Set(chatHeader, chat)
		switch {
		case !isLoopbackHost(r.Host):
			http.Error(w, "only loopback host names are served", http.StatusForbidden)
		case !isOwnOrigin(r):
			http.Error(w, "web pages of other origins are refused", http.StatusForbidden)
		case !bearer || !right:
			w.Header().Set("WWW-Authenticate", `Bearer realm="hubbub"`)
			http.Error(w, "send the agent's token: Authorization: Bearer <token of mcp.json>", http.StatusUnauthorized)
		default:
			if problem := checkPeer(r); problem != "" {
				http.Error(w, problem, http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		}
	})
}

// checkPeer returns why a request is refused if it does not come from a process of this user,
// else "". Programs expose tokens to other users: claude, for example, passes them in a command
// line. The check makes such a token useless to others.
func checkPeer(r *http.Request) string {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "only connections from this machine are served"
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return "only connections from this machine are served"
	}
	switch own, err := isSameUser(client, local.AddrPort()); {
	case err != nil:
		return err.Error()
	case !own:
		return "only programs of the agent's own user are served: run this program as that user"
	}
	return ""
}

// chatToken returns the token of one chat: its name and a signature that requires the agent's
// token.
func chatToken(token, chat string) string {
	signer := hmac.New(sha256.New, []byte(token))
	signer.Write([]byte(chat)) //nolint:errcheck // it never fails
	return base64.RawURLEncoding.EncodeToString([]byte(chat)) + "." + base64.RawURLEncoding.EncodeToString(
		signer.Sum(nil),
	)
}

// checkToken verifies the token of a request and returns the chat to which it belongs. The
// agent's own token belongs to no chat.
func checkToken(token, presented string) (chat string, right bool) {
	want := token
	if name, _, signed := strings.Cut(presented, "."); signed {
		raw, err := base64.RawURLEncoding.DecodeString(name)
		if err != nil || len(raw) == 0 {
			return "", false
		}
		chat = string(raw)
		want = chatToken(token, chat)
	}
	got, wanted := sha256.Sum256([]byte(presented)), sha256.Sum256([]byte(want))
	return chat, token != "" && subtle.ConstantTimeCompare(got[:], wanted[:]) == 1
}

// isLoopbackHost reports whether a Host header names the loopback interface.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// isOwnOrigin reports whether a request comes from no web page, or from a page of the server's
// own origin.
func isOwnOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && u.Scheme == "http" && u.Host == r.Host
}

// toolServer makes the MCP server for one request.
func toolServer(tools harness.Tools, name *mcp.Implementation) *mcp.Server {
	s := mcp.NewServer(name, &mcp.ServerOptions{
		Instructions: "The chat tools of this agent. Obey the response policy of each event. A refused call says " +
			"what to do instead.",
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	s.AddReceivingMiddleware(rejectOtherMethods)
	for _, t := range tools.List() {
		s.AddTool(newMCPTool(t), func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return newMCPResult(tools.Call(ctx, r.Params.Name, r.Params.Arguments)), nil
		})
	}
	return s
}

// rejectOtherMethods refuses methods that the server does not announce. The library would answer
// them with empty lists.
func rejectOtherMethods(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch kind, _, _ := strings.Cut(method, "/"); kind {
		case "prompts", "resources", "completion", "logging":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "only tools are offered"}
		}
		return next(ctx, method, r)
	}
}

func newMCPTool(t harness.Tool) *mcp.Tool {
	tool := &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.ReadOnly, IdempotentHint: t.Idempotent},
	}
	if len(t.InputSchema) == 0 {
		tool.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	if len(t.OutputSchema) > 0 {
		tool.OutputSchema = t.OutputSchema
	}
	return tool
}

func newMCPResult(r harness.Result) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: r.IsError, Content: []mcp.Content{}}
	for _, c := range r.Content {
		out.Content = append(out.Content, &mcp.TextContent{Text: c.Text})
		if c.Image != nil {
			out.Content = append(out.Content, &mcp.ImageContent{MIMEType: c.Image.MimeType, Data: c.Image.Data})
		}
	}
	if len(r.StructuredContent) > 0 {
		out.StructuredContent = r.StructuredContent
	}
	return out
}

// An Address tells programs how to reach the agent's tools.
type Address struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Listen listens on a free loopback port and returns the server's URL.
func Listen() (net.Listener, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listening for the chat tools: %w", err)
	}
	return listener, "http://" + listener.Addr().String() + Path, nil
}

// WriteAddress atomically writes an address to a file that only its owner can read.
func WriteAddress(path string, a Address) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return err
	}
	if err := datafolder.WriteFile(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("writing the address of the chat tools: %w", err)
	}
	return nil
}

// ForChat is like AsServer, for a program that works for one chat.
func (a Address) ForChat(chat string) harness.MCPServer {
	return *Address{URL: a.URL, Token: chatToken(a.Token, chat)}.AsServer()
}

// AsServer returns the address as an MCP server for other programs.
func (a Address) AsServer() *harness.MCPServer {
	return &harness.MCPServer{
		Name:    "hubbub",
		URL:     a.URL,
		Headers: map[string]string{"Authorization": "Bearer " + a.Token},
	}
}
