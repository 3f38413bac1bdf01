package model

import (
	"bytes"
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

// maxName is the longest tool name that every API takes.
const maxName = 64

// A toolset is all tools of one turn under names that the API takes.
type toolset struct {
	tools  []harness.Tool // with wire names, in order
	source map[string]toolSource
}

type toolSource struct {
	name  string // as the source knows it
	tools harness.Tools
}

// newToolset gathers the tools of several sources; earlier sources keep their
// names where two would collide.
func newToolset(sources ...harness.Tools) *toolset {
	s := &toolset{source: map[string]toolSource{}}
	for _, tools := range sources {
		if tools == nil {
			continue
		}
		for _, t := range tools.List() {
			wire := s.free(wireName(t.Name))
			s.source[wire] = toolSource{name: t.Name, tools: tools}
			t.Name = wire
			s.tools = append(s.tools, t)
		}
	}
	return s
}

// hint tells the model under which names it has tools that its prompt calls
// otherwise; empty where every tool keeps its name.
func (s *toolset) hint() string {
	for _, t := range s.tools {
		if source := s.source[t.Name]; source.name != t.Name {
			return fmt.Sprintf("\nTool names are written here with _ where their names have other signs: %s is the tool %s.\n", source.name, t.Name)
		}
	}
	return ""
}

// wireName replaces what APIs refuse in tool names by _, and shortens long
// names to a prefix and a hash.
func wireName(name string) string {
	wire := make([]byte, 0, len(name))
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			wire = append(wire, byte(r))
		default:
			wire = append(wire, '_')
		}
	}
	if len(wire) > maxName {
		sum := sha256.Sum256([]byte(name))
		wire = append(wire[:maxName-9], "_"+hex.EncodeToString(sum[:4])...)
	}
	return string(wire)
}

func (s *toolset) free(wire string) string {
	candidate := wire
	for n := 2; ; n++ {
		if _, taken := s.source[candidate]; !taken {
			return candidate
		}
		suffix := fmt.Sprintf("_%d", n)
		candidate = wire[:min(len(wire), maxName-len(suffix))] + suffix
	}
}

// call runs the tool of a model's call. What the model got wrong comes back as
// a result that says what to do.
func (s *toolset) call(ctx context.Context, c call) harness.Result {
	source, ok := s.source[c.Name]
	if !ok {
		return harness.Refused(fmt.Sprintf("there is no tool %q; use one of the listed tools", c.Name), nil)
	}
	arguments := bytes.TrimSpace([]byte(c.Arguments))
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if arguments[0] != '{' || !json.Valid(arguments) {
		return harness.Refused("the arguments are not a JSON object; call the tool again with a valid one", nil)
	}
	return source.tools.Call(ctx, source.name, arguments)
}

// resultText is what a model reads of a result: at most limit bytes.
func resultText(r harness.Result, limit int) string {
	said := r.Text()
	if len(r.StructuredContent) > 0 && (said == "" || r.IsError && said != string(r.StructuredContent)) {
		said = strings.TrimPrefix(said+"\n"+string(r.StructuredContent), "\n")
	}
	return cut(cmp.Or(said, "done"), limit)
}

// cut shortens a text to limit bytes without breaking a character, and says so.
func cut(said string, limit int) string {
	if len(said) <= limit {
		return said
	}
	shown := text.Prefix(said, limit)
	return shown + fmt.Sprintf("\n[cut: %d of %d bytes shown; ask for less]", len(shown), len(said))
}
