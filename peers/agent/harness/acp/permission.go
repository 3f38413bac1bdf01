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

// decidePermission decides on a permission request by Options.Permission.
func (p *agentProcess) decidePermission(ctx context.Context, r *acpsdk.RequestPermissionRequest) acpsdk.RequestPermissionOutcome {
	turn := p.collectorOf(r.SessionId)
	if turn == nil { // nothing to permit
		return chooseOption(nil, nil)
	}
	options, said := rejectKinds, "not permitted: "
	switch permitted, asked := p.allow(ctx, turn, r); {
	case !permitted:
		turn.markDenied()
	case asked:
		options, said = allowKinds[:1], "permitted: " // a program that took it for always would ask nobody again
	default:
		options, said = allowKinds, "permitted: "
	}
	title := cmp.Or(deref(r.ToolCall.Title), string(r.ToolCall.ToolCallId))
	turn.report(harness.Progress{Kind: harness.ProgressStatus, Message: said + title})
	return chooseOption(options, r.Options)
}

// allow reports whether a request is permitted, and whether a person was asked.
func (p *agentProcess) allow(ctx context.Context, turn *collector, r *acpsdk.RequestPermissionRequest) (permitted, asked bool) {
	asks, chatTool := turn.callDetails(r), turn.isChatToolRequest(p.name, r)
	kind := asks.kind
	permitted = isPermitted(p.h.opts.Permission, kind, chatTool)
	if turn.approver == nil || chatTool {
		return permitted, false
	}
	tool := settingName(kind)
	if kind == "" && turn.approver.Sensitive(settingName(acpsdk.ToolKindExecute)) {
		tool = settingName(acpsdk.ToolKindExecute) // it may be that
	}
	sensitive := turn.approver.Sensitive(tool) || !permitted && p.h.opts.Permission == PermitAsking
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
	return turn.approver.Approve(ctx, tool, shown) == nil, true
}

// callDetails are what a request asks for. It may leave out what the program said when the call
// began: a person must see that, and it says which tool it is. Of a call that is of two kinds,
// or of one that there is not, nobody knows the kind.
func (c *collector) callDetails(r *acpsdk.RequestPermissionRequest) callInfo {
	c.mu.Lock()
	began := c.calls[r.ToolCall.ToolCallId]
	c.mu.Unlock()
	w := callInfo{kind: cmp.Or(deref(r.ToolCall.Kind), began.kind), title: cmp.Or(deref(r.ToolCall.Title), began.title), input: r.ToolCall.RawInput}
	if w.input == nil {
		w.input = began.input
	}
	if !slices.Contains(toolKinds, w.kind) || began.kind != "" && began.kind != w.kind {
		w.kind = ""
	}
	return w
}

// settingName is how a configuration names a kind of tool.
func settingName(kind acpsdk.ToolKind) string {
	if kind == acpsdk.ToolKindExecute {
		return "shell"
	}
	return cmp.Or(string(kind), string(acpsdk.ToolKindOther))
}

// isPermitted decides on one request. It is pure.
func isPermitted(p Permission, kind acpsdk.ToolKind, chatTool bool) bool {
	return p == PermitEverything || chatTool || (p == PermitReading || p == PermitAsking) && slices.Contains(readOnlyKinds, kind)
}

// readOnlyKinds are the kinds of tools that change nothing.
var readOnlyKinds = []acpsdk.ToolKind{acpsdk.ToolKindRead, acpsdk.ToolKindSearch, acpsdk.ToolKindThink, acpsdk.ToolKindFetch}

// toolKinds are those of tools that programs may name.
var toolKinds = append(slices.Clone(readOnlyKinds), acpsdk.ToolKindEdit, acpsdk.ToolKindDelete, acpsdk.ToolKindMove, acpsdk.ToolKindExecute, acpsdk.ToolKindSwitchMode, acpsdk.ToolKindOther)

// isChatToolRequest reports whether a request is for a tool of our own MCP server.
func (c *collector) isChatToolRequest(program string, r *acpsdk.RequestPermissionRequest) bool {
	kind := cmp.Or(deref(r.ToolCall.Kind), acpsdk.ToolKindOther)
	naming := toolNameParsers[program]
	if kind != acpsdk.ToolKindOther || naming == nil {
		return false
	}
	c.mu.Lock()
	seen := c.calls[r.ToolCall.ToolCallId]
	c.mu.Unlock()
	server, tool := naming(callInfo{title: deref(r.ToolCall.Title), input: r.ToolCall.RawInput, meta: r.ToolCall.Meta}, seen)
	return server == chatServerName && c.tools[plainToolName(tool)]
}

// chatServerName is the name under which programs are told of our own MCP server. No other
// server of a session has it: see program.servers.
const chatServerName = "hubbub"

// callInfo are how a program tells of a tool call: when it begins, and when it asks.
type callInfo struct {
	kind        acpsdk.ToolKind
	title       string
	input, meta any
}

// toolNameParsers say, by the name that a program gives itself, how its requests name the tool of
// an MCP server. What a model can write is never taken: of a program whose title holds the
// model's words another member is read. A program that is not listed gets no permission for
// the chat tools beyond Options.Permission.
var toolNameParsers = map[string]func(asks, began callInfo) (server, tool string){
	"@agentclientprotocol/claude-agent-acp": func(asks, began callInfo) (string, string) {
		name := cmp.Or(stringAt(began.meta, "claudeCode", "toolName"), stringAt(asks.meta, "claudeCode", "toolName"))
		return splitToolName(name, "mcp__", "__")
	},
	"codex-acp": func(asks, began callInfo) (string, string) {
		if stringAt(asks.input, "request", "_meta", "codex_approval_kind") != "mcp_tool_call" || stringAt(asks.input, "server_name") != stringAt(began.input, "server") {
			return "", ""
		}
		return stringAt(began.input, "server"), stringAt(began.input, "tool")
	},
	"gemini-cli": func(asks, _ callInfo) (string, string) { // its titles of MCP tools are its own words
		if words := geminiTitle.FindStringSubmatch(asks.title); words != nil {
			return words[2], words[1]
		}
		return "", ""
	},
	"OpenCode": func(_, began callInfo) (string, string) { // a call begins with the tool's name as its title
		return splitToolName(began.title, "", "_")
	},
}

var geminiTitle = regexp.MustCompile(`^(\S+) \((\S+) MCP Server\)$`)

// splitToolName cuts the name that a program makes of those of a server and its tool.
func splitToolName(name, prefix, between string) (server, tool string) {
	rest, found := strings.CutPrefix(name, prefix+chatServerName+between)
	if !found {
		return "", ""
	}
	return chatServerName, rest
}

// plainToolName is a tool's name in the letters that every program leaves as they are.
func plainToolName(tool string) string { return nonToolNameChars.ReplaceAllString(tool, "_") }

var nonToolNameChars = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// stringAt returns the string at a path of JSON objects, or "".
func stringAt(v any, path ...string) string {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	s, _ := v.(string)
	return s
}

// chooseOption picks an option of one of the given kinds, the kinds in order of preference.
// A request without such an option is cancelled.
func chooseOption(allow []acpsdk.PermissionOptionKind, options []acpsdk.PermissionOption) acpsdk.RequestPermissionOutcome {
	for _, kind := range allow {
		if i := slices.IndexFunc(options, func(o acpsdk.PermissionOption) bool { return o.Kind == kind }); i >= 0 {
			return acpsdk.RequestPermissionOutcome{Selected: &acpsdk.RequestPermissionOutcomeSelected{OptionId: options[i].OptionId}}
		}
	}
	return acpsdk.RequestPermissionOutcome{Cancelled: &acpsdk.RequestPermissionOutcomeCancelled{}}
}

var (
	allowKinds  = []acpsdk.PermissionOptionKind{acpsdk.PermissionOptionKindAllowOnce, acpsdk.PermissionOptionKindAllowAlways}
	rejectKinds = []acpsdk.PermissionOptionKind{acpsdk.PermissionOptionKindRejectOnce, acpsdk.PermissionOptionKindRejectAlways}
)
