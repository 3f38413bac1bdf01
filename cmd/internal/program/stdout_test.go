package program

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// A fullDisk accepts no byte.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestHelp_FailsIfItCannotBePrinted(t *testing.T) {
	env := map[string]string{"HOME": t.TempDir()}
	check := func(args string, run func(o hostProcess) int) {
		var stderr strings.Builder
		code := run(call{args: strings.Fields(args), env: env}.process(fullDisk{}, io.Writer(&stderr)))
		if code != 1 || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%s: exit code %d: %s", args, code, &stderr)
		}
	}
	for _, args := range []string{"--help", "--version", "--describe"} {
		check(args, func(o hostProcess) int { return run(t.Context(), (&probe{}).program(), o) })
	}
	for _, args := range []string{"", "--help", "help", "help one", "one --help"} {
		root := &cobra.Command{Use: "hubbub-test"}
		root.AddCommand(&cobra.Command{Use: "one", RunE: func(*cobra.Command, []string) error { return nil }})
		check(args, func(o hostProcess) int { return Attach(root).execute(t.Context(), o) })
	}
}
