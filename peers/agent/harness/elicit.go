package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/attention"

	"github.com/google/jsonschema-go/jsonschema"
)

// Prefixes of the names of questions that a server or a program asks a person while it runs:
// "elicit:SERVER.TOOL" for a question that a yes answers, and "form:SERVER.TOOL" for one that
// words answer.
const (
	ElicitPrefix = "elicit:"
	FormPrefix   = "form:"
)

// Limits on the question from a server or a program.
const (
	maxQuestion = 4 << 10
	maxForm     = 2000 // bytes of a question that is answered in words, as it is shown
	maxFields   = 20
)

// The actions by which a question from a server or a program is answered.
const (
	ElicitAccept  = "accept"
	ElicitDecline = "decline"
	ElicitCancel  = "cancel"
)

// Elicit asks a person what a server or a program wants to know while it runs. Schema is the JSON
// Schema of the answer. A form that a yes answers is a decision. Any other form is asked in words,
// and once more if the answer does not fit. Elicit blocks until the person has answered or ctx
// ends. It returns the action, and with ElicitAccept the content of the answer. The action is
// ElicitCancel if the question cannot be shown, gets no fitting answer, or outlives ctx.
func Elicit(ctx context.Context, people Approver, name, message string, schema any) (string, map[string]any) {
	f, err := newForm(schema)
	if err != nil || people == nil || len(message) > maxQuestion {
		return ElicitCancel, nil
	}
	content, whole := f.accepted()
	if whole {
		return f.confirm(ctx, people, name, message, content)
	}
	problem := ""
	for range 2 {
		question, err := f.question(message, problem)
		if err != nil || len(question) > maxForm {
			return ElicitCancel, nil
		}
		words, err := people.Ask(ctx, FormPrefix+name, question)
		switch {
		case ctx.Err() != nil:
			return ElicitCancel, nil
		case err != nil:
			return ElicitDecline, nil
		}
		if content, err = f.read(words, people); err == nil {
			return ElicitAccept, content
		}
		if errors.Is(err, errDeclined) {
			return ElicitDecline, nil
		}
		problem = err.Error()
	}
	return ElicitCancel, nil
}

// confirm lets a person decide on a proposed answer.
func (*form) confirm(ctx context.Context, people Approver, name, message string, content map[string]any) (
	string, map[string]any) {
	question, err := json.Marshal(map[string]any{"asks": message, "answer": content})
	if err != nil {
		return ElicitCancel, nil
	}
	err = people.Approve(ctx, ElicitPrefix+name, question)
	switch {
	case err == nil:
		return ElicitAccept, content
	case ctx.Err() != nil:
		return ElicitCancel, nil
	}
	return ElicitDecline, nil
}

// errDeclined means that a person's words decline to answer.
var errDeclined = errors.New("the person declined")

// A form is what a question wants to know.
type form struct {
	fields []field // required ones first, then by name
	whole  *jsonschema.Resolved
}

// A field is one member of the answer.
type field struct {
	*jsonschema.Schema
	name     string
	required bool
	preset   any // its default
}

// newForm returns the form of a schema. A missing schema is a form without fields.
func newForm(schema any) (*form, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	s := &jsonschema.Schema{}
	if schema != nil {
		if err := json.Unmarshal(raw, s); err != nil {
			return nil, err
		}
	}
	f := &form{}
	if f.whole, err = s.Resolve(nil); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		one := field{Schema: s.Properties[name], name: name, required: slices.Contains(s.Required, name)}
		if len(one.Default) > 0 && json.Unmarshal(one.Default, &one.preset) != nil {
			return nil, fmt.Errorf("the default of %s is not JSON", name)
		}
		f.fields = append(f.fields, one)
	}
	slices.SortStableFunc(f.fields, func(a, b field) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[a.required], map[bool]int{true: 0, false: 1}[b.required])
	})
	if len(f.fields) > maxFields {
		return nil, fmt.Errorf("a form of %d fields; at most %d can be asked", len(f.fields), maxFields)
	}
	return f, nil
}

// accepted returns the answer if the person says yes, and whether that answers the whole form. It
// confirms required booleans, uses defaults, and leaves out optional members. A form that has only
// such members is not answered by a yes.
func (f *form) accepted() (content map[string]any, whole bool) {
	content, whole = map[string]any{}, true
	defer func() { whole = whole && (len(content) > 0 || len(f.fields) == 0) }()
	for i := range f.fields {
		switch one := &f.fields[i]; {
		case one.preset != nil:
			content[one.name] = one.preset
		case one.required && one.Type == "boolean":
			content[one.name] = true
		case one.required:
			whole = false
		}
	}
	return content, whole
}

// question returns the form as a person sees it.
func (f *form) question(message, problem string) (json.RawMessage, error) {
	q := struct {
		Problem string   `json:"problem,omitempty"`
		Asks    string   `json:"asks"`
		Wants   []string `json:"wants"`
		Form    string   `json:"form,omitempty"`
	}{Problem: problem, Asks: message}
	for i := range f.fields {
		q.Wants = append(q.Wants, f.fields[i].describe())
	}
	if len(f.fields) > 1 {
		q.Form = "a line for each: name: value"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(q)
	return bytes.TrimSpace(b.Bytes()), err
}

// describe says what a field takes.
func (f *field) describe() string {
	kind := map[string]string{
		"integer": "a whole number", "number": "a number", "boolean": "yes or no", "array": "any of, with commas:",
	}[f.Type]
	kind = cmp.Or(kind, map[string]string{
		"email": "a mail address", "uri": "a web address", "date": "a date such as 2026-01-31 or tomorrow",
		"date-time": "a time such as 2026-01-31 9:00 or tomorrow 9:00",
	}[f.Format], "text")
	if list := f.choices(); len(list) > 0 {
		if f.Type != "array" {
			kind = "one of:"
		}
		kind += " " + strings.Join(choiceNames(list), ", ")
	}
	if f.Minimum != nil {
		kind += ", at least " + strconv.FormatFloat(*f.Minimum, 'f', -1, 64)
	}
	if f.Maximum != nil {
		kind += ", at most " + strconv.FormatFloat(*f.Maximum, 'f', -1, 64)
	}
	said := f.name + ": " + kind
	if f.preset != nil {
		said += fmt.Sprintf(", else %v", f.preset)
	} else if !f.required {
		said += ", if you like"
	}
	if about := cmp.Or(f.Description, f.Title); about != "" {
		said += " (" + about + ")"
	}
	return said
}

// A choice is one value that a field takes, under its name for people.
type choice struct {
	value any
	title string
}

func choiceNames(list []choice) (names []string) {
	for _, c := range list {
		name := fmt.Sprint(c.value)
		if c.title != "" && c.title != name {
			name += " (" + c.title + ")"
		}
		names = append(names, name)
	}
	return names
}

// choices returns the values that a field or the elements of a list take; none if any value fits.
func (f *field) choices() (list []choice) {
	s := f.Schema
	if s.Type == "array" && s.Items != nil {
		s = s.Items
	}
	titles, _ := s.Extra["enumNames"].([]any)
	for i, value := range s.Enum {
		c := choice{value: value}
		if i < len(titles) {
			c.title = fmt.Sprint(titles[i])
		}
		list = append(list, c)
	}
	for _, one := range slices.Concat(s.OneOf, s.AnyOf) {
		if one.Const != nil {
			list = append(list, choice{value: *one.Const, title: one.Title})
		}
	}
	return list
}

// read returns the answer that a person's words give, or an error that says what is missing or
// invalid.
func (f *form) read(words string, people Approver) (map[string]any, error) {
	content, _ := f.accepted()
	for i := range f.fields {
		if one := &f.fields[i]; one.required && one.preset == nil {
			delete(content, one.name) // a yes confirms no box of a form in words
		}
	}
	said, err := f.split(words)
	if err == nil && people.Read(words) == attention.AnswerNo && !f.takesNo(said) {
		return nil, errDeclined
	}
	for i := range f.fields {
		one := &f.fields[i]
		value, given := said[one.name]
		if err != nil || !given {
			continue
		}
		content[one.name], err = one.value(value, people)
	}
	if err != nil {
		if people.Read(words) == attention.AnswerNo {
			return nil, errDeclined
		}
		return nil, err
	}
	for i := range f.fields {
		if one := &f.fields[i]; one.required && content[one.name] == nil {
			return nil, fmt.Errorf("%s is missing", one.describe())
		}
	}
	if err := f.whole.Validate(content); err != nil {
		return nil, fmt.Errorf("that does not fit: %w", err)
	}
	return content, nil
}

// takesNo reports whether the answer sets a field for which "no" is a valid value.
func (f *form) takesNo(said map[string]any) bool {
	return slices.ContainsFunc(f.fields, func(one field) bool {
		return said[one.name] != nil && (one.Type == "boolean" || len(one.choices()) > 0)
	})
}

// split assigns a person's words to fields: a JSON object, lines with names, or the only value.
func (f *form) split(words string) (map[string]any, error) {
	words = strings.TrimSpace(words)
	said := map[string]any{}
	if strings.HasPrefix(words, "{") && json.Unmarshal([]byte(words), &said) == nil {
		return said, nil
	}
	lines, last := map[string][]string{}, ""
	for line := range strings.Lines(words) {
		line = strings.TrimSpace(line)
		if one, value := f.named(line); one != nil {
			lines[one.name], last = []string{value}, one.name
		} else if last != "" && line != "" {
			lines[last] = append(lines[last], line)
		} else if line != "" {
			break
		}
	}
	said = map[string]any{}
	for name, value := range lines {
		said[name] = strings.Join(value, "\n")
	}
	if len(said) > 0 {
		return said, nil
	}
	var all, only []string
	for i := range f.fields {
		one := &f.fields[i]
		if all = append(all, one.name); len(f.fields) == 1 || one.required && one.preset == nil {
			only = append(only, one.name)
		}
	}
	switch len(only) {
	case 0:
		return nil, errors.New("write a line for each that you answer: " + strings.Join(all, ": …, ") + ": …")
	case 1:
	default:
		return nil, errors.New("write a line for each: " + strings.Join(only, ": …, ") + ": …")
	}
	said[only[0]] = words
	return said, nil
}

// named returns the field whose name begins a line, and the rest of the line.
func (f *form) named(line string) (*field, string) {
	i := strings.IndexAny(line, ":=：")
	if i < 0 {
		return nil, ""
	}
	name := strings.Trim(line[:i], " -*`")
	for n := range f.fields {
		if one := &f.fields[n]; strings.EqualFold(name, one.name) || one.Title != "" && strings.EqualFold(name, one.Title) {
			return one, strings.TrimSpace(strings.TrimLeft(line[i:], ":=："))
		}
	}
	return nil, ""
}

// value converts what a person gave for a field.
func (f *field) value(given any, people Approver) (any, error) {
	words, isText := given.(string)
	if !isText {
		return given, nil // of a JSON object; the schema validates it
	}
	misfit := fmt.Errorf("%q does not fit %s", words, f.describe())
	choices := f.choices()
	switch {
	case f.Type == "array":
		list := []any{}
		for part := range strings.FieldsFuncSeq(words, func(r rune) bool { return strings.ContainsRune(",;、，\n", r) }) {
			value, ok := choose(choices, strings.TrimSpace(part))
			if !ok {
				return nil, misfit
			}
			list = append(list, value)
		}
		return list, nil
	case len(choices) > 0:
		if value, ok := choose(choices, words); ok {
			return value, nil
		}
		return nil, misfit
	case f.Type == "boolean":
		switch answer := people.Read(words); {
		case strings.EqualFold(words, "true"), answer == attention.AnswerYes:
			return true, nil
		case strings.EqualFold(words, "false"), answer == attention.AnswerNo:
			return false, nil
		}
		return nil, misfit
	case f.Type == "integer", f.Type == "number":
		n := json.Number(words)
		if !json.Valid([]byte(words)) {
			return nil, misfit
		}
		if whole, err := n.Int64(); err == nil {
			return whole, nil
		}
		if fraction, err := n.Float64(); err == nil && f.Type == "number" {
			return fraction, nil
		}
		return nil, misfit
	}
	if layout := map[string]string{"date": time.DateOnly, "date-time": time.RFC3339}[f.Format]; layout != "" {
		at, err := time.Parse(layout, words)
		if err != nil {
			at, err = people.ReadTime(words)
		}
		if err != nil {
			return nil, misfit
		}
		return at.Format(layout), nil
	}
	if !fitsFormat(f.Format, words) {
		return nil, misfit
	}
	return words, nil
}

// choose finds a choice by its value or its title.
func choose(choices []choice, words string) (any, bool) {
	if len(choices) == 0 {
		return words, words != ""
	}
	for _, c := range choices {
		if strings.EqualFold(words, fmt.Sprint(c.value)) || c.title != "" && strings.EqualFold(words, c.title) {
			return c.value, true
		}
	}
	return nil, false
}

// fitsFormat reports whether a text has a format of JSON Schema. Every text has an unknown one.
func fitsFormat(format, s string) bool {
	switch format {
	case "email":
		a, err := mail.ParseAddress(s)
		return err == nil && a.Address == s
	case "uri":
		u, err := url.Parse(s)
		return err == nil && u.IsAbs()
	}
	return true
}
