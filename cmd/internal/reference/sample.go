package reference

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
)

// Describe runs the installed programs and returns their descriptions, in the order in which a
// sample explains them.
func Describe(ctx context.Context) (list []program.Description, err error) {
	for _, name := range []string{
		"hubbub-bus", "hubbub-system", "hubbub-broker", "hubbub-tg", "hubbub-agent", "hubbub-matrix", "hubbub-chorus",
	} {
		path, err := program.Find(name)
		if err != nil {
			return nil, err
		}
		out, err := exec.CommandContext(ctx, path, "--describe").Output()
		if err != nil {
			return nil, fmt.Errorf("asking %s for its settings: %w", path, err)
		}
		var d program.Description
		if err := json.Unmarshal(out, &d); err != nil {
			return nil, fmt.Errorf("the settings of %s are not JSON: %w (another version of the program?)", path, err)
		}
		list = append(list, d)
	}
	return list, nil
}

//go:embed templates
var templates embed.FS

// execute executes a template.
func execute(name string, data any, table func(name, intro string, keys ...string) (string, error)) (string, error) {
	functions := template.FuncMap{
		"table":   table,
		"escape":  escape,
		"lines":   lines,
		"text":    text,
		"meaning": meaning,
		"upper":   strings.ToUpper,
	}
	t, err := template.New(name).Funcs(functions).ParseFS(templates, "templates/"+name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, data)
	return b.String(), err
}

// The samples.
const (
	ForUp       = "up.toml"       // for `hubbub up`
	ForServices = "services.toml" // for the systemd units of the package
)

// Sample returns a sample for the described programs.
func Sample(name string, programs []program.Description) (string, error) {
	return execute(name, nil, func(table, intro string, keys ...string) (string, error) {
		program := "hubbub-" + strings.TrimPrefix(table, "# ")
		for _, d := range programs {
			if d.Name == program {
				return explain(table, intro, keys, d), nil
			}
		}
		return "", fmt.Errorf("the settings of %s are missing", program)
	})
}

// explain returns the table of a program. keys are names and values of flags; a flag with an
// empty value is left out.
func explain(table, intro string, keys []string, d program.Description) string {
	sign, name := "", table
	if rest, idle := strings.CutPrefix(table, "# "); idle {
		sign, name = "# ", rest
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n%s[%s]\n", strings.Repeat("#", lineWidth), sign, name)
	comment(&b, sentence(d.Name+" "+d.Summary)+" "+intro)
	for _, s := range d.Settings {
		if s.Shared {
			continue
		}
		line := "# " + s.Name + " = " + literal(s)
		if i := slices.Index(keys, s.Name); i >= 0 && keys[i+1] == "" {
			continue
		} else if i >= 0 {
			line = sign + s.Name + " = " + keys[i+1]
		}
		b.WriteByte('\n')
		comment(&b, sentence(s.Usage))
		b.WriteString(line + "\n")
	}
	return b.String()
}

// lineWidth is the width of the sample, in characters.
const lineWidth = 100

// comment writes a text as comment lines.
func comment(b *strings.Builder, text string) {
	for _, line := range term.Wrap(strings.TrimSpace(text), lineWidth-2) {
		b.WriteString("# " + line + "\n")
	}
}

// sentence capitalizes a text, unless it begins with a name, and ends it with a period.
func sentence(text string) string {
	text = strings.ReplaceAll(text, "(repeatable)", "(a list)")
	text = strings.ReplaceAll(text, "(repeatable; ", "(a list; ")
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	if !strings.HasPrefix(text, "hubbub") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text + "."
}

// literal returns the default of a setting as a TOML literal.
func literal(s program.Setting) string {
	switch {
	case s.Repeatable:
		return "[]"
	case s.Type == "bool" || s.Type == "int" || s.Type == "int64":
		return s.Default
	case s.Type == "duration":
		return strconv.Quote(shortDuration(s.Default))
	default:
		return strconv.Quote(s.Default)
	}
}

// shortDuration removes zero units from a duration: 5m0s becomes 5m.
func shortDuration(d string) string {
	if strings.HasSuffix(d, "m0s") {
		d = strings.TrimSuffix(d, "0s")
	}
	if strings.HasSuffix(d, "h0m") {
		d = strings.TrimSuffix(d, "0m")
	}
	return d
}
