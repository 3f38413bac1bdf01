package main

import (
	"fmt"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/reference"

	"github.com/spf13/cobra"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print a settings file with every key explained",
		RunE: func(*cobra.Command, []string) error {
			return program.Usage("say what to do: hubbub config sample")
		},
	}
	cmd.AddCommand(newConfigSample())
	return cmd
}

func newConfigSample() *cobra.Command {
	var services bool
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Print a settings file with every key, its default and its meaning",
		Long: "Print a settings file for `hubbub up` with every key, its default and its meaning. It is made\n" +
			"from what the installed programs say about their own flags.",
		Example: "  hubbub config sample > hubbub.toml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if services {
				return printSample(cmd, &reference.ForServices)
			}
			return printSample(cmd, &reference.ForUp)
		},
	}
	cmd.Flags().BoolVar(&services, "services", false, "print the file of the systemd units, /etc/hubbub/hubbub.toml, instead")
	return cmd
}

func printSample(cmd *cobra.Command, e *reference.Edition) error {
	programs, err := describePrograms(cmd, reference.Programs())
	if err != nil {
		return err
	}
	text, err := reference.Sample(e, programs)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

// describePrograms asks programs about their settings.
func describePrograms(cmd *cobra.Command, names []string) ([]program.Description, error) {
	var list []program.Description
	for _, name := range names {
		path, err := program.Find(name)
		if err != nil {
			return nil, err
		}
		d, err := reference.Read(cmd.Context(), path)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, nil
}
