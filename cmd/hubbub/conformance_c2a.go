package main

import (
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/harness/child"
	"hubbub/peers/agent/harness/conformance"
	"hubbub/peers/attention"

	"github.com/spf13/cobra"
)

func newConformanceC2A() *cobra.Command {
	var (
		command, only, version string
		timeout, quiet         time.Duration
	)
	cmd := &cobra.Command{
		Use:   "c2a",
		Short: "Run the attention vectors against a C2A program, or our rules",
		Long: "Runs the attention vectors, in both drafts of C2A, against the program of --harness-command: it plays the\n" +
			"host, the chat and its tools, and looks at when the program speaks and when it is silent. Without\n" +
			"--harness-command it checks the rules of this program's own agents. One line per case and a count.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts := &conformance.Options{Only: only, Timeout: timeout, Quiet: quiet, Log: &program.From(cmd).Log}
			if version != "" {
				v, err := attention.ParseVersion(version)
				if err != nil {
					return program.Usage("--policy-version: %s", err)
				}
				opts.Versions = []attention.Version{v}
			}
			if timeout <= 0 || quiet <= 0 {
				return program.Usage("--timeout and --quiet must be above 0")
			}
			return conformC2A(cmd, command, opts)
		},
	}
	cmd.Flags().StringVar(&command, "harness-command", "", "the program to check, in shell words; run without a shell")
	cmd.Flags().StringVar(&only, "only", "", "run only the cases whose name or title contains this")
	cmd.Flags().StringVar(&version, "policy-version", "", "check only this draft: 2026-06-02 or 2026-06-24")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "for each answer and each obligation")
	cmd.Flags().DurationVar(&quiet, "quiet", 2*time.Second, "how long nothing must happen before silence counts")
	return cmd
}

func conformC2A(cmd *cobra.Command, command string, opts *conformance.Options) error {
	t := &tally{cmd: cmd, counts: map[string]int{}}
	var err error
	if strings.TrimSpace(command) == "" {
		err = conformance.Host(opts, t.add)
	} else {
		argv, split := child.Split(command)
		if split != nil {
			return program.Usage("--harness-command: %s", split)
		}
		err = conformance.Program(cmd.Context(), argv, opts, t.add)
	}
	if err != nil {
		return err
	}
	return t.end(opts.Only)
}
