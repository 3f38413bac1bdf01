package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// maxName is the maximum length of a tool name that every API accepts.
const maxName = 64

// A toolset holds all tools of one turn under names that the API accepts.
type toolset struct{ harness.MergedTools }

// newToolset combines the tools of several sources. If two names collide, the earlier source
// keeps the name.
func newToolset(sources ...harness.Tools) *toolset {
	s := new(toolset)
	for _, tools := range sources {
		if tools != nil {
			s.Add(tools, numberedName)
		}
	}
	return s
}

// nameHint tells the model which of its tools have other names in its prompt. It is empty if no
// names differ.
func (s *toolset) nameHint() string {
	for _, t := range s.List() {
		if there := s.SourceName(t.Name); there != t.Name {
			return fmt.Sprintf(
				"\nTool names are written here with _ in place of other characters: %s is the tool %s.\n",
				there,
				t.Name,
			)
		}
	}
	return ""
}

// wireName replaces characters that APIs do not accept in tool names with _, and shortens a long
// name to a prefix and a hash.
func wireName(name string) string {
	wire := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '_'
	}, name)
	if len(wire) > maxName {
		sum := sha256.Sum256([]byte(name))
		wire = wire[:maxName-9] + "_" + hex.EncodeToString(sum[:4])
	}
	return wire
}

// numberedName returns the wire name of a tool, with a number suffix for n > 1.
func numberedName(name string, n int) string {
	wire, suffix := wireName(name), ""
	if n > 1 {
		suffix = fmt.Sprintf("_%d", n)
	}
	return wire[:min(len(wire), maxName-len(suffix))] + suffix
}

// callTool runs the tool that a model calls. The result of a wrong call says what to do.
func (s *toolset) callTool(ctx context.Context, c call) harness.Result {
	arguments := []byte(cmp.Or(strings.TrimSpace(c.Arguments), "{}"))
	if inside := ""; arguments[0] == '"' && json.Unmarshal(arguments, &inside) == nil { // a string inside the string
		arguments = []byte(cmp.Or(strings.TrimSpace(inside), "{}"))
	}
	if s.Has(c.Name) && (arguments[0] != '{' || !json.Valid(arguments)) {
		return harness.ErrorResult("the arguments are not a JSON object; call the tool again with a valid one", nil)
	}
	return s.Call(ctx, c.Name, arguments)
}

// resultText returns the text of a result for a model, at most limit bytes.
func resultText(r harness.Result, limit int) string {
	out := r.Text()
	if len(r.StructuredContent) > 0 && (out == "" || r.IsError && out != string(r.StructuredContent)) {
		out = strings.TrimPrefix(out+"\n"+string(r.StructuredContent), "\n")
	}
	return truncate(cmp.Or(out, "done"), limit)
}

// truncate shortens a text to limit bytes without splitting a character, and appends a note.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	prefix := text.Prefix(s, limit)
	return prefix + fmt.Sprintf("\n[cut: %d of %d bytes shown; ask for less]", len(prefix), len(s))
}

// names returns the names of the tools, as the model knows them.
func (t *toolset) names() (list []string) {
	for _, tool := range t.List() {
		list = append(list, tool.Name)
	}
	return list
}
