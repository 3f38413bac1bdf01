package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON(cmd) {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
					"version": program.Version(), "revision": program.Revision(), "go": runtime.Version(),
				})
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), program.VersionLine("hubbub"))
			return err
		},
	}
}
