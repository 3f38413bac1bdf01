package newpeer

import (
	"embed"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// peerFiles are the files that `hubbub new peer` prints, each of which runs unchanged.
//
//go:embed templates
var peerFiles embed.FS

// languages maps the values of --lang to template files.
var languages = map[string]string{"ts": "peer.ts", "py": "peer.py", "go": "peer.go.txt", "sh": "peer.sh"}

// templateIdentity is the identity of the peer in the templates.
const templateIdentity = "agent:echo"

var newPeerName = text.Pattern(`^[a-z0-9][a-z0-9-]{0,47}$`)

// newC2A returns the command `hubbub new c2a`.
func newC2A() *cobra.Command {
	return &cobra.Command{
		Use:   "c2a",
		Short: "Print a program for --harness c2a in Python",
		Long: "Print a program for --harness c2a in one file of Python. It answers what it must answer, once, and\n" +
			"passes hubbub conformance c2a. The file explains how to run it; hubbub help c2a has the protocol.",
		Example: "  hubbub new c2a > agent.py\n  hubbub conformance c2a --harness-command \"python3 agent.py\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := peerFiles.ReadFile("templates/c2a.py")
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
}

// NewCommand returns the command `hubbub new`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "new",
		Short:       "Print a program to start from",
		Annotations: map[string]string{program.NoData: ""},
	}
	var language string
	peer := &cobra.Command{
		Use:   "peer [NAME]",
		Short: "Print a peer in one file",
		Long: "Print a peer in one file. As agent:NAME (default echo), it echoes the messages that it receives.\n" +
			"It reconnects, keeps the order of messages, and answers. It reads the bus's address from\n" +
			"HUBBUB_BUS and its token from HUBBUB_TOKEN. The file explains how to run it and how to get a\n" +
			"token. For JavaScript use ts: Node, Deno and Bun run it unchanged.",
		Example: "  hubbub new peer --lang py reviewer > reviewer.py\n  hubbub chat agent:reviewer hello",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, known := languages[language]
			if !known {
				return program.Usage("--lang %q is unknown: use ts (Node, Deno and Bun run it unchanged), py, go or sh",
					language)
			}
			identity := templateIdentity
			if len(args) > 0 {
				name := strings.TrimPrefix(args[0], "agent:")
				if !newPeerName().MatchString(name) {
					return program.Usage(
						"%q is not a valid name: use at most 48 characters of a-z, 0-9 and -, beginning with a "+
							"letter or digit", args[0],
					)
				}
				identity = "agent:" + name
			}
			text, err := peerFiles.ReadFile("templates/" + file)
			if err != nil {
				return err
			}
			_, err = strings.NewReplacer(templateIdentity, identity).WriteString(cmd.OutOrStdout(), string(text))
			return err
		},
	}
	peer.Flags().StringVar(&language, "lang", "ts", "language of the program: ts, py, go or sh")
	cmd.AddCommand(peer, newC2A())
	return cmd
}
