package activity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"hubbub/activitylog/audit"
	"hubbub/activitylog/read"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func newLogKey(from *logs.Flag) *cobra.Command {
	return &cobra.Command{
		Use:   "key",
		Short: "Print the key with which others verify the log",
		Long: "Print the verifier key of the log. With it, others can check proofs and checkpoints\n" +
			"(c2sp.org/signed-note) without Hubbub. Give it to them separately from the log. The signing key\n" +
			"is activity.key in the data folder. If that file is missing at startup, the bus makes a new key,\n" +
			"and the log names both.",
		Example: "  hubbub log key",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, path := range logs.Paths(program.From(cmd), *from) {
				key, err := audit.VerifierKey(path)
				if err != nil {
					return logs.Explain(err)
				}
				if err := output.Line(cmd, map[string]string{"log": path, "key": key}, "%s", key); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newLogProve(from *logs.Flag) *cobra.Command {
	var kept string
	cmd := &cobra.Command{
		Use:   "prove MESSAGE",
		Short: "Write a proof that rows of a message are in the log",
		Long: "Write a proof (c2sp.org/tlog-proof) that the rows of a message are in the log, with the rows. It\n" +
			"shows no row of other messages. Anybody with the verifier key (hubbub log key) can check it\n" +
			"without Hubbub: the extra line is the entry in base64, one JSON object per row. If the rows were\n" +
			"stored in several entries, the output has a proof for each, one after another, and for the log\n" +
			"of each bus (--log).\n\n" +
			"The proof shows what the bus wrote, not that it is true.",
		Example: "  hubbub log prove msg_01J > msg_01J.tlog-proof\n  hubbub log prove msg_01J --json | jq -r .proof",
		Args:    cobra.ExactArgs(1),
		RunE: from.Run(func(cmd *cobra.Command, r *read.Reader, args []string) error {
			texts, err := readCheckpoints([]string{kept})
			if err != nil {
				return err
			}
			proofs, err := audit.Prove(cmd.Context(), r, args[0], texts[0])
			if err != nil {
				return err
			}
			for _, p := range proofs {
				if err := printProof(cmd, p); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(
		&kept, "checkpoint", "",
		"file with the checkpoint for the proof (default the first one that covers the message)",
	)
	return cmd
}

func printProof(cmd *cobra.Command, p audit.Proof) error {
	if !output.NewPrinter(cmd).JSON {
		_, err := cmd.OutOrStdout().Write(p.Text)
		return err
	}
	var rows []json.RawMessage
	for row := range bytes.Lines(p.Rows) {
		if json.Valid(row) {
			rows = append(rows, row)
		}
	}
	return output.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
		"log": p.Log, "index": p.Index, "entries": p.Size, "key": p.Key, "rows": rows, "proof": string(p.Text),
	})
}

// readCheckpoints reads checkpoint files. The text for an empty name is empty.
func readCheckpoints(names []string) ([]string, error) {
	texts := make([]string, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, program.Usage("--checkpoint: %v", err)
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// printAudit prints what the Merkle tree of a log proves.
func printAudit(p *output.Printer, a *audit.Audit) {
	if a.Entries > 0 {
		p.Linef("%s: %d entries in the tree of %s, %d signed, up to row %d", a.Log, a.Entries, a.Origin, a.Signed,
			a.LastRow)
	}
	for i, k := range a.Keys {
		p.Linef(
			"%s %s", map[bool]string{true: "signed by",
				false: fmt.Sprintf("from row %d on, signed by", k.From)}[i == 0], k.Key,
		)
	}
	if a.Unhashed > 0 {
		p.Linef("%d rows are older than the tree: nothing proves them", a.Unhashed)
	}
	if a.Removed > 0 {
		p.Linef("the rows of %d entries were deleted by retention; their hashes are kept", a.Removed)
	}
}
