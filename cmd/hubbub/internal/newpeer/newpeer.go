package newpeer

import (
	"embed"
	"regexp"
	"strings"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// peerFiles are the files that `hubbub new peer` prints, each of which runs as it stands.
//
//go:embed templates
var peerFiles embed.FS

// languages maps the values of --lang to template files.
var languages = map[string]string{"ts": "peer.ts", "py": "peer.py", "go": "peer.go.txt", "sh": "peer.sh"}

// templateIdentity is the identity of the peer in the templates.
const templateIdentity = "agent:echo"

var newPeerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,47}$`)

// NewCommand returns the command `hubbub new`.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "new", Short: "Print the beginning of a program of your own"}
	var language string
	peer := &cobra.Command{
		Use:   "peer [NAME]",
		Short: "Print a peer in one file",
		Long: "Print a peer in one file: it echoes what it is told as agent:NAME (echo), reconnects, keeps\n" +
			"order and answers. It reads the bus's address from HUBBUB_BUS and its token from HUBBUB_TOKEN.\n" +
			"The file says how it is run and gets a token. For JavaScript use ts, which Node, Deno and Bun run as it is.",
		Example: "  hubbub new peer --lang py reviewer > reviewer.py\n  hubbub chat agent:reviewer hello",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, known := languages[language]
			if !known {
				return program.Usage("--lang %q is unknown: use ts (which Node, Deno and Bun run as it is), py, go or sh", language)
			}
			identity := templateIdentity
			if len(args) > 0 {
				name := strings.TrimPrefix(args[0], "agent:")
				if !newPeerName.MatchString(name) {
					return program.Usage("%q is no name of a peer: use a-z, 0-9 and -, at most 48 characters, beginning with a letter or digit", args[0])
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
	peer.Flags().StringVar(&language, "lang", "", "ts, py, go or sh")
	cmd.AddCommand(peer)
	return cmd
}
