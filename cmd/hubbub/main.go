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

// constructors make the commands. A command gets its settings from program.From(cmd),
// writes results to cmd.OutOrStdout(), and returns program.Usage errors for exit code 2.
var constructors = []func() *cobra.Command{
	newUp,
	newDemo,
	newChat,
	newPub,
	newSub,
	newTail,
	newTrace,
	newWhy,
	newStats,
	newConsole,
	newTop,
	newLog,
	newPeers,
	newPing,
	newToken,
	newPair,
	newOutbox,
	newDoctor,
	newConformance,
	newBench,
	newChorusCommand,
	newWorkCommand,
	newWhoCommand,
	newConfig,
	newBackup,
	newManual,
	newVersion,
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
	for _, construct := range constructors {
		root.AddCommand(construct())
	}
	addTopics(root)
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
