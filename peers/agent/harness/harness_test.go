package harness_test

import (
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

func TestResults(t *testing.T) {
	r := harness.ErrorResult("stay out", map[string]any{"granted": false})
	if !r.IsError || r.Text() != "stay out" || string(r.StructuredContent) != `{"granted":false}` {
		t.Errorf("%+v", r)
	}
	if r := harness.StructuredResult(map[string]any{"a": 1}); r.IsError || r.Text() != `{"a":1}` {
		t.Errorf("%+v", r)
	}
}
