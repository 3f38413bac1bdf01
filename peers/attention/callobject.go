package attention

import (
	"maps"
	"slices"
	"strings"
)

// Members of the objects with which models call tools, as plainMember writes them.
var (
	nameMembers = []string{"name", "function", "tool", "toolname", "functionname", "action", "recipientname",
		"call"}
	argumentMembers = strings.Split(strings.ReplaceAll(argumentNames, "_?", ""), "|")
	// members of objects around a call; the first say that it is one
	callMembers = []string{"toolcalls", "tooluses", "functioncall", "functioncalls", "toolcall", "tooluse"}
	listMembers = slices.Concat(callMembers, []string{"calls", "function", "actions", "action", "command", "params"})
)

// argumentNames matches the members of argumentMembers, with or without separators.
const argumentNames = `arguments|parameters|args|input|action_?input|tool_?input|params|kwargs`

// plainMember returns the name of a member without separators, since models write tool_name and toolName.
func plainMember(name string) string { return strings.ReplaceAll(plainName(name), "_", "") }

// A callForm is how a JSON value calls tools.
type callForm int

const (
	noCall    callForm = iota
	otherCall          // of a tool that the turn does not have
	knownCall
)

// formOf returns how a JSON value calls tools. In a list, every element must be a call.
func (n names) formOf(value any, depth int) callForm {
	if depth > maxCallDepth {
		return noCall
	}
	switch v := value.(type) {
	case []any:
		form := noCall
		for _, element := range v {
			one := n.formOf(element, depth+1)
			if one == noCall {
				return noCall
			}
			form = max(form, one)
		}
		return form
	case map[string]any:
		return n.formOfObject(v, depth)
	}
	return noCall
}

// maxCallDepth is how many objects and lists may be around a call, as in an answer of an API.
const maxCallDepth = 6

func (n names) formOfObject(object map[string]any, depth int) callForm {
	v := plainMembers(object)
	arguments := hasMember(v, argumentMembers)
	if definesTool(v) {
		return noCall
	}
	form := noCall
	for _, member := range nameMembers {
		if name, ok := v[member].(string); ok && arguments {
			if n.named(name) {
				return knownCall
			}
			if member == "name" || member == "function" {
				form = otherCall
			}
		} else if ok && n.named(name) && (strings.HasPrefix(member, "tool") || isCompound(name)) {
			return knownCall // with its arguments beside it, or none
		}
	}
	if form != noCall {
		return form
	}
	for _, member := range listMembers {
		if inner, ok := v[member]; ok {
			if form := n.formOf(inner, depth+1); form != noCall {
				return form
			}
		}
	}
	if len(object) == 1 {
		for name, arguments := range object {
			if _, ok := arguments.(map[string]any); ok && n.named(name) {
				return knownCall
			}
		}
	}
	if n.callsWithin(v, depth) {
		return knownCall
	}
	return noCall
}

// callsWithin reports whether a value has an object that calls a tool by its name and arguments, as in an answer of
// an API. Names of one word occur in data that calls nothing, so they count only where an object says that it is a
// call.
func (n names) callsWithin(value any, depth int) bool {
	if depth > maxCallDepth {
		return false
	}
	within := func(inner any) bool { return n.callsWithin(inner, depth+1) }
	switch v := value.(type) {
	case []any:
		return slices.ContainsFunc(v, within)
	case map[string]any:
		v = plainMembers(v)
		kind, _ := v["type"].(string) //nolint:errcheck // or ""
		for _, member := range nameMembers {
			name, ok := v[member].(string)
			certain := isCompound(name) || strings.HasPrefix(member, "tool") ||
				slices.Contains(callMembers, plainMember(kind))
			if ok && certain && n.named(name) && hasMember(v, argumentMembers) && !definesTool(v) {
				return true
			}
		}
		for _, member := range callMembers {
			if n.formOf(v[member], depth+1) == knownCall {
				return true
			}
		}
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), within)
	}
	return false
}

// plainMembers returns an object with the names of its members as plainMember writes them.
func plainMembers(object map[string]any) map[string]any {
	v := make(map[string]any, len(object))
	for member, value := range object {
		v[plainMember(member)] = value
	}
	return v
}

func hasMember(v map[string]any, members []string) bool {
	return slices.ContainsFunc(members, func(member string) bool { _, ok := v[member]; return ok })
}

func isCompound(name string) bool { return strings.Contains(plainName(name), "_") }

// definesTool reports whether an object describes a tool, with the JSON Schema of its parameters, and does not
// call it.
func definesTool(v map[string]any) bool {
	schema, ok := v["parameters"].(map[string]any)
	_, properties := schema["properties"].(map[string]any)
	return ok && properties && schema["type"] == "object"
}
