package operate

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"hubbub/bus/grant"
	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// NewToken returns the command `hubbub token`.
func NewToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke credentials of the bus",
		Long: "A credential says which identities its holder may use on the bus, and what it may subscribe and\n" +
			"publish to. Credentials are stored in the bus's data folder (--data); a running bus applies a\n" +
			"change within a second. Until the first credential is created, the bus is open to this machine.\n" +
			"After the last one is revoked, nobody can connect.",
	}
	cmd.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke(), newTokenProvision())
	return cmd
}

// credentials reads the credentials file of the data folder.
func credentials(cmd *cobra.Command) (*grant.File, error) {
	file := grant.NewFile(program.From(cmd).DataFile(grant.FileName))
	return file, file.Reload()
}

func newTokenCreate() *cobra.Command {
	var c grant.Credential
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a credential and print its token, which is shown once",
		Long: "Create a credential and print its token. In patterns, * matches any run of characters and ?\n" +
			"matches one. Programs read the token from HUBBUB_TOKEN; Hubbub's programs also read it from the\n" +
			"file of --token-file. For example, for a peer printed by `hubbub new peer` that talks to the\n" +
			"command line and to Telegram chats:\n\n" +
			"  hubbub token create echo --identity agent:echo --subscribe agent:echo \\\n" +
			"    --publish 'cli:*' --publish 'tg:*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Name = args[0]
			if len(c.Identities) == 0 {
				return program.Usage("a credential needs at least one --identity")
			}
			if err := program.EachAlone(
				slices.Concat(c.Identities, c.Subscribe, c.Publish, c.Names, c.Issue),
				"give the flag once for each pattern",
			); err != nil {
				return err
			}
			if err := c.CheckGrants(); err != nil {
				return program.Usage("%v", err)
			}
			file, err := credentials(cmd)
			if err != nil {
				return err
			}
			token, err := file.Create(c)
			if err != nil {
				return fmt.Errorf("creating the credential %s: %w", c.Name, err)
			}
			err = output.Line(cmd, map[string]string{"name": c.Name, "token": token}, "%s", token)
			if err != nil { // nobody has the token
				_, undo := file.Revoke(c.Name, nil)
				return errors.Join(fmt.Errorf("the credential %s is not created: printing its token: %w", c.Name, err), undo)
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(
		&c.Identities, "identity", nil, "pattern of identities that the holder may use (repeatable)",
	)
	cmd.Flags().StringArrayVar(
		&c.Subscribe, "subscribe", nil,
		"pattern that the holder may subscribe to, including narrower patterns (repeatable)",
	)
	cmd.Flags().StringArrayVar(&c.Publish, "publish", nil, "pattern of topics that the holder may send to (repeatable)")
	cmd.Flags().StringArrayVar(
		&c.Names,
		"name",
		nil,
		"name that agents with this credential may announce to the broker, in addition to their own (repeatable)",
	)
	cmd.Flags().StringArrayVar(
		&c.Issue, "issue", nil, "pattern of identities for which the holder may issue credentials (repeatable)",
	)
	return cmd
}

func newTokenList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List credentials, each followed by those that it issued",
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, err := credentials(cmd)
			if err != nil {
				return err
			}
			none := "no credentials in %s: the bus of this folder (--data) is open to every program on this machine"
			if !file.Open() {
				none = "all credentials in %s are revoked: nobody can connect to the bus of this folder (--data) " +
					"until one is created"
			}
			words := func(patterns []string) string { return strings.Join(patterns, " ") }
			head := []any{"NAME", "IDENTITIES", "SUBSCRIBE", "PUBLISH", "ISSUE", "NAMES"}
			var tree []grant.Credential
			depths := map[string]int{}
			grant.WalkIssued(file.List(), "", func(c *grant.Credential, depth int) {
				tree = append(tree, *c)
				depths[c.Name] = depth
			})
			return output.Table(cmd, tree, fmt.Sprintf(none, program.From(cmd).Data), head,
				func(c grant.Credential) []any {
					name := strings.Repeat("  ", depths[c.Name]) + c.Name
					return []any{name, words(c.Identities), words(c.Subscribe), words(c.Publish), words(c.Issue),
						words(c.Names)}
				})
		},
	}
}

func newTokenRevoke() *cobra.Command {
	var with, keep bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a credential and end its sessions",
		Long: "Revoke a credential. If its holder has issued others, as the spawner does for agents, anybody\n" +
			"who had the token may have issued them: say whether to revoke them too. `hubbub token list`\n" +
			"shows who issued what.",
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := credentials(cmd)
			if err != nil {
				return err
			}
			issued := grant.Issued(file.List(), args[0])
			switch {
			case with && keep:
				return program.Usage("--with-issued and --keep-issued exclude each other")
			case keep:
				err, issued = file.RevokeKeepIssued(args[0]), nil
			case with || len(issued) == 0:
				if issued, err = file.Revoke(args[0], nil); err == nil {
					issued = issued[1:]
				}
			default:
				return program.Usage("the holder of %s has issued %s: add --with-issued to revoke these too, or "+
					"--keep-issued to keep them",
					args[0], strings.Join(issued, ", "))
			}
			switch {
			case errors.Is(err, grant.ErrUnknown):
				return fmt.Errorf("%s: %w", args[0], err)
			case err != nil:
				return err
			}
			says := "is revoked: its sessions end within seconds"
			if len(issued) > 0 {
				says = fmt.Sprintf("is revoked, and also %s: their sessions end within seconds",
					strings.Join(issued, ", "))
			}
			if len(file.List()) == 0 {
				says += "; it was the last credential, so nobody can connect until another is created"
			}
			return output.Line(cmd, revoked{args[0], issued}, "%s %s", args[0], says)
		},
	}
	cmd.Flags().BoolVar(&with, "with-issued", false, "also revoke credentials that its holder issued, and so on")
	cmd.Flags().BoolVar(&keep, "keep-issued", false, "keep credentials that its holder issued")
	return cmd
}

// revoked is the JSON output of token revoke.
type revoked struct {
	Revoked string   `json:"revoked"`
	Issued  []string `json:"issued,omitempty"` // credentials issued by it and revoked with it
}

func newTokenProvision() *cobra.Command {
	var tokens string
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Give every program of the system its credential",
		Long: "Give the spawner, the bridges, the broker, the Chorus gateway and the command line the\n" +
			"credentials that `hubbub up` would give them. Each token is in a file in the folder tokens of\n" +
			"the bus's data folder (--data). Existing tokens are kept, so the command may run before each\n" +
			"start of the bus.\n\n" +
			"With --tokens, it gives these credentials to existing tokens, such as those of a Kubernetes\n" +
			"secret, and writes none.",
		Example: "  hubbub token provision --data /var/lib/hubbub-bus",
		RunE: func(cmd *cobra.Command, _ []string) error {
			env := program.From(cmd)
			data, err := env.MakeData()
			if err != nil {
				return err
			}
			names := provision.Names()
			if tokens == "" {
				tokens = filepath.Join(data, "tokens")
				err = provision.Tokens(data)
			} else {
				names, err = provision.Adopt(env, data, tokens)
			}
			if err != nil {
				return err
			}
			return output.Line(
				cmd, map[string]any{"tokens": tokens, "names": names}, "tokens of %s are in %s",
				strings.Join(names, ", "), tokens,
			)
		},
	}
	cmd.Flags().StringVar(&tokens, "tokens", "", "folder with existing tokens: "+strings.Join(provision.Names(), ", "))
	return cmd
}

// Credentials lists the names of the credentials.
func Credentials(cmd *cobra.Command) (list []string, err error) {
	file, err := credentials(cmd)
	if err != nil {
		return nil, err
	}
	for _, c := range file.List() {
		list = completion.Append(list, c.Name, strings.Join(c.Identities, " "))
	}
	return list, nil
}
