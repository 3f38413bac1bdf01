package conformance

import (
	"bytes"
	"slices"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/peers/agent/harness/conformance"
	"hubbub/peers/attention"
	"hubbub/protocol/datafolder"

	"github.com/spf13/cobra"
)

func newConformanceHost() *cobra.Command {
	var report, version string
	var opts conformance.ObserveOptions
	cmd := &cobra.Command{
		Use:   "c2a-host",
		Short: "Run as a C2A program and check the host that runs it",
		Long: "Run as a C2A program, for any host of such programs, and check what the host sends: envelopes,\n" +
			"instructions, negotiated capabilities, redelivery, edits, deferrals, grants. It leaves the first\n" +
			"event that must be answered unaccepted once, so that the host delivers it again. It defers the\n" +
			"second one until the third comes, and answers all others. The file of --report has one line per\n" +
			"case, written again after each message. A case is skipped until something has tested it: a\n" +
			"mention of the agent's role tests grants, a reaction tests signals, and an edit of the first\n" +
			"question within 10 s, before it comes again, tests edits and cancellations.",
		Example: "  hubbub-agent --id probe --harness c2a \\\n" +
			"    --harness-command \"hubbub conformance c2a-host --report report.txt\"",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if report == "" {
				return program.Usage("--report is missing: it names the file for the results")
			}
			if version != "" {
				v, err := attention.ParseVersion(version)
				if err != nil {
					return program.Usage("--policy-version: %s", err)
				}
				opts.Version = v
			}
			for _, capability := range opts.Lacks {
				if !slices.Contains(conformance.Claimable(), capability) {
					return program.Usage("--lacks: %q is none of %s", capability, strings.Join(conformance.Claimable(), ", "))
				}
			}
			var failed error
			err := conformance.Observe(cmd.InOrStdin(), cmd.OutOrStdout(), &opts, func(list []conformance.Verdict) {
				failed = writeReport(cmd, report, list)
			})
			if failed != nil {
				return failed
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&report, "report", "", "file for the results")
	fs.StringVar(&version, "policy-version", "", "answer with this draft instead of the host's")
	fs.StringArrayVar(&opts.Lacks, "lacks", nil, "capability not to claim, such as delivery.redelivery (repeatable)")
	fs.BoolVar(&opts.Contract, "contract", false, "the host has a broker: each delivery must carry its contract")
	return cmd
}

// writeReport replaces the report with one with the given results.
func writeReport(cmd *cobra.Command, path string, list []conformance.Verdict) error {
	var text bytes.Buffer
	page := &cobra.Command{}
	page.Flags().AddFlagSet(cmd.Flags())
	page.SetOut(&text)
	t := &results{cmd: page, counts: map[string]int{}}
	for _, v := range list {
		t.add(v)
	}
	_ = t.end("") // the counts; a failure is in the report
	if t.err != nil {
		return t.err
	}
	return datafolder.WriteFile(path, text.Bytes())
}
