package jsonrpc

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var seeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"a","method":"m","params":{"a":[1,2,{"b":null}]}}`,
	`{"jsonrpc":"2.0","id":-1.5e+3,"result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`,
	`[]`, `{}`, `""`, `0`, `-0`, `01`, `1.`, `.5`, `1e`, `tru`, `null`, `{"a":1,}`, `{"a" : 1 , "b":2}`, `{"a":1 "b":2}`, `[1,]`, `[,1]`, `{,}`,
	"\"\x01\"", `"\u00zz"`, `"\ud800"`, `"\x"`, "\xff", `{"a":1}{"b":2}`, ` [ ] `, "\ufeff{}", `{"\u0061":1,"a":2}`,
	strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65),
	`{"jsonrpc":"2.0","ID":1,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"re\u0073ult":1}`,
}

// FuzzScan compares the scanner with encoding/json: both accept the same texts,
// and agree on the members of every object at most 3 deep.
func FuzzScan(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p Parser
		err := p.scanner.scan(text)
		if p.scanner.deepest > 9000 {
			return // the oracle refuses what nests deeper than 10,000
		}
		if valid := json.Valid(text); valid != (err == nil) {
			t.Fatalf("scan(%q) = %v, but encoding/json says valid=%t", text, err, valid)
		}
		if err == nil && utf8.Valid(text) {
			compare(t, &p, text[p.scanner.start:], outlined)
		}
	})
}

// compare compares the members of an object, and of the objects in it, with what
// encoding/json reads. Where an object has two readings, Object must say so.
func compare(t *testing.T, p *Parser, object []byte, levels int) {
	t.Helper()
	if !IsObject(object) || levels == 0 {
		return
	}
	var want map[string]json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(object)).Decode(&want); err != nil {
		t.Fatalf("encoding/json cannot read %q: %v", object, err)
	}
	known := slices.Sorted(maps.Keys(want))
	into := make([][]byte, len(known))
	if p.Object(object, known, into) != nil {
		return
	}
	for i, key := range known {
		if !bytes.Equal(want[key], into[i]) {
			t.Fatalf("%q of %q is %q; want %q", key, object, into[i], want[key])
		}
		compare(t, p, into[i], levels-1)
	}
}

func TestObject_NestedMembers(t *testing.T) {
	for _, text := range []string{
		`{"a":{"x":1},"b":{},"c":{"y":{}}}`, ` { "a" : [ { "x" : 1 } , [ ] ] , "b" : { "x" : { "y" : 2 } , "z" : { } } } `,
		`{"a":{"b":{"c":{"d":{"e":1},"f":2},"g":3},"h":4},"i":5}`, `{"":{"":{"":""}}}`, `{"a":[[[{"b":1}]]],"c":{"d":[{"e":2}],"f":3}}`,
	} {
		var p Parser
		if err := p.scanner.scan([]byte(text)); err != nil {
			t.Fatal(err)
		}
		compare(t, &p, p.scanner.text[p.scanner.start:], outlined)
	}
}

func TestPlainRun(t *testing.T) {
	for c := range 256 {
		for before := range 18 {
			text := append(bytes.Repeat([]byte("\u00fc"), before), byte(c))
			text = append(text, "the rest\x00"...)
			want := len("\u00fc") * before
			if plain[c] {
				want += 1 + len("the rest")
			}
			if got := plainRun(text); got != want {
				t.Fatalf("plainRun(%q) = %d; want %d", text, got, want)
			}
		}
	}
}

// FuzzParse checks that for every frame the parser returns a message or an
// error that can be sent as an answer.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err := Parse(frame)
		if m.ID != nil && !json.Valid(m.ID) {
			t.Fatalf("Parse(%q) gives the id %q, which cannot be echoed", frame, m.ID)
		}
		if err == nil && m.Kind == 0 {
			t.Fatalf("Parse(%q) says nothing of what it is", frame)
		}
		answer := AppendError(nil, m.ID, Errorf(CodeParse, "%v", err))
		if !json.Valid(answer) {
			t.Fatalf("the answer to %q is not JSON: %s", frame, answer)
		}
	})
}

func TestObject_RefusesAmbiguousKeys(t *testing.T) {
	known := []string{"from", "messageId"}
	for object, ok := range map[string]bool{
		`{"from":1,"messageId":2,"other":3}`:  true,
		`{"from":1,"from":1}`:                 false,
		`{"from":1,"\u0066rom":1}`:            false,
		`{"From":1}`:                          false,
		`{"me\u017f\u017fageId":1}`:           false, // U+017F folds to s
		`{"x":1,"x":2}`:                       false,
		`{"x":1,"X":2}`:                       true,
		`{"a":{"from":1,"from":2},"from":[]}`: true, // only the top level has a reading here
	} {
		into := make([][]byte, len(known))
		if err := objectOf(t, object, known, into); (err == nil) != ok {
			t.Errorf("Object(%s) = %v; want ok=%t", object, err, ok)
		}
	}
	var many strings.Builder
	for i := range 100 {
		many.WriteString(`"k` + strings.Repeat("x", i) + `":1,`)
	}
	if err := objectOf(t, "{"+many.String()+`"kxxx":2}`, known, make([][]byte, 2)); err == nil {
		t.Error("a repeated key among many was not seen")
	}
}

func objectOf(t *testing.T, text string, known []string, into [][]byte) error {
	t.Helper()
	var p Parser
	if err := p.scanner.scan([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p.Object(p.scanner.text, known, into)
}

func BenchmarkParse(b *testing.B) {
	frame := []byte(`{"jsonrpc":"2.0","id":4,"method":"sendMessage","params":{"topic":"tg:123456789","payload":{"messageId":"msg_01J00000000000000000000000","type":"tg_message","from":"tg:123456789","timestamp":"2026-02-17T12:00:00Z","content":{"text":"hello, this is a message of the usual length, with some words in it"}}}}`)
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	var p Parser
	for b.Loop() {
		if _, err := p.Parse(frame); err != nil {
			b.Fatal(err)
		}
	}
}
