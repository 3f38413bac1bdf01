package program

import (
	"fmt"
	"io"
	"os"
	"os/exec"
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

// TestOnBrokenPipe_LetsTheProcessEndInOrder runs itself with a standard output without a reader.
func TestOnBrokenPipe_LetsTheProcessEndInOrder(t *testing.T) {
	const inOrder = 17 // exit code
	if os.Getenv("BROKEN_PIPE_TEST") != "" {
		broken := false
		e := &Env{Streams: Streams{Stdout: &stdoutWriter{file: os.Stdout}}}
		e.OnBrokenPipe(func() { broken = true })
		fmt.Fprintln(e.Stdout, "to nobody")
		fmt.Fprintln(e.Stdout, "to nobody, during the stop")
		if broken {
			os.Exit(inOrder)
		}
		os.Exit(1)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close() //nolint:errcheck // nothing was read
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "BROKEN_PIPE_TEST=1")
	cmd.Stdout = w
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != inOrder {
		t.Errorf("it ended with %v; want exit code %d", err, inOrder)
	}
}
