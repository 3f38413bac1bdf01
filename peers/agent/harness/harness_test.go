package harness_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
)

func TestKeyFrom(t *testing.T) {
	key := harness.KeyFrom("HARNESS_TEST_KEY")
	if got, err := key(); got != "" || err != nil {
		t.Errorf("unset: %q, %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "key")
	t.Setenv("HARNESS_TEST_KEY_FILE", path)
	if _, err := key(); err == nil || !strings.Contains(err.Error(), "HARNESS_TEST_KEY_FILE") {
		t.Errorf("a missing file gives %v", err)
	}
	for content, want := range map[string]string{" secret-one\n": "secret-one", "": "", "secret-a\nsecret-b\n": ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := key()
		if got != want || (err != nil) != (want == "") || err != nil && strings.Contains(err.Error(), "secret-") {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	t.Setenv("HARNESS_TEST_KEY", "from-the-environment")
	if got, err := key(); got != "from-the-environment" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

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
	r := harness.Refused("stay out", map[string]any{"granted": false})
	if !r.IsError || r.Text() != "stay out" || string(r.StructuredContent) != `{"granted":false}` {
		t.Errorf("%+v", r)
	}
	if r := harness.Structured(map[string]any{"a": 1}); r.IsError || r.Text() != `{"a":1}` {
		t.Errorf("%+v", r)
	}
}
