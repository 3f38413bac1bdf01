package acp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"

	acpsdk "github.com/coder/acp-go-sdk"
)

// TestPermission_IdentifiesTheChatTool covers the requests that each program makes when it calls
// a tool of an MCP server (as recorded from claude-agent-acp 0.101.0, codex-acp 0.16.0,
// gemini-cli 0.61.0 and opencode 1.18.33). It also covers what a model or another server could
// make the program send.
func TestPermission_IdentifiesTheChatTool(t *testing.T) {
	const claude, codex, gemini, opencode = "@agentclientprotocol/claude-agent-acp", "codex-acp", "gemini-cli", "OpenCode"
	codexAsks := func(server string) string {
		return `{"toolCallId":"c1","title":"Approve Send a message","rawInput":{"server_name":"` + server + `","request":{"mode":"form","_meta":{"codex_approval_kind":"mcp_tool_call"}}}}`
	}
	for _, c := range []struct {
		what, program, began, asks string
		want                       bool
	}{
		{"claude", claude, `{"title":"mcp__hubbub__chat_send_message","kind":"other","_meta":{"claudeCode":{"toolName":"mcp__hubbub__chat_send_message"}}}`, `{"toolCallId":"c1","title":"Send a message"}`, true},
		{"claude runs a command", claude, `{"title":"x","_meta":{"claudeCode":{"toolName":"Bash"}}}`, `{"toolCallId":"c1","title":"mcp__hubbub__chat_send_message"}`, false},
		{"claude, arguments that look like codex", claude, `{"title":"x","_meta":{"claudeCode":{"toolName":"mcp__x__chat_send_message"}},"rawInput":{"server":"hubbub","tool":"chat.send_message"}}`, codexAsks("hubbub"), false},
		{"claude, a server that begins alike", claude, `{"title":"x","_meta":{"claudeCode":{"toolName":"mcp__hubbub__x__chat_send_message"}}}`, `{"toolCallId":"c1"}`, false},
		{"claude, a tool that we do not have", claude, `{"title":"x","_meta":{"claudeCode":{"toolName":"mcp__hubbub__chat_x; rm -rf"}}}`, `{"toolCallId":"c1"}`, false},
		{"codex", codex, `{"title":"Tool: hubbub/chat.send_message","rawInput":{"server":"hubbub","tool":"chat.send_message","arguments":{}}}`, codexAsks("hubbub"), true},
		{"codex, another server", codex, `{"title":"Tool: hubbub/chat.send_message","rawInput":{"server":"x","tool":"chat.send_message","arguments":{"server":"hubbub"}}}`, codexAsks("x"), false},
		{"codex, two servers", codex, `{"title":"x","rawInput":{"server":"x","tool":"chat.send_message"}}`, codexAsks("hubbub"), false},
		{"codex, a call that nobody saw", codex, "", codexAsks("hubbub"), false},
		{"codex runs a command", codex, `{"title":"x","rawInput":{"server":"hubbub","tool":"chat.send_message"}}`, `{"toolCallId":"c1","title":"Run rm","rawInput":{"command":["rm"]}}`, false},
		{"gemini", gemini, "", `{"toolCallId":"c1","title":"chat.send_message (hubbub MCP Server)","kind":"other"}`, true},
		{"gemini, another server", gemini, "", `{"toolCallId":"c1","title":"chat.send_message (hubbub MCP Server) (x MCP Server)","kind":"other"}`, false},
		{"gemini runs a command", gemini, "", `{"toolCallId":"c1","title":"chat.send_message (hubbub MCP Server)","kind":"execute"}`, false},
		{"opencode", opencode, `{"title":"hubbub_chat_send_message","kind":"other"}`, `{"toolCallId":"c1","title":"hubbub_chat_send_message"}`, true},
		{"opencode runs a command", opencode, `{"title":"bash","kind":"execute"}`, `{"toolCallId":"c1","title":"hubbub_chat_send_message"}`, false},
		{"nobody knows it", "", `{"title":"mcp__hubbub__chat_send_message"}`, `{"toolCallId":"c1","title":"mcp__hubbub__chat_send_message"}`, false},
	} {
		turn := &collector{tools: map[string]bool{"chat_send_message": true}, calls: map[acpsdk.ToolCallId]callInfo{}, report: func(harness.Progress) {}}
		if c.began != "" {
			var began acpsdk.SessionUpdateToolCall
			if err := json.Unmarshal([]byte(c.began), &began); err != nil {
				t.Fatal(err)
			}
			began.ToolCallId = "c1"
			turn.handleUpdate(&acpsdk.SessionUpdate{ToolCall: &began})
		}
		var asks acpsdk.RequestPermissionRequest
		if err := json.Unmarshal([]byte(c.asks), &asks.ToolCall); err != nil {
			t.Fatal(err)
		}
		if got := turn.isChatToolRequest(c.program, &asks); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestPermission_IsDecidedAfterEarlierUpdates checks that the description with which a call began
// is known when its permission request is handled.
func TestPermission_IsDecidedAfterEarlierUpdates(t *testing.T) {
	turn := &collector{calls: map[acpsdk.ToolCallId]callInfo{}, report: func(harness.Progress) {}}
	p := &agentProcess{turns: map[acpsdk.SessionId]*collector{"s1": turn}}
	const update, rest = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"rm","kind":"execute"}}}`,
		"a line that is not JSON\n" + `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"session/update"}` + "\n"
	var library strings.Builder
	first := writerOf(func(line []byte) (int, error) {
		if turn.calls["c1"].kind != acpsdk.ToolKindExecute {
			t.Errorf("%q comes before what was told", line)
		}
		return library.Write(line)
	})
	if err := p.readOutput(first, strings.NewReader(update+"\n"+rest)); err != nil || library.String() != rest {
		t.Errorf("the library gets %q, %v", library.String(), err)
	}
	if err := p.readOutput(first, strings.NewReader(strings.Repeat("x", maxLine+1))); err == nil {
		t.Error("a line without end was taken")
	}
}

type writerOf func([]byte) (int, error)

func (w writerOf) Write(line []byte) (int, error) { return w(line) }

// TestMCPServers_ReserveOurName checks this because programs derive the names of tools from those
// of servers.
func TestMCPServers_ReserveOurName(t *testing.T) {
	p := &agentProcess{h: New([]string{"x"}, nil), http: true}
	turn := &harness.Turn{ChatServer: &harness.MCPServer{Name: "hubbub", URL: "http://a"}}
	for _, name := range []string{"hubbub", "Hubbub", "files", "files", "my files", "my.files", ""} {
		turn.MCP = append(turn.MCP, harness.MCPServer{Name: name, URL: "http://b"})
	}
	var got []string
	for _, s := range p.mcpServers(turn) {
		got = append(got, s.Http.Name)
	}
	want := `["hubbub","hubbub2","Hubbub3","files","files2","my files","my.files2","mcp"]`
	if raw, err := json.Marshal(got); err != nil || string(raw) != want {
		t.Errorf("%s, want %s", raw, want)
	}
}

// asked is an approver that refuses, and keeps what it was asked.
type asked struct {
	harness.Approver
	tool, arguments string
}

func (*asked) Sensitive(tool string) bool { return tool == "shell" }

func (a *asked) Approve(_ context.Context, tool string, arguments json.RawMessage) error {
	a.tool, a.arguments = tool, string(arguments)
	return errors.New("no")
}

// TestPermission_ByCallIDShowsTheCall covers a request that omits the description with which the
// call began.
func TestPermission_ByCallIDShowsTheCall(t *testing.T) {
	people := &asked{}
	turn := &collector{approver: people, ctx: t.Context(), calls: map[acpsdk.ToolCallId]callInfo{}, report: func(harness.Progress) {}}
	turn.handleUpdate(&acpsdk.SessionUpdate{ToolCall: &acpsdk.SessionUpdateToolCall{ToolCallId: "c1", Kind: acpsdk.ToolKindExecute, Title: "Run", RawInput: "rm -r data"}})
	p := &agentProcess{h: &Harness{opts: Options{Permission: PermitEverything}}}
	r := &acpsdk.RequestPermissionRequest{ToolCall: acpsdk.ToolCallUpdate{ToolCallId: "c1"}}
	if permitted, _ := p.allow(t.Context(), turn, r); permitted || people.tool != "shell" || people.arguments != `{"input":"rm -r data","title":"Run"}` {
		t.Errorf("asked %+v", people)
	}
	r.ToolCall.RawInput, r.ToolCall.Title = "ls", new("List")
	if permitted, _ := p.allow(t.Context(), turn, r); permitted || people.arguments != `{"input":"ls","title":"List"}` {
		t.Errorf("asked %+v", people)
	}
	*people = asked{}
	r.ToolCall.ToolCallId = "c2" // of a call that nothing is known of
	if permitted, _ := p.allow(t.Context(), turn, r); permitted || people.tool != "shell" || people.arguments != `{"input":"ls","title":"List"}` {
		t.Errorf("asked %+v", people)
	}
}

// TestPermission_AmbiguousKindCountsAsShell checks that a program cannot begin a call as one kind
// and request it as another that is always permitted, or call a shell by an unknown kind.
func TestPermission_AmbiguousKindCountsAsShell(t *testing.T) {
	for name, c := range map[string]struct {
		began, asks acpsdk.ToolKind
		want        string
	}{
		"execute, then reading":   {acpsdk.ToolKindExecute, acpsdk.ToolKindRead, "shell"},
		"execute, then another":   {acpsdk.ToolKindExecute, acpsdk.ToolKindOther, "shell"},
		"reading, then execute":   {acpsdk.ToolKindRead, acpsdk.ToolKindExecute, "shell"},
		"reading, then switching": {acpsdk.ToolKindRead, acpsdk.ToolKindSwitchMode, "shell"},
		"in capitals":             {"", "Execute", "shell"},
		"with more behind it":     {"", "execute\u200b", "shell"},
		"begun as no kind":        {"run", acpsdk.ToolKindRead, "shell"},
		"reading":                 {acpsdk.ToolKindRead, acpsdk.ToolKindRead, ""},
		"reading, unannounced":    {"", acpsdk.ToolKindRead, ""},
		"an edit":                 {acpsdk.ToolKindEdit, "", ""},
	} {
		for _, permission := range []Permission{PermitEverything, PermitReading} {
			people := &asked{}
			turn := &collector{approver: people, ctx: t.Context(), calls: map[acpsdk.ToolCallId]callInfo{"c": {kind: c.began}}, report: func(harness.Progress) {}}
			p := &agentProcess{h: &Harness{opts: Options{Permission: permission}}}
			permitted, asked := p.allow(t.Context(), turn, &acpsdk.RequestPermissionRequest{ToolCall: acpsdk.ToolCallUpdate{ToolCallId: "c", Kind: &c.asks}})
			may := c.want == "" && (permission == PermitEverything || c.asks == acpsdk.ToolKindRead)
			if people.tool != c.want || permitted != may || asked != (c.want != "") {
				t.Errorf("%s, %s: asked about %q, permitted %v", name, permission, people.tool, permitted)
			}
		}
	}
}

// TestPermission_OfAPersonIsForOneCall checks that a person's permission is never given for the
// whole session, after which the program would not ask again.
func TestPermission_OfAPersonIsForOneCall(t *testing.T) {
	always := []acpsdk.PermissionOption{{OptionId: "always", Kind: acpsdk.PermissionOptionKindAllowAlways}}
	for name, c := range map[string]struct {
		kind    acpsdk.ToolKind
		options []acpsdk.PermissionOption
		want    string
	}{
		"by a person":          {acpsdk.ToolKindExecute, append(always, acpsdk.PermissionOption{OptionId: "once", Kind: acpsdk.PermissionOptionKindAllowOnce}), "once"},
		"by a person, or none": {acpsdk.ToolKindExecute, always, ""},
		"unasked":              {acpsdk.ToolKindEdit, always, "always"},
	} {
		turn := &collector{approver: agreeing{}, ctx: t.Context(), calls: map[acpsdk.ToolCallId]callInfo{}, report: func(harness.Progress) {}}
		p := &agentProcess{h: &Harness{opts: Options{Permission: PermitEverything}}, turns: map[acpsdk.SessionId]*collector{"s": turn}}
		got := p.decidePermission(t.Context(), &acpsdk.RequestPermissionRequest{SessionId: "s", ToolCall: acpsdk.ToolCallUpdate{ToolCallId: "c", Kind: &c.kind}, Options: c.options})
		if selected := got.Selected; selected == nil && c.want != "" || selected != nil && string(selected.OptionId) != c.want {
			t.Errorf("%s: %+v", name, selected)
		}
	}
}

// TestPermission_SaysWhichOptionYesTakes offers several ways to allow one call.
func TestPermission_SaysWhichOptionYesTakes(t *testing.T) {
	once := func(id, name string) acpsdk.PermissionOption {
		return acpsdk.PermissionOption{OptionId: acpsdk.PermissionOptionId(id), Name: name, Kind: acpsdk.PermissionOptionKindAllowOnce}
	}
	kind := acpsdk.ToolKindExecute
	for want, options := range map[string][]acpsdk.PermissionOption{
		`{"input":null,"title":"rm x"}`:                              {once("a", "Run it")},
		`{"input":null,"title":"rm x","yes means":"Run it"}`:         {once("a", "Run it"), once("b", "Run it in a sandbox")},
		`{"input":null,"title":"rm x","yes means":"Run in sandbox"}`: {once("a", "Run in sandbox"), once("b", "Run it"), once("c", "Run as root")},
	} {
		var asked string
		turn := &collector{approver: agreeing{asked: &asked}, ctx: t.Context(), calls: map[acpsdk.ToolCallId]callInfo{}, report: func(harness.Progress) {}}
		p := &agentProcess{h: &Harness{opts: Options{Permission: PermitEverything}}, turns: map[acpsdk.SessionId]*collector{"s": turn}}
		title := "rm x"
		got := p.decidePermission(t.Context(), &acpsdk.RequestPermissionRequest{SessionId: "s", ToolCall: acpsdk.ToolCallUpdate{ToolCallId: "c", Kind: &kind, Title: &title}, Options: options})
		if asked != want || got.Selected == nil || got.Selected.OptionId != "a" {
			t.Errorf("asked %s, want %s; chosen %+v", asked, want, got.Selected)
		}
	}
}

type agreeing struct {
	harness.Approver
	asked *string
}

func (agreeing) Sensitive(tool string) bool { return tool == "shell" }

func (a agreeing) Approve(_ context.Context, _ string, question json.RawMessage) error {
	if a.asked != nil {
		*a.asked = string(question)
	}
	return nil
}
