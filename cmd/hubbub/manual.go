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
	"hubbub/docs"

	"github.com/spf13/cobra"
)

func newManual() *cobra.Command {
	return &cobra.Command{
		Use:   "manual FOLDER",
		Short: "Write manual pages for every program and topic",
		Long: "Write manual pages to a folder, which is created: NAME.1 for every program, and hubbub-TOPIC.7\n" +
			"for every page of `hubbub help`. The pages come from what the installed programs say about their\n" +
			"own flags.",
		Example:     "  hubbub manual man && man ./man/hubbub-tg.1",
		Annotations: map[string]string{program.NoData: ""},
		Hidden:      true, // for packages
		RunE:        writeManual,
	}
}

func writeManual(cmd *cobra.Command, args []string) error {
	programs, err := reference.Describe(cmd.Context())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	pages := []reference.Page{{
		Name: "hubbub", Section: "1", Version: program.Version(),
		Short: "run, watch and use a message bus of chats and agents",
		Text:  cmd.Root().Long, Commands: commandEntries(cmd.Root(), ""),
	}}
	for _, d := range programs {
		pages = append(pages, reference.ProgramPage(program.Version(), d))
	}
	for _, t := range docs.Topics() {
		short := strings.ToLower(t.Summary[:1]) + t.Summary[1:]
		pages = append(
			pages,
			reference.Page{Name: "hubbub-" + t.Name, Section: "7", Version: program.Version(), Short: short,
				Text: topicText(t)},
		)
	}
	for _, p := range pages {
		text, err := p.Roff()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(args[0], p.Name+"."+p.Section), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d pages written to %s\n", len(pages), args[0])
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
		list = append(list, reference.Command{
			Use: use, Text: cmp.Or(c.Long, c.Short), Example: c.Example,
			Settings: program.Settings(c.LocalNonPersistentFlags()),
		})
		list = append(list, commandEntries(c, strings.TrimSpace(prefix+" "+c.Name()))...)
	}
	return list
}
