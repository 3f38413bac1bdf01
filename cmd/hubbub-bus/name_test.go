package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestName_IsKeptInTheDataFolder(t *testing.T) {
	data := t.TempDir()
	first, err := keptName(data)
	if err != nil || !strings.HasPrefix(first, "bus-") {
		t.Fatalf("the first start: %q, %v", first, err)
	}
	for range 3 {
		if again, err := keptName(data); err != nil || again != first {
			t.Errorf("a later start: %q, %v; want %q", again, err, first)
		}
	}
	if other, err := keptName(t.TempDir()); err != nil || other == first {
		t.Errorf("another folder: %q, %v", other, err)
	}
	for content, want := range map[string]string{"east\n": "east", "  bus 1.*>\n": "bus 1.*>", "": "", "\n": "", "a\nb\n": "", "a\xff\n": "", strings.Repeat("x", 257): ""} {
		if err := os.WriteFile(filepath.Join(data, nameFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := keptName(data); got != want || (err == nil) != (want != "") {
			t.Errorf("with %q: %q, %v; want %q", content, got, err, want)
		}
	}
}
