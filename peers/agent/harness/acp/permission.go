package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"

	acpsdk "github.com/coder/acp-go-sdk"
)

// A Permission says what an ACP program may do without asking anybody.
type Permission string

// The permissions.
const (
	// PermitReading lets it read, search, think and fetch, and refuses to let
	// it change, delete, move or run anything.
	PermitReading Permission = "reading"
	// PermitAsking lets it do that, and has a person decide about the rest.
	PermitAsking Permission = "ask"
	// PermitEverything lets it do anything, within the sandbox that it runs in.
	PermitEverything Permission = "everything"
	// PermitNothing refuses all but the chat tools.
	PermitNothing Permission = "nothing"
)

// ParsePermission reads a permission.
func ParsePermission(s string) (Permission, bool) {
	p := Permission(s)
	return p, p == PermitReading || p == PermitAsking || p == PermitEverything || p == PermitNothing
}

// permission decides on a permission request by Options.Permission.
func (p *program) permission(ctx context.Context, r *acpsdk.RequestPermissionRequest) acpsdk.RequestPermissionOutcome {
	turn := p.running(r.SessionId)
	if turn == nil { // nothing to permit
		return choose(nil, nil)
	}
	options, said := rejecting, "not permitted: "
	switch permitted, asked := p.allowed(ctx, turn, r); {
	case !permitted:
		turn.refuse()
	case asked:
		options, said = allowing[:1], "permitted: " // a program that took it for always would ask nobody again
	default:
		options, said = allowing, "permitted: "
	}
	title := cmp.Or(given(r.ToolCall.Title), string(r.ToolCall.ToolCallId))
	turn.report(harness.Progress{Kind: harness.ProgressStatus, Message: said + title})
	return choose(options, r.Options)
}

// allowed reports whether a request is permitted, and whether a person was asked.
func (p *program) allowed(ctx context.Context, turn *collector, r *acpsdk.RequestPermissionRequest) (permitted, asked bool) {
	asks, chatTool := turn.words(r), turn.asksForChatTool(p.name, r)
	kind := asks.kind
	permitted = permits(p.h.opts.Permission, kind, chatTool)
	if turn.people == nil || chatTool {
		return permitted, false
	}
	tool := toolName(kind)
	if kind == "" && turn.people.Sensitive(toolName(acpsdk.ToolKindExecute)) {
		tool = toolName(acpsdk.ToolKindExecute) // it may be that
	}
	sensitive := turn.people.Sensitive(tool) || !permitted && p.h.opts.Permission == PermitAsking
	if !sensitive || p.h.opts.Permission == PermitNothing {
		return permitted, false
	}
	shown, err := json.Marshal(map[string]any{"title": asks.title, "input": asks.input})
	if err != nil {
		return false, true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(turn.ctx, func() { cancel(context.Cause(turn.ctx)) })()
	if until, ok := turn.ctx.Deadline(); ok {
		var done context.CancelFunc
		ctx, done = context.WithDeadline(ctx, until)
		defer done()
	}
	return turn.people.Approve(ctx, tool, shown) == nil, true
}

// words are what a request asks for. It may leave out what the program said when the call
// began: a person must see that, and it says which tool it is. Of a call that is of two kinds,
// or of one that there is not, nobody knows the kind.
func (c *collector) words(r *acpsdk.RequestPermissionRequest) callWords {
	c.mu.Lock()
	began := c.seen[r.ToolCall.ToolCallId]
	c.mu.Unlock()
	w := callWords{kind: cmp.Or(given(r.ToolCall.Kind), began.kind), title: cmp.Or(given(r.ToolCall.Title), began.title), input: r.ToolCall.RawInput}
	if w.input == nil {
		w.input = began.input
	}
	if !slices.Contains(kinds, w.kind) || began.kind != "" && began.kind != w.kind {
		w.kind = ""
	}
	return w
}

// toolName is how a configuration names a kind of tool.
func toolName(kind acpsdk.ToolKind) string {
	if kind == acpsdk.ToolKindExecute {
		return "shell"
	}
	return cmp.Or(string(kind), string(acpsdk.ToolKindOther))
}

// permits decides on one request. It is pure.
func permits(p Permission, kind acpsdk.ToolKind, chatTool bool) bool {
	return p == PermitEverything || chatTool || (p == PermitReading || p == PermitAsking) && slices.Contains(reading, kind)
}

// reading are the kinds of tools that change nothing.
var reading = []acpsdk.ToolKind{acpsdk.ToolKindRead, acpsdk.ToolKindSearch, acpsdk.ToolKindThink, acpsdk.ToolKindFetch}

// kinds are those of tools that programs may name.
var kinds = append(slices.Clone(reading), acpsdk.ToolKindEdit, acpsdk.ToolKindDelete, acpsdk.ToolKindMove, acpsdk.ToolKindExecute, acpsdk.ToolKindSwitchMode, acpsdk.ToolKindOther)

// asksForChatTool reports whether a request is for a tool of our own MCP server.
func (c *collector) asksForChatTool(program string, r *acpsdk.RequestPermissionRequest) bool {
	kind := cmp.Or(given(r.ToolCall.Kind), acpsdk.ToolKindOther)
	naming := namings[program]
	if kind != acpsdk.ToolKindOther || naming == nil {
		return false
	}
	c.mu.Lock()
	seen := c.seen[r.ToolCall.ToolCallId]
	c.mu.Unlock()
	server, tool := naming(callWords{title: given(r.ToolCall.Title), input: r.ToolCall.RawInput, meta: r.ToolCall.Meta}, seen)
	return server == chatServer && c.tools[plain(tool)]
}

// chatServer is the name under which programs are told of our own MCP server. No other
// server of a session has it: see program.servers.
const chatServer = "hubbub"

// callWords are how a program tells of a tool call: when it begins, and when it asks.
type callWords struct {
	kind        acpsdk.ToolKind
	title       string
	input, meta any
}

// namings say, by the name that a program gives itself, how its requests name the tool of
// an MCP server. What a model can write is never taken: of a program whose title holds the
// model's words another member is read. A program that is not listed gets no permission for
// the chat tools beyond Options.Permission.
var namings = map[string]func(asks, began callWords) (server, tool string){
	"@agentclientprotocol/claude-agent-acp": func(asks, began callWords) (string, string) {
		name := cmp.Or(member(began.meta, "claudeCode", "toolName"), member(asks.meta, "claudeCode", "toolName"))
		return cutName(name, "mcp__", "__")
	},
	"codex-acp": func(asks, began callWords) (string, string) {
		if member(asks.input, "request", "_meta", "codex_approval_kind") != "mcp_tool_call" || member(asks.input, "server_name") != member(began.input, "server") {
			return "", ""
		}
		return member(began.input, "server"), member(began.input, "tool")
	},
	"gemini-cli": func(asks, _ callWords) (string, string) { // its titles of MCP tools are its own words
		if words := geminiTitle.FindStringSubmatch(asks.title); words != nil {
			return words[2], words[1]
		}
		return "", ""
	},
	"OpenCode": func(_, began callWords) (string, string) { // a call begins with the tool's name as its title
		return cutName(began.title, "", "_")
	},
}

var geminiTitle = regexp.MustCompile(`^(\S+) \((\S+) MCP Server\)$`)

// cutName cuts the name that a program makes of those of a server and its tool.
func cutName(name, prefix, between string) (server, tool string) {
	rest, found := strings.CutPrefix(name, prefix+chatServer+between)
	if !found {
		return "", ""
	}
	return chatServer, rest
}

// plain is a tool's name in the letters that every program leaves as they are.
func plain(tool string) string { return notPlain.ReplaceAllString(tool, "_") }

var notPlain = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// member returns the string at a path of JSON objects, or "".
func member(v any, path ...string) string {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	s, _ := v.(string)
	return s
}

// choose picks an option of one of the given kinds, the kinds in order of preference.
// A request without such an option is cancelled.
func choose(allow []acpsdk.PermissionOptionKind, options []acpsdk.PermissionOption) acpsdk.RequestPermissionOutcome {
	for _, kind := range allow {
		if i := slices.IndexFunc(options, func(o acpsdk.PermissionOption) bool { return o.Kind == kind }); i >= 0 {
			return acpsdk.RequestPermissionOutcome{Selected: &acpsdk.RequestPermissionOutcomeSelected{OptionId: options[i].OptionId}}
		}
	}
	return acpsdk.RequestPermissionOutcome{Cancelled: &acpsdk.RequestPermissionOutcomeCancelled{}}
}

var (
	allowing  = []acpsdk.PermissionOptionKind{acpsdk.PermissionOptionKindAllowOnce, acpsdk.PermissionOptionKindAllowAlways}
	rejecting = []acpsdk.PermissionOptionKind{acpsdk.PermissionOptionKindRejectOnce, acpsdk.PermissionOptionKindRejectAlways}
)
