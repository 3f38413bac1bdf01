package acp

import (
	"cmp"
	"regexp"
	"slices"

	acpsdk "github.com/coder/acp-go-sdk"
)

// A Permission says what an ACP program may do without asking anybody.
type Permission string

// The permissions.
const (
	// PermitReading lets it read, search, think and fetch, and refuses to let
	// it change, delete, move or run anything.
	PermitReading Permission = "reading"
	// PermitEverything lets it do anything, within the sandbox that it runs in.
	PermitEverything Permission = "everything"
	// PermitNothing refuses all but the chat tools.
	PermitNothing Permission = "nothing"
)

// ParsePermission reads a permission.
func ParsePermission(s string) (Permission, bool) {
	p := Permission(s)
	return p, p == PermitReading || p == PermitEverything || p == PermitNothing
}

// chatTool finds the names under which programs show the tools of our own MCP
// server, and nothing else.
var chatTool = regexp.MustCompile(`^(mcp__)?hubbub(__|[:/.] ?)(chat|work)[._][a-z_]+$`)

// permits decides on one request. It is pure.
func permits(p Permission, call *acpsdk.ToolCallUpdate) bool {
	kind := cmp.Or(given(call.Kind), acpsdk.ToolKindOther)
	switch {
	case p == PermitEverything, kind == acpsdk.ToolKindOther && chatTool.MatchString(given(call.Title)):
		return true
	default:
		return p == PermitReading && slices.Contains(reading, kind)
	}
}

// reading are the kinds of tools that change nothing.
var reading = []acpsdk.ToolKind{acpsdk.ToolKindRead, acpsdk.ToolKindSearch, acpsdk.ToolKindThink, acpsdk.ToolKindFetch}

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
