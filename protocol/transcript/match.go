package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"hubbub/protocol/text"
)

// names are the values of a transcript's names.
type names map[string]any

// fill replaces the names in a frame with their values.
func (n names) fill(line string) string {
	for name, value := range n {
		text, err := json.Marshal(value)
		if err == nil {
			line = strings.ReplaceAll(line, `"$`+name+`"`, string(text))
		}
	}
	return line
}

// match compares a frame with an expected one, and sets the values of new names.
func (n names) match(expected, frame string) error {
	want, err := decode(expected)
	if err != nil {
		return fmt.Errorf("the line of the transcript is not JSON: %w", err)
	}
	got, err := decode(frame)
	if err != nil {
		return fmt.Errorf("the frame is not JSON: %w", err)
	}
	return n.value("", want, got)
}

func decode(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber() // ids are compared digit by digit
	err = d.Decode(&v)
	return v, err
}

func (n names) value(at string, want, got any) error {
	switch w := want.(type) {
	case string:
		if name, ok := strings.CutPrefix(w, "$"); ok {
			return n.named(at, name, got)
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %s; want an object", at, show(got))
		}
		return n.object(at, w, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return fmt.Errorf("%s is %s; want %s", at, show(got), show(want))
		}
		for i := range w {
			if err := n.value(fmt.Sprintf("%s[%d]", at, i), w[i], g[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s is %s; want %s", at, show(got), show(want))
	}
	return nil
}

func (n names) object(at string, want, got map[string]any) error {
	_, more := want["$more"]
	for key, w := range want {
		if key == "$more" {
			continue
		}
		g, ok := got[key]
		if !ok {
			return fmt.Errorf("%s.%s is missing", at, key)
		}
		if err := n.value(at+"."+key, w, g); err != nil {
			return err
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok && !more {
			return fmt.Errorf("%s.%s exists (%s) but should not", at, key, show(g))
		}
	}
	return nil
}

func (n names) named(at, name string, got any) error {
	switch name {
	case "any":
		return nil
	case "string":
		if s, ok := got.(string); !ok || s == "" {
			return fmt.Errorf("%s is %s; want a string", at, show(got))
		}
		return nil
	case "time":
		s, _ := got.(string) //nolint:errcheck // an empty string is no time
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return fmt.Errorf("%s is %s; want an RFC 3339 time", at, show(got))
		}
		return nil
	}
	known, ok := n[name]
	if ok && !reflect.DeepEqual(known, got) {
		return fmt.Errorf("%s is %s; want %s, as before", at, show(got), show(known))
	}
	n[name] = got
	return nil
}

func show(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return text.Cut(string(raw), 200)
}
