// Command hubbub is the command line: it runs the whole system, shows what
// happens in it, and speaks on the bus.
package main

import (
	"context"
	"os"
	"runtime"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(program.Attach(newRoot()).Execute(context.Background()))
}

// A group is the commands for one purpose, as `hubbub --help` lists them.
type group struct {
	title    string
	commands []func() *cobra.Command
}

// groups make the commands. A command gets its settings from program.From(cmd),
// writes results to cmd.OutOrStdout(), and returns program.Usage errors for exit code 2.
var groups = []group{
	{"Run", []func() *cobra.Command{newUp, newDemo, newConfig, newNew}},
	{"Look", []func() *cobra.Command{newTail, newTrace, newWhy, newStats, newTop, newPeers, newConsole, newLog}},
	{"Talk", []func() *cobra.Command{newChat, newSay, newAsk, newInvoke, newConversation, newPub, newSub, newPing}},
	{"Work", []func() *cobra.Command{newWorkCommand, newWhoCommand, newDecisions, newOwe, newBlocking, newHalt, newResume, newReminders}},
	{"Operate", []func() *cobra.Command{newDoctor, newToken, newPair, newOutbox, newChorusCommand, newHook, newBackup, newConformance, newBench, newManual}},
	{"Help", []func() *cobra.Command{newVersion}},
}

// newRoot makes the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hubbub",
		Short: "Hubbub connects chats and agents over one message bus",
		Long: "Hubbub connects Telegram chats, LLM agents and other programs over one message bus.\n" +
			"Start with `hubbub demo`, which needs no token and no network, or with `hubbub up`.",
	}
	root.PersistentFlags().Bool("json", false, "print JSON, one object a line")
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, construct := range g.commands {
			cmd := construct()
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("Help")
	root.SetCompletionCommandGroupID("Help")
	addTopics(root)
	completeArguments(root, "")
	return root
}

// asJSON reports whether results are printed as JSON.
func asJSON(cmd *cobra.Command) bool {
	on, err := cmd.Flags().GetBool("json")
	return err == nil && on
}

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
