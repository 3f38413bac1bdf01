package acp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"

	acpsdk "github.com/coder/acp-go-sdk"
)

// A Permission defines what an ACP program may do without asking anybody.
type Permission string

// The permissions.
const (
	// PermitReading allows reading, searching, thinking and fetching, and refuses to change,
	// delete, move or run anything.
	PermitReading Permission = "reading"
	// PermitAsking allows the same, and asks a person about everything else.
	PermitAsking Permission = "ask"
	// PermitEverything allows everything, within the program's sandbox.
	PermitEverything Permission = "everything"
	// PermitNothing refuses everything except the chat tools.
	PermitNothing Permission = "nothing"
)

// ParsePermission parses a permission.
func ParsePermission(s string) (Permission, bool) {
	p := Permission(s)
	return p, p == PermitReading || p == PermitAsking || p == PermitEverything || p == PermitNothing
}

// decidePermission answers a permission request.
func (p *agentProcess) decidePermission(
	ctx context.Context,
	r *acpsdk.RequestPermissionRequest,
) acpsdk.RequestPermissionOutcome {
	turn := p.collectorOf(r.SessionId)
	if turn == nil { // no such turn is running
		return chooseOption(nil, nil)
	}
	options, prefix := rejectKinds, "not permitted: "
	switch permitted, asked := p.allow(ctx, turn, r); {
	case !permitted:
		turn.markDenied()
	case asked:
		options, prefix = allowKinds[:1], "permitted: " // never "always": the program would stop asking
	default:
		options, prefix = allowKinds, "permitted: "
	}
	title := cmp.Or(deref(r.ToolCall.Title), string(r.ToolCall.ToolCallId))
	turn.report(harness.Progress{Kind: harness.ProgressStatus, Message: prefix + title})
	return chooseOption(options, r.Options)
}

// allow reports whether a request is permitted, and whether a person was asked.
func (p *agentProcess) allow(
	ctx context.Context,
	turn *collector,
	r *acpsdk.RequestPermissionRequest,
) (permitted, asked bool) {
	asks, chatTool := turn.callDetails(r), turn.isChatToolRequest(p.name, r)
	kind := asks.kind
	permitted = isPermitted(p.h.opts.Permission, kind, chatTool)
	if turn.approver == nil || chatTool {
		return permitted, false
	}
	tool := settingName(kind)
	if kind == "" && turn.approver.Sensitive(settingName(acpsdk.ToolKindExecute)) {
		tool = settingName(acpsdk.ToolKindExecute) // an unknown kind may be that
	}
	sensitive := turn.approver.Sensitive(tool) || !permitted && p.h.opts.Permission == PermitAsking
	if !sensitive || p.h.opts.Permission == PermitNothing {
		return permitted, false
	}
	question := map[string]any{"title": asks.title, "input": asks.input}
	if once := optionsOfKind(acpsdk.PermissionOptionKindAllowOnce, r.Options); len(once) > 1 {
		question["yes means"] = once[0].Name // a program may offer others, which nobody chooses
	}
	shown, err := json.Marshal(question)
	if err != nil {
		return false, true
	}
	ctx, cancel := turn.untilEnd(ctx)
	defer cancel()
	return turn.approver.Approve(ctx, tool, shown) == nil, true
}

// untilEnd returns a context for a question to a person. It ends with ctx or with the turn, whichever
// ends first.
func (c *collector) untilEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { end(context.Cause(c.ctx)) })
	done := func() {}
	if until, ok := c.ctx.Deadline(); ok {
		ctx, done = context.WithDeadline(ctx, until)
	}
	return ctx, func() {
		done()
		stop()
		end(nil)
	}
}

// callDetails returns what a request is about. A request may leave out what the program said when
// the call began, but a person must see it, and it identifies the tool. If a call has an unknown
// kind or two kinds, its kind is empty.
func (c *collector) callDetails(r *acpsdk.RequestPermissionRequest) callInfo {
	c.mu.Lock()
	began := c.calls[r.ToolCall.ToolCallId]
	c.mu.Unlock()
	w := callInfo{
		kind:  cmp.Or(deref(r.ToolCall.Kind), began.kind),
		title: cmp.Or(deref(r.ToolCall.Title), began.title),
		input: r.ToolCall.RawInput,
	}
	if w.input == nil {
		w.input = began.input
	}
	if !slices.Contains(toolKinds, w.kind) || began.kind != "" && began.kind != w.kind {
		w.kind = ""
	}
	return w
}

// settingName returns the name of a kind of tool in the configuration.
func settingName(kind acpsdk.ToolKind) string {
	if kind == acpsdk.ToolKindExecute {
		return "shell"
	}
	return cmp.Or(string(kind), string(acpsdk.ToolKindOther))
}

// isPermitted decides on one request without asking a person.
func isPermitted(p Permission, kind acpsdk.ToolKind, chatTool bool) bool {
	return p == PermitEverything || chatTool ||
		(p == PermitReading || p == PermitAsking) && slices.Contains(readOnlyKinds, kind)
}

// readOnlyKinds are the kinds of tools that change nothing.
var readOnlyKinds = []acpsdk.ToolKind{
	acpsdk.ToolKindRead,
	acpsdk.ToolKindSearch,
	acpsdk.ToolKindThink,
	acpsdk.ToolKindFetch,
}

// toolKinds are the known kinds of tools.
var toolKinds = append(
	slices.Clone(readOnlyKinds),
	acpsdk.ToolKindEdit,
	acpsdk.ToolKindDelete,
	acpsdk.ToolKindMove,
	acpsdk.ToolKindExecute,
	acpsdk.ToolKindSwitchMode,
	acpsdk.ToolKindOther,
)

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
	server, tool := naming(callInfo{title: deref(r.ToolCall.Title), input: r.ToolCall.RawInput, meta: r.ToolCall.Meta},
		seen)
	return server == chatServerName && c.tools[plainToolName(tool)]
}

// chatServerName is the name of our own MCP server for programs. No other server of a session has
// this name; see agentProcess.mcpServers.
const chatServerName = "hubbub"

// A callInfo is a program's description of a tool call, when the call begins and when the program
// requests permission.
type callInfo struct {
	kind        acpsdk.ToolKind
	title       string
	input, meta any
}

// toolNameParsers maps the name of a program to a function that finds the server and the tool of
// an MCP call in the program's messages. The functions use only data that a model cannot write:
// if a program's title contains the model's text, they read another member. A program that is not
// listed gets no permission for the chat tools beyond Options.Permission.
var toolNameParsers = map[string]func(asks, began callInfo) (server, tool string){
	"@agentclientprotocol/claude-agent-acp": func(asks, began callInfo) (string, string) {
		name := cmp.Or(stringAt(began.meta, "claudeCode", "toolName"), stringAt(asks.meta, "claudeCode", "toolName"))
		return splitToolName(name, "mcp__", "__")
	},
	"codex-acp": func(asks, began callInfo) (string, string) {
		if stringAt(asks.input, "request", "_meta", "codex_approval_kind") != "mcp_tool_call" ||
			stringAt(asks.input, "server_name") != stringAt(began.input, "server") {
			return "", ""
		}
		return stringAt(began.input, "server"), stringAt(began.input, "tool")
	},
	"gemini-cli": func(asks, _ callInfo) (string, string) { // the program itself writes the titles of MCP tools
		if words := geminiTitle().FindStringSubmatch(asks.title); words != nil {
			return words[2], words[1]
		}
		return "", ""
	},
	"OpenCode": func(_, began callInfo) (string, string) { // a call begins with the tool's name as its title
		return splitToolName(began.title, "", "_")
	},
}

var geminiTitle = text.Pattern(`^(\S+) \((\S+) MCP Server\)$`)

// splitToolName splits a program's tool name into the names of the server and the tool.
func splitToolName(name, prefix, between string) (server, tool string) {
	rest, found := strings.CutPrefix(name, prefix+chatServerName+between)
	if !found {
		return "", ""
	}
	return chatServerName, rest
}

// plainToolName reduces a tool's name to characters that every program keeps.
func plainToolName(tool string) string { return nonToolNameChars().ReplaceAllString(tool, "_") }

var nonToolNameChars = text.Pattern(`[^A-Za-z0-9_-]`)

// stringAt returns the string at a path of JSON objects, or "".
func stringAt(v any, path ...string) string {
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	s, _ := v.(string)
	return s
}

// chooseOption picks an option of one of the given kinds, which are in order of preference. It
// cancels a request without such an option.
func chooseOption(
	allow []acpsdk.PermissionOptionKind,
	options []acpsdk.PermissionOption,
) acpsdk.RequestPermissionOutcome {
	for _, kind := range allow {
		if fitting := optionsOfKind(kind, options); len(fitting) > 0 {
			return acpsdk.RequestPermissionOutcome{
				Selected: &acpsdk.RequestPermissionOutcomeSelected{OptionId: fitting[0].OptionId},
			}
		}
	}
	return acpsdk.RequestPermissionOutcome{Cancelled: &acpsdk.RequestPermissionOutcomeCancelled{}}
}

func optionsOfKind(kind acpsdk.PermissionOptionKind, options []acpsdk.PermissionOption) []acpsdk.PermissionOption {
	return slices.DeleteFunc(slices.Clone(options), func(o acpsdk.PermissionOption) bool { return o.Kind != kind })
}

var (
	allowKinds = []acpsdk.PermissionOptionKind{
		acpsdk.PermissionOptionKindAllowOnce,
		acpsdk.PermissionOptionKindAllowAlways,
	}
	rejectKinds = []acpsdk.PermissionOptionKind{
		acpsdk.PermissionOptionKindRejectOnce,
		acpsdk.PermissionOptionKindRejectAlways,
	}
)
