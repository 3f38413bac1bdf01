package chorus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/protocol"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// bearing puts headers on every request of an MCP client.
type bearing map[string]string

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range b {
		r.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(r)
}

func connect(t *testing.T, url string, headers map[string]string) (*mcp.ClientSession, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearing(headers)}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// tools is a connection to the tools that came with a delivery.
type tools struct {
	t       *testing.T
	session *mcp.ClientSession
	url     string
	headers map[string]string
}

func toolsOf(t *testing.T, delivery call) *tools {
	t.Helper()
	config := delivery.body["mcp"].(map[string]any)
	headers := map[string]string{}
	for name, value := range config["headers"].(map[string]any) {
		headers[name] = value.(string)
	}
	x := &tools{t: t, url: config["url"].(string), headers: headers}
	var err error
	if x.session, err = connect(t, x.url, headers); err != nil {
		t.Fatal(err)
	}
	return x
}

// call calls a tool and returns its structured content, and the text of its error.
func (x *tools) call(name string, arguments map[string]any) (map[string]any, string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	result, err := x.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		x.t.Fatalf("%s: %v", name, err)
	}
	if result.IsError {
		content, _ := result.StructuredContent.(map[string]any)
		return content, result.Content[0].(*mcp.TextContent).Text
	}
	content, ok := result.StructuredContent.(map[string]any)
	if !ok {
		x.t.Fatalf("%s: structuredContent is %T", name, result.StructuredContent)
	}
	return content, ""
}

func TestMCP_ToolsReadWithheldEvents(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:-100", "tg:-100")
	elsewhere := r.bus.Join(t, "tg:-200", "tg:-200")
	r.add("ext", outside.url, chorus.AgentSettings{})
	says(t, tg, "agent:ext", inGroup("e1", "lunch?"))
	says(t, elsewhere, "agent:ext", inGroup("x1", "another chat's secret"))
	says(t, tg, "agent:ext", inGroup("e2", "@ext what was said?", "agent:ext"))
	x := toolsOf(t, outside.next())

	list, err := x.session.ListTools(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	for _, want := range strings.Fields("chat.claim chat.defer chat.list_events chat.react chat.read_thread chat.resolve chat.send_message") {
		if !slices.Contains(names, want) {
			t.Errorf("tools %q; want %s among them", names, want)
		}
	}
	got, _ := x.call("chat.list_events", map[string]any{})
	raw := asJSON(got)
	if !strings.Contains(raw, "lunch?") || strings.Contains(raw, "another chat") {
		t.Errorf("events %s; want this chat's, withheld ones included, and no other's", raw)
	}
	got, _ = x.call("chat.list_events", map[string]any{"policy": "must_not_respond", "limit": 1})
	if events := got["events"].([]any); len(events) != 1 || events[0].(map[string]any)["disposition"] != "ignored" {
		t.Errorf("events %v", got)
	}
	got, _ = x.call("chat.list_events", map[string]any{"limit": 1})
	if got["next"] == nil {
		t.Errorf("a cut list has no next: %v", got)
	}
	got, _ = x.call("chat.list_events", map[string]any{"policy": "must_not_respond"})
	got, _ = x.call("chat.list_events", map[string]any{"since": got["next"], "open": true})
	if events := got["events"].([]any); len(events) != 1 || events[0].(map[string]any)["eventId"] != "e2" {
		t.Errorf("events after the first that are open: %v", got)
	}
	sent, _ := x.call("chat.send_message", map[string]any{"text": "Somebody asked about lunch.", "inReplyTo": "e2", "idempotencyKey": "k"})
	if sent["status"] != "sent" {
		t.Errorf("sent %v", sent)
	}
	got, _ = x.call("chat.read_thread", map[string]any{})
	var texts []string
	for _, m := range got["messages"].([]any) {
		texts = append(texts, m.(map[string]any)["text"].(string))
	}
	if strings.Join(texts, "|") != "lunch?|@ext what was said?|Somebody asked about lunch." {
		t.Errorf("thread %q", texts)
	}
	if _, text := x.call("chat.list_events", map[string]any{"since": "no time at all"}); !strings.Contains(text, "since must be") {
		t.Errorf("a bad argument: %q", text)
	}
}

func TestMCP_ToolsObeyPolicy(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	log := r.bus.Join(t, "cli:log", protocol.Pattern(protocol.TopicAttention))
	tg := r.bus.Join(t, "tg:-100", "tg:-100")
	r.add("ext", outside.url, chorus.AgentSettings{Roles: []string{"ops"}})
	says(t, tg, "agent:ext", inGroup("ambient", "lunch?"))
	says(t, tg, "agent:ext", inGroup("role", "@ops who?", "role:ops"))
	says(t, tg, "agent:ext", inGroup("me", "@ext look?", "agent:ext"))
	x := toolsOf(t, outside.next())
	send := func(id, text, key string) string {
		t.Helper()
		got, bad := x.call("chat.send_message", map[string]any{"inReplyTo": id, "text": text, "idempotencyKey": key})
		if status, ok := got["status"].(string); ok {
			return status
		}
		return bad
	}
	if got := send("ambient", "pizza", "k1"); got != "refused" {
		t.Errorf("a reply to a must_not_respond event: %s; want refused", got)
	}
	if d := report(t, log, "refusal", "ambient"); d["tool"] != "chat.send_message" {
		t.Errorf("refusal %v", d)
	}
	if got := send("me", "looking", "k2"); got != "sent" {
		t.Errorf("the answer: %s", got)
	}
	if got := send("me", "looking", "k2"); got != "duplicate" {
		t.Errorf("the same again: %s; want duplicate", got)
	}
	if got := send("me", "something else", "k3"); got != "refused" {
		t.Errorf("a second answer: %s; want refused", got)
	}
	if _, text := x.call("chat.send_message", map[string]any{"text": "  ", "inReplyTo": "me"}); text == "" {
		t.Error("an empty message was sent")
	}
	if _, text := x.call("chat.send_message", map[string]any{"text": "x", "inReplyTo": "role", "target": "tg:-200"}); !strings.Contains(text, "only to the chat of its event") {
		t.Errorf("another chat as the target: %q", text)
	}
	if _, text := x.call("chat.react", map[string]any{"inReplyTo": "ambient", "signal": "agree"}); text == "" {
		t.Error("a reaction to a must_not_respond event was sent")
	}
	if _, text := x.call("chat.react", map[string]any{"inReplyTo": "role", "signal": "party"}); !strings.Contains(text, "unknown signal") && !strings.Contains(text, "enum") {
		t.Errorf("an unknown signal: %q", text)
	}
	for range 2 { // the same reaction twice is one
		if got, _ := x.call("chat.react", map[string]any{"inReplyTo": "role", "signal": "queued"}); got["disposition"] != "deferred" {
			t.Errorf("react %v", got)
		}
	}
	if got, text := x.call("chat.claim", map[string]any{"eventId": "role"}); got["granted"] != true {
		t.Errorf("claim %v %s; want it granted where there is no broker", got, text)
	}
	if m := outside.next().body["message"].(map[string]any); m["id"] != "role" || m["content"] != "@ops who?" {
		t.Errorf("the claimed event comes as %v", m)
	}
	if got, _ := x.call("chat.resolve", map[string]any{"eventId": "role"}); got["disposition"] != "responded" {
		t.Errorf("resolve %v", got)
	}
	var kinds []string
	for range 2 {
		reply := nextReply(t, tg)
		kinds = append(kinds, reply.Text+reply.Signal)
	}
	if more := moreReplies(t, tg); strings.Join(kinds, " ") != "looking queued" || more != 0 {
		t.Errorf("the chat got %q and %d more", kinds, more)
	}
}

// TestMCP_ClaimsComeFromTheBroker checks that, with a broker, an event for several agents is
// answered only with its token.
func TestMCP_ClaimsComeFromTheBroker(t *testing.T) {
	r := startNew(t, nil)
	outside := newReceiver(t)
	broker := r.bus.Join(t, protocol.PeerBroker, "collab:*")
	tg := r.bus.Join(t, "tg:-100", "tg:-100")
	r.add("ext", outside.url, chorus.AgentSettings{Roles: []string{"ops"}, Knocks: true})
	answer := func(result string) chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				d := broker.NextOf(t, protocol.TypeCollabRequest)
				var req protocol.CollabRequest
				if err := d.Decode(&req); err != nil {
					t.Errorf("the broker got %s, %v", d.Message.Content, err)
				}
				answer := protocol.CollabResult{RequestID: req.RequestID, OK: true, Result: json.RawMessage(`{}`)}
				if req.Method == "claim.acquire" {
					answer.Result = json.RawMessage(result)
				}
				broker.Send(t, d.Message.From.Topic(), protocol.TypeCollabResult, answer)
				if req.Method == "claim.acquire" {
					return
				}
			}
		}()
		return done
	}
	says(t, tg, "agent:ext", inGroup("taken", "@ops who?", "role:ops"))
	knock := outside.next()
	x := toolsOf(t, knock)
	done := answer(`{"granted":false,"owner":"agent:other","expiresAt":"2999-01-01T00:00:00Z"}`)
	if got, _ := x.call("chat.claim", map[string]any{"eventId": "taken"}); got["granted"] != false || got["owner"] != "agent:other" {
		t.Errorf("claim %v", got)
	}
	<-done // the event has ended with it, so no more requests follow
	if status, body := post(t, knock.body["callback"].(string), `{"type":"message","content":"mine"}`); status != http.StatusForbidden || !strings.Contains(body, "claim") {
		t.Errorf("without the claim: %d %s; want 403", status, body)
	}
	says(t, tg, "agent:ext", inGroup("free", "@ops who else?", "role:ops"))
	knock = outside.next()
	done = answer(`{"granted":true,"token":7,"owner":"agent:ext","expiresAt":"2999-01-01T00:00:00Z"}`)
	if status, body := post(t, knock.body["callback"].(string), `{"type":"message","content":"mine"}`); status != http.StatusOK {
		t.Errorf("with the claim: %d %s", status, body)
	}
	<-done
	if reply := nextReply(t, tg); reply.Claim == nil || reply.Claim.Token != 7 || reply.Claim.EventID != "free" {
		t.Errorf("reply %+v; want the claim's token with it", reply)
	}
}

func TestMCP_ToolsRequireAToken(t *testing.T) {
	clock := newClock()
	r := startNew(t, func(o *chorus.Options) { o.Now = clock.now })
	outside := newReceiver(t)
	tg, other := r.bus.Join(t, "tg:1", "tg:1"), r.bus.Join(t, "tg:2", "tg:2")
	r.add("ext", outside.url, chorus.AgentSettings{})
	says(t, tg, "agent:ext", dm("e1", "one?"))
	one := toolsOf(t, outside.next())
	says(t, other, "agent:ext", dm("e2", "two?"))
	two := toolsOf(t, outside.next())
	if one.headers["Authorization"] == two.headers["Authorization"] || one.url == two.url {
		t.Error("two channels share a token or an address")
	}
	initialize := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	accept := []string{"Accept", "application/json, text/event-stream"}
	with := func(url, bearer string, more ...string) int {
		t.Helper()
		status, _ := post(t, url, initialize, append(append([]string{"Authorization", bearer}, accept...), more...)...)
		return status
	}
	bearer := one.headers["Authorization"]
	for _, tt := range []struct {
		name   string
		status int
		want   int
	}{
		{"the right token", with(one.url, bearer), http.StatusOK},
		{"no token", with(one.url, ""), http.StatusUnauthorized},
		{"a wrong token", with(one.url, bearer+"x"), http.StatusUnauthorized},
		{"another channel's token", with(one.url, two.headers["Authorization"]), http.StatusUnauthorized},
		{"a foreign origin", with(one.url, bearer, "Origin", "https://evil.example"), http.StatusForbidden},
		{"its own origin", with(one.url, bearer, "Origin", r.url), http.StatusOK},
		{"a null origin", with(one.url, bearer, "Origin", "null"), http.StatusForbidden},
		{"a large body", func() int {
			s, _ := post(t, one.url, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`, "Authorization", bearer, accept[0], accept[1])
			return s
		}(), http.StatusRequestEntityTooLarge},
	} {
		if tt.status != tt.want {
			t.Errorf("%s: %d; want %d", tt.name, tt.status, tt.want)
		}
	}
	req, err := http.NewRequest(http.MethodPost, one.url, strings.NewReader(initialize))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example:80"
	req.Header.Set("Authorization", bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign host: %d; want 403", resp.StatusCode)
	}
	clock.advance(2 * time.Hour)
	if got := with(one.url, bearer); got != http.StatusUnauthorized {
		t.Errorf("an old token: %d; want 401", got)
	}
}

// TestProxy_401SaysWhatIsRequired checks the service's own challenge, and the default one.
func TestProxy_401SaysWhatIsRequired(t *testing.T) {
	r := startNew(t, nil)
	callback := newReceiver(t)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	for challenge, want := range map[string]string{"": "Bearer", `Bearer realm="x", scope="y"`: `Bearer realm="x", scope="y"`} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
			}
			w.WriteHeader(http.StatusUnauthorized)
		}))
		t.Cleanup(web.Close)
		body := posted("c", "m"+want, "x", callback.url)
		body["mcp"] = map[string]any{"url": web.URL}
		if status, answer := post(t, inbox, body); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, offered(t, agent), strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer the-agents-bus-token")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || got != want {
			t.Errorf("the service says %q, the agent hears %d %q", challenge, resp.StatusCode, got)
		}
	}
}

// A service's MCP server with the headers that reached it.
type service struct {
	url  string
	mu   sync.Mutex
	seen []http.Header
}

func newService(t *testing.T, answer string) *service {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "service", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "get_roster", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer}}}, nil
		})
	s := &service{}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = append(s.seen, r.Header.Clone())
		s.mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(web.Close)
	s.url = web.URL + "/mcp?space=1"
	return s
}

func (s *service) headers() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]http.Header(nil), s.seen...)
}

// offered is the address of the tools that came with the next chat_message.
func offered(t *testing.T, agent *bustest.Scripted) string {
	t.Helper()
	d := agent.NextOf(t, protocol.TypeChatMessage)
	var m protocol.ChatMessage
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(m.MCP, &config); err != nil || len(config) != 1 {
		t.Fatalf("mcp %s, %v; want only the address of the proxy", m.MCP, err)
	}
	return config["url"].(string)
}

func TestProxy_AddsTheHeadersOfTheService(t *testing.T) {
	r := startNew(t, nil)
	callback, service := newReceiver(t), newService(t, "alice, bob")
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	inbox := r.inbox("ops")
	send := func(id, token string) string {
		t.Helper()
		body := posted("c", id, id, callback.url)
		body["mcp"] = map[string]any{"url": service.url, "headers": map[string]any{"Authorization": "Bearer " + token, "X-Space": "s-" + token}}
		if status, answer := post(t, inbox, body); status != http.StatusOK {
			t.Fatalf("%d %s", status, answer)
		}
		return offered(t, agent)
	}
	use := func(url string) string {
		t.Helper()
		session, err := connect(t, url, map[string]string{"Authorization": "Bearer the-agents-bus-token"})
		if err != nil {
			t.Fatal(err)
		}
		result, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: "get_roster"})
		if err != nil {
			t.Fatal(err)
		}
		return result.Content[0].(*mcp.TextContent).Text
	}
	first := send("m1", "one")
	if got := use(first); got != "alice, bob" {
		t.Errorf("the tool answered %q", got)
	}
	for i, h := range service.headers() {
		if h.Get("Authorization") != "Bearer one" || h.Get("X-Space") != "s-one" || strings.Contains(asJSON(h), "bus-token") {
			t.Errorf("request %d has %v; want the service's headers, and not the agent's", i, h)
		}
	}
	before := len(service.headers())
	if second := send("m2", "two"); second != first {
		t.Errorf("the address changed from %s to %s; one that a harness keeps must go on working", first, second)
	}
	use(first)
	for _, h := range service.headers()[before:] {
		if h.Get("Authorization") != "Bearer two" || h.Get("X-Space") != "s-two" {
			t.Errorf("after the next message a request has %v; want its headers", h)
		}
	}
}

func TestProxy_CombinesSeveralServers(t *testing.T) {
	r := startNew(t, nil)
	callback, one, two := newReceiver(t), newService(t, "from one"), newService(t, "from two")
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	body := posted("a/b.c", "m1", "x", callback.url) // a name that needs escaping
	body["mcp"] = []any{
		map[string]any{"name": "one", "url": one.url, "headers": map[string]any{"Authorization": "Bearer 1"}},
		map[string]any{"name": "two", "url": two.url},
		map[string]any{"name": "broken", "url": callback.url},
	}
	if status, answer := post(t, r.inbox("ops"), body); status != http.StatusOK {
		t.Fatalf("%d %s", status, answer)
	}
	callback.responding(func(w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(500); return true })
	session, err := connect(t, offered(t, agent), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := session.ListTools(context.Background(), nil)
	if err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "one__get_roster" || list.Tools[1].Name != "two__get_roster" {
		t.Fatalf("tools %+v, %v; want those of the two that work", list, err)
	}
	for name, want := range map[string]string{"one__get_roster": "from one", "two__get_roster": "from two"} {
		result, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: name})
		if err != nil || result.Content[0].(*mcp.TextContent).Text != want {
			t.Errorf("%s: %+v, %v; want %q", name, result, err, want)
		}
	}
	for _, h := range one.headers() {
		if h.Get("Authorization") != "Bearer 1" {
			t.Errorf("a request has %v; want the service's headers", h)
		}
	}
	for name, want := range map[string]string{"one__get_roster": "get_roster", "docs__search": "docs__search"} { // as the service knows it
		agent.Send(t, chorus.ChannelPeer("ops", "a/b.c").Topic(), protocol.TypeAgentEvent, map[string]any{"event": "tool_call", "name": name, "id": "1"})
		c := callback.next()
		for c.kind() != "tool_call" {
			c = callback.next()
		}
		if c.body["name"] != want {
			t.Errorf("of %s the service was told as %v", name, c.body["name"])
		}
	}
}
