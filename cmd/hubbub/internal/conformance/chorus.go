package conformance

import (
	"net"
	"path/filepath"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/netguard"

	"github.com/spf13/cobra"
)

func newConformanceChorus() *cobra.Command {
	var (
		listen string
		opts   chorusOptions
	)
	cmd := &cobra.Command{
		Use:   "chorus FILE...",
		Short: "Play a Chorus service for agents, and check when they answer",
		Long: "Play a Chorus service with channels of its own, and check the agents behind connection strings:\n" +
			"that they answer people, stay silent for others, and end an exchange with a program. The agents\n" +
			"may run behind hubbub-chorus or any other implementation. Each file holds one connection string;\n" +
			"its name, without what follows the first dot, is the name of the agent in a channel. Some cases\n" +
			"need two agents. The agents must reach the callbacks: hubbub-chorus --allow-target 127.0.0.0/8\n" +
			"allows those on this machine. It prints one line per case and a count.",
		Example: "  hubbub chorus inbox create alpha > alpha.txt\n" +
			"  hubbub chorus inbox create beta > beta.txt\n" +
			"  hubbub conformance chorus alpha.txt beta.txt",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			if opts.timeout <= 0 || opts.quiet <= 0 {
				return program.Usage("--timeout and --quiet must be above 0")
			}
			var agents []*chorusAgent
			for _, file := range files {
				connection, err := program.From(cmd).SecretFile(file)
				if err != nil {
					return err
				}
				if err := netguard.New(netguard.AllAddresses).CheckURL(connection); err != nil {
					return program.Usage("the connection string in %s: %w", file, err)
				}
				name, _, _ := strings.Cut(filepath.Base(file), ".")
				agents = append(agents, &chorusAgent{name: name, connection: connection})
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return err
			}
			t := &results{cmd: cmd, counts: map[string]int{}}
			if err := checkChorus(cmd.Context(), listener, agents, opts, t.add); err != nil {
				return err
			}
			return t.end(opts.only)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&listen, "listen", "127.0.0.1:0", "address for the callbacks; port 0 is any free port")
	fs.StringVar(&opts.publicURL, "public-url", "", "base URL by which agents reach --listen; default its address")
	fs.StringVar(&opts.only, "only", "", "run only the cases whose name or title contains this")
	fs.DurationVar(&opts.timeout, "timeout", time.Minute, "timeout of each answer")
	fs.DurationVar(&opts.quiet, "quiet", 5*time.Second, "how long to wait before silence counts")
	return cmd
}
