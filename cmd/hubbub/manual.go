package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/reference"

	"github.com/spf13/cobra"
)

func newManual() *cobra.Command {
	return &cobra.Command{
		Use:   "manual FOLDER",
		Short: "Write manual pages of every program and topic",
		Long: "Write manual pages into a folder, which is made: NAME.1 for every program, hubbub-TOPIC.7 for every text of\n" +
			"`hubbub help`. They are made from what the installed programs say about their own flags.",
		Example: "  hubbub manual man && man ./man/hubbub-tg.1",
		Hidden:  true, // for packages
		RunE:    func(cmd *cobra.Command, args []string) error { return writeManual(cmd, args[0]) },
	}
}

func writeManual(cmd *cobra.Command, folder string) error {
	programs, err := describePrograms(cmd, reference.Programs())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	pages := map[string]string{"hubbub.1": reference.CommandPage(program.Version(), cmd.Root().Long, commandEntries(cmd.Root(), ""))}
	for _, d := range programs {
		pages[d.Name+".1"] = reference.ProgramPage(program.Version(), d)
	}
	for _, t := range topics() {
		pages["hubbub-"+t.name+".7"] = reference.TopicPage(program.Version(), "hubbub-"+t.name, t.short, t.text)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d pages written to %s\n", len(pages), folder)
	return err
}

// commandEntries lists the commands below one, with their own flags.
func commandEntries(parent *cobra.Command, prefix string) []reference.Command {
	var list []reference.Command
	topic := func(c *cobra.Command) bool { return !c.Runnable() && !c.HasSubCommands() }
	for _, c := range parent.Commands() {
		if c.Hidden || topic(c) || slices.Contains([]string{"help", "completion"}, c.Name()) {
			continue
		}
		use := strings.TrimSpace(prefix + " " + c.Use)
		list = append(list, reference.Command{Use: use, Text: cmp.Or(c.Long, c.Short), Example: c.Example, Settings: program.Settings(c.LocalNonPersistentFlags())})
		list = append(list, commandEntries(c, strings.TrimSpace(prefix+" "+c.Name()))...)
	}
	return list
}
