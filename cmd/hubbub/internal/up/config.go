package up

import (
	"fmt"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/reference"

	"github.com/spf13/cobra"
)

// NewConfig returns the command `hubbub config`.
func NewConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check settings, or print a file that explains every key",
		RunE: func(*cobra.Command, []string) error {
			return program.Usage("choose a subcommand: hubbub config check or hubbub config sample")
		},
	}
	cmd.AddCommand(newConfigCheck(), newConfigSample())
	return cmd
}

func newConfigSample() *cobra.Command {
	var services bool
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Print a settings file with every key, its default and its meaning",
		Long: "Print a settings file for `hubbub up` with every key, its default and its meaning. The file\n" +
			"comes from what the installed programs say about their own flags.",
		Example:     "  hubbub config sample > hubbub.toml",
		Annotations: map[string]string{program.NoData: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			programs, err := reference.Describe(cmd.Context())
			if err != nil {
				return err
			}
			name := reference.ForUp
			if services {
				name = reference.ForServices
			}
			text, err := reference.Sample(name, programs)
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(
		&services, "services", false, "print the file of the systemd units, /etc/hubbub/hubbub.toml, instead",
	)
	return cmd
}
