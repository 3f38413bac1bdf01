package collab

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write asyncapi.json anew")

// schema returns the JSON schema of a type.
func (d *description) schema(t reflect.Type) map[string]any {
	t = onWire(t)
	if values := enums[t]; values != nil {
		return map[string]any{"type": "string", "enum": values}
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return map[string]any{}
	case t == reflect.TypeFor[Moment]():
		return map[string]any{"type": []string{"string", "integer"},
			"description": "RFC 3339, or milliseconds since 1970"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Struct:
		d.collect(t)
		return map[string]any{"$ref": "#/x-broker/schemas/" + nameOf(t)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	default:
		return map[string]any{"type": "string"}
	}
}

// object returns the JSON schema of an object. All members of results are required unless they
// are optional. The required params are listed with each method.
func (d *description) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, m := range membersOf(t) {
		s := d.schema(m.of)
		if onWire(m.of).Kind() == reflect.Pointer && !m.optional {
			s = map[string]any{"oneOf": []any{s, map[string]any{"type": "null"}}}
		}
		properties[m.name] = s
		if !m.optional {
			required = append(required, m.name)
		}
	}
	o := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 && !strings.HasSuffix(nameOf(t), "Params") {
		o["required"] = required
	}
	return o
}

// describe returns the methods, events, errors and records of the broker for asyncapi.json. It
// derives them from the types that the broker and its clients use.
func describe() map[string]any {
	d := &description{map[string]reflect.Type{}}
	methods, facts, refusals := map[string]any{}, map[string]any{}, map[string]any{}
	for _, e := range Entries {
		methods[e.Name] = map[string]any{
			"summary":    e.Does,
			"required":   append([]string{}, e.Needs...),
			"repeatable": e.Repeat,
			"params":     d.schema(e.params),
			"result":     d.schema(e.result),
		}
	}
	for _, e := range events {
		facts[e.name] = map[string]any{"payload": d.schema(e.payload)}
	}
	for _, c := range codes {
		refusals[c[0]] = c[1]
	}
	schemas := map[string]any{}
	for name, t := range d.objects {
		schemas[name] = d.object(t)
	}
	return map[string]any{"methods": methods, "events": facts, "errors": refusals, "schemas": schemas}
}

// TestDescribe_MatchesAsyncAPI compares the description for tools with the types that are used.
func TestDescribe_MatchesAsyncAPI(t *testing.T) {
	path := filepath.Join("..", "asyncapi.json")
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const key = ",\n  \"x-broker\": "
	head, _, _ := strings.Cut(strings.TrimSuffix(string(stored), "\n}\n"), key)
	made, err := json.MarshalIndent(describe(), "  ", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := []byte(head + key + string(made) + "\n}\n")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(stored, want) {
		t.Error("asyncapi.json does not say what the types say; go test -update writes it anew")
	}
}

// TestEntries_NameTheirParams checks that each required field of a method is a param of it, and
// that each method is listed once.
func TestEntries_NameTheirParams(t *testing.T) {
	known := map[string]bool{}
	for _, e := range Entries {
		if known[e.Name] || e.Does == "" {
			t.Errorf("%s is described twice, or not", e.Name)
		}
		known[e.Name] = true
		members := membersOf(e.params)
		for _, need := range e.Needs {
			if !slices.ContainsFunc(members, func(m member) bool { return m.name == need }) {
				t.Errorf("%s has no param %s", e.Name, need)
			}
		}
	}
}
