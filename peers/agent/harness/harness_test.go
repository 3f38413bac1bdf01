package harness_test

import (
	"encoding/json"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
)

func TestRedact(t *testing.T) {
	got := harness.Redact("Bearer hunter22 and sk-proj-abc***xyz and sk_live_0123456789, a risk-free text", "hunter22", "")
	for _, secret := range []string{"hunter22", "abc***", "0123456789"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q holds %q", got, secret)
		}
	}
	if !strings.Contains(got, "risk-free text") {
		t.Errorf("%q lost plain words", got)
	}
}

// TestTool_DeclaresItsIdempotency checks what a program reads of tools in a list.
func TestTool_DeclaresItsIdempotency(t *testing.T) {
	for want, tool := range map[string]harness.Tool{
		`{"name":"a","description":"","inputSchema":{},"annotations":{"idempotentHint":false,"readOnlyHint":false}}`: {Name: "a"},
		`{"name":"b","description":"","inputSchema":{},"annotations":{"idempotentHint":true,"readOnlyHint":false}}`:  {Name: "b", Idempotent: true},
		`{"name":"c","description":"","inputSchema":{},"annotations":{"idempotentHint":false,"readOnlyHint":true}}`:  {Name: "c", ReadOnly: true},
	} {
		tool.InputSchema = json.RawMessage(`{}`)
		if got, err := json.Marshal([]harness.Tool{tool}); err != nil || string(got) != "["+want+"]" {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// TestPart_HasTheMembersOfItsType checks that a text part always has a text, and that no other part has
// an empty one.
func TestPart_HasTheMembersOfItsType(t *testing.T) {
	for want, part := range map[string]harness.Part{
		`{"text":"","type":"text"}`:                  {Type: "text"},
		`{"text":"a","type":"text"}`:                 {Type: "text", Text: "a"},
		`{"type":"file","name":"x.jpg","size":3}`:    {Type: "file", Name: "x.jpg", Size: 3, Kind: "photo"},
		`{"type":"quote","text":"b","name":"Will"}`:  {Type: "quote", Text: "b", Name: "Will"},
		`{"type":"file","text":"c","ref":"tg:file"}`: {Type: "file", Text: "c", Ref: "tg:file", Kind: "voice"},
	} {
		if got, err := json.Marshal(part); err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func TestResults(t *testing.T) {
	r := harness.ErrorResult("stay out", map[string]any{"granted": false})
	if !r.IsError || r.Text() != "stay out" || string(r.StructuredContent) != `{"granted":false}` {
		t.Errorf("%+v", r)
	}
	if r := harness.StructuredResult(map[string]any{"a": 1}); r.IsError || r.Text() != `{"a":1}` {
		t.Errorf("%+v", r)
	}
}
