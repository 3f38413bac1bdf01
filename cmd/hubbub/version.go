package main

import (
	"runtime"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := map[string]string{"version": program.Version(), "revision": program.Revision(), "go": runtime.Version()}
			return printLine(cmd, all, "%s", program.VersionLine("hubbub"))
		},
	}
}
