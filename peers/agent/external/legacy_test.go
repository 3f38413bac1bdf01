package external_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/agent/external"
)

// TestWhatCannotBeTakenOverIsTold: an agent that began without its open events would
// have lost them in silence.
func TestWhatCannotBeTakenOverIsTold(t *testing.T) {
	dir := t.TempDir()
	empty, text := filepath.Join(dir, "empty.db"), filepath.Join(dir, "text.db")
	for path, content := range map[string]string{empty: "", text: strings.Repeat("no database ", 100)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		x, err := external.Open(t.Context(), &external.Spec{Name: "lead", Folder: filepath.Join(dir, "data"), Legacy: path})
		if err == nil || !strings.Contains(err.Error(), "earlier version left of lead") {
			t.Errorf("%s: %v, %v", filepath.Base(path), x, err)
		}
	}
}
