package transcript_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A schema is a document of JSON Schema; references lead into root.
type schema struct {
	root map[string]any
	node map[string]any
}

// check returns where a value differs from the schema, or nil. It fails on
// keywords of JSON Schema that it does not know, so that nothing remains
// unchecked.
func (s schema) check(at string, v any) error {
	if ref, ok := s.node["$ref"].(string); ok {
		target, err := s.resolve(ref)
		if err != nil {
			return err
		}
		return target.check(at, v)
	}
	for word, rule := range s.node {
		if err := s.word(at, word, rule, v); err != nil {
			return err
		}
	}
	return nil
}

func (s schema) resolve(ref string) (schema, error) {
	node := any(s.root)
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		m, _ := node.(map[string]any)
		if node = m[part]; node == nil {
			return schema{}, fmt.Errorf("%s leads nowhere", ref)
		}
	}
	return schema{s.root, node.(map[string]any)}, nil
}

func (s schema) word(at, word string, rule, v any) error {
	text, isText := v.(string)
	switch word {
	case "description", "default":
	case "type":
		if got := kind(v); got != rule && !(rule == "number" && got == "integer") {
			return fmt.Errorf("%s is %s, not %s", at, got, rule)
		}
	case "const":
		if !reflect.DeepEqual(plain(rule), plain(v)) {
			return fmt.Errorf("%s is %v, not %v", at, v, rule)
		}
	case "enum":
		if !slices.ContainsFunc(rule.([]any), func(r any) bool { return reflect.DeepEqual(plain(r), plain(v)) }) {
			return fmt.Errorf("%s is %v, which is none of %v", at, v, rule)
		}
	case "pattern":
		if isText && !regexp.MustCompile(rule.(string)).MatchString(text) {
			return fmt.Errorf("%s does not match %v", at, rule)
		}
	case "minLength":
		if isText && utf8.RuneCountInString(text) < number(rule) {
			return fmt.Errorf("%s is too short", at)
		}
	case "maxLength":
		if isText && utf8.RuneCountInString(text) > number(rule) {
			return fmt.Errorf("%s is too long", at)
		}
	case "minimum":
		if n, ok := v.(json.Number); ok && strings.HasPrefix(string(n), "-") && number(rule) == 0 {
			return fmt.Errorf("%s is %s", at, n)
		}
	case "format":
		if _, err := time.Parse(time.RFC3339, text); rule == "date-time" && err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	case "required", "properties", "items":
		return s.inside(at, word, rule, v)
	case "oneOf":
		fits := 0
		for _, r := range rule.([]any) {
			if (schema{s.root, r.(map[string]any)}).check(at, v) == nil {
				fits++
			}
		}
		if fits != 1 {
			return fmt.Errorf("%s fits %d of its forms", at, fits)
		}
	default:
		return fmt.Errorf("%s: the word %q of JSON Schema is unknown here", at, word)
	}
	return nil
}

func (s schema) inside(at, word string, rule, v any) error {
	object, _ := v.(map[string]any)
	list, _ := v.([]any)
	switch word {
	case "required":
		for _, name := range rule.([]any) {
			if _, ok := object[name.(string)]; !ok && object != nil {
				return fmt.Errorf("%s lacks %s", at, name)
			}
		}
	case "properties":
		for name, r := range rule.(map[string]any) {
			if inner, ok := object[name]; ok {
				if err := (schema{s.root, r.(map[string]any)}).check(at+"."+name, inner); err != nil {
					return err
				}
			}
		}
	case "items":
		for i, inner := range list {
			if err := (schema{s.root, rule.(map[string]any)}).check(fmt.Sprintf("%s[%d]", at, i), inner); err != nil {
				return err
			}
		}
	}
	return nil
}

func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "number"
		}
		return "integer"
	case []any:
		return "array"
	default:
		return "object"
	}
}

func number(v any) int {
	n, _ := v.(json.Number).Int64()
	return int(n)
}

// plain makes numbers comparable.
func plain(v any) any {
	if n, ok := v.(json.Number); ok {
		return string(n)
	}
	return v
}

// decode reads JSON and keeps the digits of numbers.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}
