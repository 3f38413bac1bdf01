package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"hubbub/peers/attention"
)

// A label names an agent, and may narrow the choice among its endpoints:
//
//	@name  @name.workspace  @name.workspace.node
//	@name.profile:dev.harness:codex.model:5-5.node:mini   (in any order)
//	@name#harness?model
//
// All parts are in normal form: lower case, with one dash for each run of characters other than
// letters and digits.
type label struct {
	Name, Workspace, Profile, Harness, Model, Node string
}

const (
	MaxLabel    = 256 // bytes
	MaxMentions = 50  // per message
)

var errNoName = errors.New("a label needs a name, such as @lead")

// parseLabel parses a label, with or without its leading "@".
func parseLabel(text string) (label, error) {
	rest := strings.TrimPrefix(strings.TrimSpace(text), "@")
	switch {
	case rest == "":
		return label{}, errNoName
	case len(rest) > MaxLabel:
		return label{}, fmt.Errorf("a label has at most %d bytes", MaxLabel)
	case strings.ContainsAny(rest, "@ \t\r\n"):
		return label{}, fmt.Errorf("%q is not a label: it contains an @ or a space", text)
	}
	var l label
	var wrong [2]error
	rest, model, hasModel := strings.Cut(rest, "?")
	rest, harness, hasHarness := strings.Cut(rest, "#")
	if hasModel {
		wrong[0] = l.set("model", model)
	}
	if hasHarness {
		wrong[1] = l.set("harness", harness)
	}
	return l, cmp.Or(wrong[0], wrong[1], l.parseSegments(strings.Split(rest, ".")))
}

func (l *label) parseSegments(segments []string) error {
	l.Name = Normalize(segments[0])
	if l.Name == "" || strings.Contains(segments[0], ":") {
		return errNoName
	}
	positions := []string{"workspace", "node"}
	for _, s := range segments[1:] {
		key, value, typed := strings.Cut(s, ":")
		if !typed {
			if len(positions) == 0 {
				return errors.New("a label has at most a name, a workspace and a node without their keys")
			}
			key, value, positions = positions[0], s, positions[1:]
		}
		if err := l.set(key, value); err != nil {
			return err
		}
	}
	return nil
}

func (l *label) set(key, value string) error {
	part := map[string]*string{
		"workspace": &l.Workspace,
		"branch":    &l.Workspace,
		"worktree":  &l.Workspace,
		"profile":   &l.Profile,
		"persona":   &l.Profile,
		"harness":   &l.Harness, "runtime": &l.Harness, "model": &l.Model, "node": &l.Node, "host": &l.Node,
	}[key]
	if part == nil {
		return fmt.Errorf("a label has no part %q; use workspace, profile, harness, model or node", key)
	}
	if *part != "" {
		return fmt.Errorf("a label names its %s twice", key)
	}
	if strings.ContainsAny(value, "#?:") {
		return fmt.Errorf("%q is not a %s: write the harness first, after #, then the model, after ?", value, key)
	}
	if *part = Normalize(value); *part == "" {
		return fmt.Errorf("the %s of a label is empty", key)
	}
	return nil
}

// String returns the canonical form. Equal labels have equal forms.
func (l label) String() string {
	var b strings.Builder
	b.WriteString("@" + l.Name)
	for _, part := range [][2]string{
		{".", l.Workspace}, {".profile:", l.Profile}, {".harness:", l.Harness}, {".model:", l.Model},
		{".node:", l.Node},
	} {
		if part[1] != "" {
			b.WriteString(part[0] + part[1])
		}
	}
	return b.String()
}

// Normalize returns a name in the form in which names are compared.
func Normalize(s string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(s) {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('-')
		}
		gap = false
		b.WriteRune(r)
	}
	return b.String()
}

// A mention is a label in a text. A leading mention is preceded only by other labels.
type mention struct {
	Label   label
	Leading bool
}

// FindMentions returns the labels in a text in order, each once, and at most 50. It ignores what
// only resembles a label, such as a mail address.
func FindMentions(text string) []mention {
	var found []mention
	labels := attention.Labels(text)
	leading := attention.CountLeading(text, labels)
	for i, at := range labels {
		l, err := parseLabel(text[at.From+1 : at.To])
		if err != nil {
			leading = min(leading, i) // an invalid label is an ordinary word
			continue
		}
		known := slices.ContainsFunc(found, func(f mention) bool { return f.Label == l })
		if !known && len(found) < MaxMentions {
			found = append(found, mention{l, i < leading})
		}
	}
	return found
}
