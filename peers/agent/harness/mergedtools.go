package harness

import (
	"context"
	"encoding/json"
	"fmt"
)

// MergedTools combines the tools of several sources, each under a unique name. The zero value is
// empty. Add all sources before using it.
type MergedTools struct {
	Omitted int // tools beyond the limit
	tools   []Tool
	sources map[string]toolSource
}

// maxMergedTools is the number of tools that every API accepts. Those that are added first stay.
const maxMergedTools = 128

// A toolSource is where a tool comes from.
type toolSource struct {
	Tools
	name string // the tool's name at the source
}

// Add adds the tools of a source. The function name returns the nth name to try for a tool, from
// n = 1.
func (j *MergedTools) Add(from Tools, name func(tool string, n int) string) {
	if j.sources == nil {
		j.sources = map[string]toolSource{}
	}
	for _, t := range from.List() {
		if len(j.tools) >= maxMergedTools {
			j.Omitted++
			continue
		}
		there := t.Name
		for n := 1; n == 1 || j.Has(t.Name); n++ {
			t.Name = name(there, n)
		}
		j.sources[t.Name] = toolSource{from, there}
		j.tools = append(j.tools, t)
	}
}

// List returns the tools in the order in which they were added.
func (j *MergedTools) List() []Tool { return j.tools }

// Has reports whether a tool has this name.
func (j *MergedTools) Has(name string) bool { return j.sources[name].Tools != nil }

// Call runs a tool at its source.
func (j *MergedTools) Call(ctx context.Context, name string, arguments json.RawMessage) Result {
	from, ok := j.sources[name]
	if !ok {
		return ErrorResult(fmt.Sprintf("there is no tool %q; use one of the listed tools", name), nil)
	}
	return from.Call(ctx, from.name, arguments)
}

// SourceName returns a tool's name at its source, or name itself if no such tool exists.
func (j *MergedTools) SourceName(name string) string {
	if from, ok := j.sources[name]; ok {
		return from.name
	}
	return name
}
