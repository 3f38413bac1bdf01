package program

import (
	"encoding/json"
	"io"

	"github.com/spf13/pflag"
)

// A Description is what a program tells other programs about itself: its answer to the
// hidden flag --describe, as JSON. Documents are generated from it.
type Description struct {
	Name     string    `json:"name"`
	Summary  string    `json:"summary"` // one sentence without its subject
	Settings []Setting `json:"settings"`
}

// A Setting is one flag, which is also a variable and a key of the file.
type Setting struct {
	Name       string `json:"name"`
	Type       string `json:"type"`    // of the value, such as string, int, bool, duration
	Default    string `json:"default"` // as one would write it after the flag
	Usage      string `json:"usage"`
	Repeatable bool   `json:"repeatable,omitempty"`
	Shared     bool   `json:"shared,omitempty"` // every program has it
}

// Settings describes the flags of a set that are settings, in their order. shared
// reports whether every program has a flag; nil means that none is shared.
func Settings(fs *pflag.FlagSet, shared func(name string) bool) []Setting {
	var list []Setting
	fs.VisitAll(func(f *pflag.Flag) {
		if notSettings[f.Name] || f.Hidden {
			return
		}
		kind, _ := pflag.UnquoteUsage(f)
		_, repeatable := f.Value.(pflag.SliceValue)
		s := Setting{Name: f.Name, Type: f.Value.Type(), Default: f.DefValue, Usage: f.Usage, Repeatable: repeatable}
		if s.Type == "" {
			s.Type = kind
		}
		if shared != nil {
			s.Shared = shared(f.Name)
		}
		list = append(list, s)
	})
	return list
}

// describe answers --describe.
func describe(w io.Writer, p Program, fs *pflag.FlagSet) error {
	frame := pflag.NewFlagSet("", pflag.ContinueOnError)
	addSettings(frame, true)
	shared := func(name string) bool { return frame.Lookup(name) != nil }
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	return out.Encode(Description{Name: p.Name, Summary: p.Summary, Settings: Settings(fs, shared)})
}
