package harness

import (
	"context"
	"encoding/json"
	"fmt"
)

// Joined is the tools of several sources, each under a name of its own. The zero value
// is empty; it is filled before it is used.
type Joined struct {
	tools  []Tool
	source map[string]source
}

// A source is where a tool comes from.
type source struct {
	Tools
	name string // there
}

// Add adds the tools of a source. name returns the names to try for a tool, from n = 1 on.
func (j *Joined) Add(from Tools, name func(tool string, n int) string) {
	if j.source == nil {
		j.source = map[string]source{}
	}
	for _, t := range from.List() {
		there := t.Name
		for n := 1; n == 1 || j.Has(t.Name); n++ {
			t.Name = name(there, n)
		}
		j.source[t.Name] = source{from, there}
		j.tools = append(j.tools, t)
	}
}

// List returns the tools in the order in which they were added.
func (j *Joined) List() []Tool { return j.tools }

// Has reports whether there is a tool of this name.
func (j *Joined) Has(name string) bool { return j.source[name].Tools != nil }

// Call has the source of a tool run it.
func (j *Joined) Call(ctx context.Context, name string, arguments json.RawMessage) Result {
	from, ok := j.source[name]
	if !ok {
		return Refused(fmt.Sprintf("there is no tool %q; use one of the listed tools", name), nil)
	}
	return from.Call(ctx, from.name, arguments)
}

// There returns the name of a tool at its source, or the name itself if there is no such
// tool.
func (j *Joined) There(name string) string {
	if from, ok := j.source[name]; ok {
		return from.name
	}
	return name
}
