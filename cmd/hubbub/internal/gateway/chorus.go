package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/peers/attention"
	"hubbub/peers/chorus"
	"hubbub/peers/netguard"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/spf13/cobra"
)

// defaultPublicURL is the address of a gateway without --public-url.
const defaultPublicURL = "http://127.0.0.1:7893"

// NewChorus returns the command `hubbub chorus`.
func NewChorus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "chorus",
		Short: "Connect external HTTP agents and channels (Chorus)",
		Long: "Connect external agents and channels through the Chorus gateway. The commands write the\n" +
			"gateway's data folder (--data); a running gateway applies a change within a second.\n\n" +
			"If an external agent gave you a connection string, use `hubbub chorus add`. If an external\n" +
			"service asks you for a connection string to reach an agent of yours, use `hubbub chorus inbox\n" +
			"create`.",
	}
	cmd.AddCommand(newChorusAdd(), newChorusAssign(), newChorusList(), newChorusRemove(), newChorusInbox())
	return cmd
}

// gatewayFile is the gateway's database in its data folder.
const gatewayFile = "chorus.db"

// withStore calls do with the gateway's store.
func withStore(cmd *cobra.Command, do func(ctx context.Context, store *chorus.Store) error) error {
	data, err := program.From(cmd).MakeData()
	if err != nil {
		return err
	}
	store, err := chorus.OpenStore(data)
	if err != nil {
		return err
	}
	return errors.Join(do(cmd.Context(), store), store.Close())
}

func newChorusAdd() *cobra.Command {
	var file string
	var replace bool
	var settings chorus.AgentSettings
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Put an HTTP agent on the bus as agent:NAME",
		Long: "Put an HTTP agent on the bus as agent:NAME. Its connection string is a secret, so it is read\n" +
			"from a file; - is standard input. With --replace it replaces the connection string of an\n" +
			"existing agent and changes nothing else.",
		Example: "  hubbub chorus add weather --connection-string-file weather.txt\n" +
			"  hubbub chorus add weather --replace --connection-string-file rotated.txt",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := chorus.CheckAgentName(args[0]); err != nil {
				return program.Usage("%s", err)
			}
			if file == "" {
				return program.Usage("--connection-string-file is missing: it names the file with the connection string")
			}
			for _, other := range []string{"role", "alias", "stream", "knocks", "mcp-list"} {
				if replace && cmd.Flags().Changed(other) {
					return program.Usage("--replace changes only the connection string: omit --%s", other)
				}
			}
			env := program.From(cmd)
			var connection string
			var err error
			if file == "-" {
				connection, err = env.ReadSecret("standard input", env.Stdin)
			} else {
				connection, err = env.SecretFile(file)
			}
			if err != nil {
				return err
			}
			if settings.Aliases, err = attention.ParseAliases(settings.Aliases); err != nil {
				return program.Usage("--alias: %s", err)
			}
			name := chorus.AgentName(args[0])
			return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
				err := addAgent(ctx, store, name, connection, settings, replace)
				if err != nil {
					return err
				}
				// only the gateway knows which addresses it allows
				if err := netguard.New(nil).CheckURL(connection); err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "the gateway may refuse to call %s: %s\n", name.ID(), err)
				}
				what := map[bool]string{
					false: "is on the bus when the gateway runs",
					true:  "now uses this connection string",
				}[replace]
				return output.Line(
					cmd, map[string]string{"name": string(name), "peer": string(name.ID())}, "%s %s", name.ID(), what,
				)
			})
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&replace, "replace", false, "replace the connection string of an existing agent")
	fs.StringVar(&file, "connection-string-file", "", "file with the connection string; - for standard input")
	fs.StringArrayVar(&settings.Roles, "role", nil, "role for mentions such as @backend-agents (repeatable)")
	fs.StringArrayVar(&settings.Aliases, "alias", nil, "other name by which messages mention it (repeatable)")
	fs.StringArrayVar(&settings.Streams, "stream", nil, "stream that the agent owns (repeatable)")
	fs.BoolVar(
		&settings.Knocks,
		"knocks",
		false,
		"also notify it, without content, of events that it may answer, such as mentions of its role",
	)
	fs.BoolVar(&settings.MCPList, "mcp-list", false, "send \"mcp\" as a list, for agents that expect one")
	return cmd
}

// addAgent adds an agent or, with replace, replaces the connection string of an existing one.
func addAgent(
	ctx context.Context,
	s *chorus.Store,
	name chorus.AgentName,
	connection string,
	settings chorus.AgentSettings,
	replace bool,
) error {
	if replace {
		err := s.ReplaceConnection(ctx, name, connection)
		if errors.Is(err, chorus.ErrNotFound) {
			return fmt.Errorf("%w; to add it, omit --replace", err)
		}
		return err
	}
	err := s.AddAgent(ctx, name, connection, settings)
	if errors.Is(err, chorus.ErrExists) {
		return fmt.Errorf(
			"%w; to change its connection string, add --replace; to change other settings, first run: hubbub chorus "+
				"remove %s",
			err,
			name,
		)
	}
	return err
}

func newChorusAssign() *cobra.Command {
	return &cobra.Command{
		Use:   "assign NAME TOPIC",
		Short: "Assign an HTTP agent to a chat",
		Long: "Assign agent:NAME to the chat of TOPIC, in addition to the agents that it has. The chat's bridge\n" +
			"then sends it every message, and the agent's attention decides. Somebody must have written in\n" +
			"the chat before.",
		Example: "  hubbub chorus assign weather tg:-100123",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := chorus.CheckAgentName(args[0]); err != nil {
				return program.Usage("%s", err)
			}
			topic, agent := protocol.Topic(args[1]), chorus.AgentName(args[0]).ID()
			if !protocol.IsChat(protocol.PeerID(topic)) {
				return program.Usage("%q is not a chat: use a topic such as tg:-100123", topic)
			}
			ctx := cmd.Context()
			id := busclient.NewID("chorus")
			s, err := busclient.Open(ctx, program.From(cmd), id)
			if err != nil {
				return err
			}
			defer s.Close()
			m := protocol.NewMessage(protocol.TypeRouteAssigned, id, protocol.RouteAssigned{Topic: topic, Agent: agent})
			var result protocol.SendResult
			if err := s.Call(
				ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: topic, Payload: m}, &result,
			); err != nil {
				return fmt.Errorf("assigning %s: %w", agent, err)
			}
			switch err := peer.Classify(topic, 1, result, nil); peer.OutcomeOf(err) {
			case peer.Received:
				if err := s.Call(ctx, protocol.MethodSendMessage, protocol.RouteCopy(m), &result); err != nil {
					return fmt.Errorf("the assignment was made, but not reported to %s: %w", protocol.TopicRoute, err)
				}
				return output.Line(
					cmd, protocol.RouteAssigned{Topic: topic, Agent: agent}, "%s now receives the messages of %s",
					agent, topic,
				)
			case peer.Absent:
				return fmt.Errorf("no bridge on the bus serves %s: is its bridge running?", topic)
			default:
				return fmt.Errorf("the assignment failed: %w", err)
			}
		},
	}
}

func newChorusList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List agents and inboxes, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !program.FileExists(program.From(cmd).DataFile(gatewayFile)) { // listing must not create the store
				return printChorus(cmd, nil, nil)
			}
			return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
				agents, err := store.Agents(ctx)
				if err != nil {
					return err
				}
				inboxes, err := store.Inboxes(ctx)
				if err != nil {
					return err
				}
				return printChorus(cmd, agents, inboxes)
			})
		},
	}
}

// printChorus prints agents and inboxes: with --json as lines with a kind, otherwise as one table
// for each kind, in the same columns.
func printChorus(cmd *cobra.Command, agents []chorus.ExternalAgent, inboxes []chorus.Inbox) error {
	var list []any
	var rows [][]any
	for i, a := range agents {
		list = append(list, struct {
			Kind string `json:"kind"`
			chorus.ExternalAgent
		}{"agent", a})
		if i == 0 {
			rows = append(rows, []any{"AGENT", "HOST", "ROLES", "STATE"})
		}
		rows = append(rows, []any{a.Peer, a.Host, strings.Join(a.Settings.Roles, " "), cmp.Or(a.Trouble, "ok")})
	}
	for i, in := range inboxes {
		list = append(list, struct {
			Kind string `json:"kind"`
			chorus.Inbox
		}{"inbox", in})
		if i == 0 {
			rows = append(rows, []any{"INBOX", "CHANNELS", "CHANGED", "STATE"})
		}
		state := map[bool]string{false: "open", true: "revoked"}[in.Revoked]
		rows = append(rows, []any{in.Name, in.Channels, in.ChangedAt.Local().Format("2006-01-02 15:04 MST"), state})
	}
	none := fmt.Sprintf(
		"no agents and no inboxes in %s (--data): see `hubbub chorus add --help` and `hubbub chorus inbox --help`",
		program.From(cmd).Data,
	)
	return output.List(cmd, list, none, func(p *output.Printer, _ []any) { p.Rows(rows) })
}

func newChorusRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove an HTTP agent and its stored data",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
				return store.RemoveAgent(ctx, chorus.AgentName(args[0]))
			})
		},
	}
}

func newChorusInbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Create, rotate and revoke the connection strings of your agents",
		Long: "An inbox is where external services reach agents of yours. Its connection string is a secret:\n" +
			"anybody who has it can talk to the agents. It is shown once; only its SHA-256 is stored.",
	}
	var url string
	cmd.PersistentFlags().StringVar(
		&url, "public-url", "", "public address of the gateway (default: what the gateway recorded)",
	)
	cmd.AddCommand(
		&cobra.Command{
			Use: "create NAME", Short: "Create an inbox and print its connection string", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return printConnection(cmd, args[0], url, (*chorus.Store).CreateInbox)
			},
		},
		&cobra.Command{
			Use: "rotate NAME", Short: "Print a new connection string; the old one stops working at once",
			Args: cobra.ExactArgs(
				1,
			),
			RunE: func(cmd *cobra.Command, args []string) error {
				return printConnection(cmd, args[0], url, (*chorus.Store).RotateInbox)
			},
		},
		&cobra.Command{
			Use: "revoke NAME", Short: "Close an inbox; its connection string stops working at once",
			Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
					return store.RevokeInbox(ctx, chorus.InboxName(args[0]))
				})
			},
		},
	)
	return cmd
}

// printConnection makes a new secret and prints the connection string with it.
func printConnection(
	cmd *cobra.Command, name, url string, make func(*chorus.Store, context.Context, chorus.InboxName) (string, error),
) error {
	if err := chorus.CheckInboxName(name); err != nil {
		return program.Usage("%s", err)
	}
	return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
		secret, err := make(store, ctx, chorus.InboxName(name))
		if errors.Is(err, chorus.ErrExists) {
			return fmt.Errorf("%w; to get a new connection string, run: hubbub chorus inbox rotate %s", err, name)
		}
		if err != nil {
			return err
		}
		at, err := gatewayURL(cmd, store, url)
		if err != nil {
			return err
		}
		connection := chorus.ConnectionString(at, secret)
		return output.Line(cmd, map[string]string{"name": name, "connectionString": connection}, "%s", connection)
	})
}

// gatewayURL returns the public address of the gateway: the given one, or the one that the
// gateway recorded.
func gatewayURL(cmd *cobra.Command, store *chorus.Store, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	recorded, err := store.PublicURL(cmd.Context())
	if recorded == "" && err == nil {
		recorded = defaultPublicURL
		fmt.Fprintf(cmd.ErrOrStderr(),
			"no gateway has recorded its public address yet, so the connection string begins with %s;\n"+
				"if that is wrong, replace it: the rest stays valid\n", recorded)
	}
	return recorded, err
}
