package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/protocol"
	"hubbub/protocol/transcript"

	"github.com/spf13/cobra"
)

func newConformance() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformance",
		Short: "Check a bus or a harness against the specification",
	}
	cmd.AddCommand(newConformanceBus(), newConformanceC2A())
	return cmd
}

func newConformanceBus() *cobra.Command {
	var (
		only    string
		timeout time.Duration
		show    bool
	)
	cmd := &cobra.Command{
		Use:   "bus",
		Short: "Run the wire transcripts against any bus that speaks the protocol",
		Long: "Runs the transcripts of protocol/testdata against the bus of --bus, ours or another's: one line per case\n" +
			"and a count. The bus must be open, or the token must grant every identity.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := program.From(cmd)
			cases, err := transcript.Load(protocol.Transcripts)
			if err != nil {
				return err
			}
			if show {
				return showTranscripts(cmd.OutOrStdout(), protocol.Transcripts, only)
			}
			token, err := env.Token()
			if err != nil {
				return err
			}
			cases = slices.DeleteFunc(cases, func(c transcript.Case) bool { return !strings.Contains(c.Name, only) })
			if len(cases) == 0 {
				return noCase(only)
			}
			if err := reach(cmd.Context(), env.Buses[0], token); err != nil {
				return err
			}
			return conformBus(cmd, cases, timeout, transcript.WebSocket(env.Buses[0], token))
		},
	}
	cmd.Flags().StringVar(&only, "only", "", "run only the cases whose name contains this")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "for each case")
	cmd.Flags().BoolVar(&show, "show", false, "print the transcripts instead of running them")
	return cmd
}

// noCase is the error where none was chosen: nothing tested is no success.
func noCase(only string) error {
	return program.Usage("no case has %q in its name; without --only every case runs", only)
}

// A verdict is the outcome of one case.
type verdict struct {
	Case   string `json:"case"`
	Title  string `json:"title"`
	Result string `json:"result"` // ok, failed or skipped
	Error  string `json:"error,omitempty"`
}

func conformBus(cmd *cobra.Command, cases []transcript.Case, timeout time.Duration, dial transcript.Dialer) error {
	out := cmd.OutOrStdout()
	counts := map[string]int{}
	for _, c := range cases {
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		v := judge(&c, c.Run(ctx, dial))
		c.Leave(ctx, dial)
		cancel()
		counts[v.Result]++
		if err := printVerdict(out, v, asJSON(cmd)); err != nil {
			return err
		}
	}
	if !asJSON(cmd) {
		fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", counts["ok"], counts["failed"], counts["skipped"])
	}
	if counts["failed"] > 0 {
		return fmt.Errorf("%d of %d cases failed", counts["failed"], counts["failed"]+counts["ok"])
	}
	return nil
}

func judge(c *transcript.Case, err error) verdict {
	v := verdict{Case: c.Name, Title: c.Title, Result: "ok"}
	switch {
	case errors.Is(err, transcript.ErrSkipped):
		v.Result, v.Error = "skipped", err.Error()
	case err != nil:
		v.Result, v.Error = "failed", err.Error()
	}
	return v
}

func printVerdict(w io.Writer, v verdict, jsonLines bool) error {
	if jsonLines {
		return json.NewEncoder(w).Encode(v)
	}
	_, err := fmt.Fprintf(w, "%-8s %-28s %s\n", v.Result, v.Case, v.Title)
	if err == nil && v.Error != "" {
		_, err = fmt.Fprintf(w, "         %s\n", strings.ReplaceAll(v.Error, "\n", "\n         "))
	}
	return err
}

func showTranscripts(w io.Writer, files fs.FS, only string) error {
	names, err := fs.Glob(files, "testdata/*.txt")
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.Contains(name, only) {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "=== %s\n%s\n", name, text)
	}
	return nil
}
