package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/harness/conformance"
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

// noCase is the error if no case was chosen: nothing tested is no success.
func noCase(only string) error {
	return program.Usage("no case has %q in its name; without --only every case runs", only)
}

// A tally prints the verdict on each case and counts the results.
type tally struct {
	cmd    *cobra.Command
	counts map[string]int
	err    error // of printing
}

func (t *tally) add(v conformance.Verdict) {
	t.counts[v.Result]++
	if t.err != nil {
		return
	}
	t.err = printResult(t.cmd, v, func(w io.Writer) error {
		text := fmt.Sprintf("%-8s %-28s %s", v.Result, v.Case, v.Title)
		if v.Error != "" {
			text += strings.ReplaceAll("\n"+v.Error, "\n", "\n         ")
		}
		_, err := fmt.Fprintln(w, text)
		return err
	})
}

// end prints the counts, and is an error if a case failed or none ran.
func (t *tally) end(only string) error {
	passed, failed := t.counts[conformance.OK], t.counts[conformance.Failed]
	switch {
	case t.err != nil:
		return t.err
	case len(t.counts) == 0:
		return noCase(only)
	case !asJSON(t.cmd):
		fmt.Fprintf(t.cmd.OutOrStdout(), "%d passed, %d failed, %d skipped\n", passed, failed, t.counts[conformance.Skipped])
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d cases failed", failed, failed+passed)
	}
	return nil
}

func conformBus(cmd *cobra.Command, cases []transcript.Case, timeout time.Duration, dial transcript.Dialer) error {
	t := &tally{cmd: cmd, counts: map[string]int{}}
	for _, c := range cases {
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		t.add(judge(&c, c.Run(ctx, dial)))
		c.Leave(ctx, dial)
		cancel()
		if t.err != nil {
			return t.err
		}
	}
	return t.end("")
}

func judge(c *transcript.Case, err error) conformance.Verdict {
	v := conformance.Verdict{Case: c.Name, Title: c.Title, Result: conformance.OK}
	switch {
	case errors.Is(err, transcript.ErrSkipped):
		v.Result, v.Error = conformance.Skipped, err.Error()
	case err != nil:
		v.Result, v.Error = conformance.Failed, err.Error()
	}
	return v
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
