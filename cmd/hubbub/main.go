// Command hubbub is the command line of Hubbub. It runs the system, shows what happens in it, and
// sends messages.
package main

import (
	"context"
	"os"
	"runtime"

	"hubbub/cmd/hubbub/internal/activity"
	"hubbub/cmd/hubbub/internal/agents"
	"hubbub/cmd/hubbub/internal/bench"
	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/cmd/hubbub/internal/conformance"
	"hubbub/cmd/hubbub/internal/demo"
	"hubbub/cmd/hubbub/internal/doctor"
	"hubbub/cmd/hubbub/internal/gateway"
	"hubbub/cmd/hubbub/internal/newpeer"
	"hubbub/cmd/hubbub/internal/operate"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/hubbub/internal/traffic"
	"hubbub/cmd/hubbub/internal/up"
	"hubbub/cmd/hubbub/internal/work"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func main() {
	os.Exit(program.Attach(newRoot()).Execute(context.Background()))
}

// A group is a group of commands in the output of `hubbub --help`.
type group struct {
	title    string
	commands []func() *cobra.Command
}

// groups has all commands. A command gets its settings from program.From(cmd), writes its results
// to cmd.OutOrStdout(), and returns an error of program.Usage for exit code 2.
var groups = []group{
	{"Run", []func() *cobra.Command{up.NewUp, demo.NewCommand, up.NewConfig, newpeer.NewCommand}},
	{"Look", []func() *cobra.Command{
		activity.NewTail,
		activity.NewTrace,
		activity.NewWhy,
		activity.NewStats,
		traffic.NewTop,
		traffic.NewPeers,
		traffic.NewConsole,
		activity.NewLog,
	}},
	{"Talk", []func() *cobra.Command{
		agents.NewChat,
		work.NewSay,
		work.NewAsk,
		work.NewInvoke,
		work.NewConversation,
		traffic.NewPub,
		traffic.NewSub,
		traffic.NewPing,
	}},
	{"Work", []func() *cobra.Command{
		work.NewWork,
		work.NewWho,
		work.NewDecisions,
		work.NewOwe,
		work.NewBlocking,
		agents.NewHalt,
		agents.NewResume,
		agents.NewReminders,
	}},
	{"Operate", []func() *cobra.Command{
		doctor.NewCommand,
		operate.NewToken,
		operate.NewPair,
		operate.NewOutbox,
		gateway.NewChorus,
		gateway.NewHook,
		operate.NewBackup,
		conformance.NewCommand,
		bench.NewCommand,
		newManual,
	}},
	{"Help", []func() *cobra.Command{newVersion}},
}

// newRoot returns the root command with all commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hubbub",
		Short: "Hubbub connects chats and agents over one message bus",
		Long: "Hubbub connects Telegram chats, LLM agents and other programs over one message bus.\n" +
			"Start with `hubbub demo`, which needs no token and no network, or with `hubbub up`.",
	}
	root.PersistentFlags().Bool("json", false, "print JSON, one object per line")
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
	completion.Install(root, completions)
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:         "version",
		Annotations: map[string]string{program.NoData: ""},
		Short:       "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := map[string]string{"version": program.Version(), "revision": program.Revision(),
				"go": runtime.Version()}
			return output.Line(cmd, all, "%s", program.VersionLine("hubbub"))
		},
	}
}
