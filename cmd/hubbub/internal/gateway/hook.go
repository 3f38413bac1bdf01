package gateway

import (
	"context"
	"errors"
	"fmt"

	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/peers/chorus"
	"hubbub/protocol"

	"github.com/spf13/cobra"
)

// NewHook returns the command `hubbub hook`.
func NewHook() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Let external programs post to a chat with signed webhooks",
		Long: "A hook is a URL to which external programs POST. The agents of one chat receive the posts. The\n" +
			"Chorus gateway serves it; the commands write the gateway's data folder (--data), and a change\n" +
			"takes effect at once. A post has at most 1 MiB. It is signed with the secret of the hook, as\n" +
			"specified by Standard Webhooks (webhook-id, webhook-timestamp, webhook-signature: within 5\n" +
			"minutes, each ID once) or by GitHub (X-Hub-Signature-256: each body once, because no time or ID\n" +
			"is signed). The response 200 means that the post is stored.\n\n" +
			"A post is material for agents: it mentions nobody, and people do not see it in the chat. It\n" +
			"obliges nobody or, with --oblige, the chat's agent.",
	}
	cmd.AddCommand(newHookAdd(), newHookList(), newHookRotate(), newHookRemove())
	return cmd
}

// A hookInfo is what the sender needs to know about a hook.
type hookInfo struct {
	Name   string          `json:"name"`
	Chat   protocol.PeerID `json:"chat,omitempty"`
	URL    string          `json:"url"`
	Secret string          `json:"secret"`
}

func newHookAdd() *cobra.Command {
	var chat, url string
	var oblige, arrives bool
	cmd := &cobra.Command{
		Use:   "add NAME {--chat TOPIC | --arrives}",
		Short: "Create a hook and print its URL and secret",
		Long: "Create a hook for the chat of a topic. It prints the URL and, on a second line, the secret with\n" +
			"which posts are signed. The secret is shown once. Senders of Standard Webhooks and GitHub\n" +
			"(content type application/json) accept it unchanged.\n\n" +
			"With --arrives, the hook notifies the collaboration broker instead of a chat. A post says that\n" +
			"something has arrived for which work waits: the name in {\"arrived\":\"build-42\"} or, without it,\n" +
			"the name of the hook. `hubbub work arrived` does the same.",
		Example: "  hubbub hook add build-42 --arrives\n  hubbub hook add ci --chat tg:-100123\n  hubbub hook add " +
			"alerts --chat tg:1 --oblige",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := chorus.CheckHookName(args[0]); err != nil {
				return program.Usage("%s", err)
			}
			topic := protocol.PeerID(chat)
			switch {
			case arrives && (chat != "" || oblige):
				return program.Usage("--arrives notifies no chat: omit --chat and --oblige")
			case arrives:
				topic = protocol.PeerBroker
			}
			if !arrives && !protocol.IsChat(topic) {
				return program.Usage("--chat %q is not a chat: use a topic such as tg:-100123", chat)
			}
			return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
				secret, err := store.AddHook(ctx, chorus.HookName(args[0]), topic, oblige)
				if errors.Is(err, chorus.ErrExists) {
					return fmt.Errorf("%w; to get a new secret, run: hubbub hook rotate %s", err, args[0])
				}
				if err != nil {
					return err
				}
				return printHook(cmd, store, &hookInfo{Name: args[0], Chat: topic, URL: url, Secret: secret})
			})
		},
	}
	cmd.Flags().StringVar(&chat, "chat", "", "topic of the chat whose agents receive the posts, such as tg:1")
	cmd.Flags().BoolVar(&oblige, "oblige", false,
		"the chat's agent must answer each post; otherwise it only stores them")
	cmd.Flags().BoolVar(&arrives, "arrives", false, "a post resumes work that waits for what it names")
	cmd.Flags().StringVar(&url, "public-url", "", "public address of the gateway (default: what the gateway recorded)")
	return cmd
}

func newHookRotate() *cobra.Command {
	var url string
	cmd := &cobra.Command{
		Use: "rotate NAME", Short: "Print a new secret; the old one stops working at once", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
				secret, err := store.RotateHook(ctx, chorus.HookName(args[0]))
				if err != nil {
					return err
				}
				return printHook(cmd, store, &hookInfo{Name: args[0], URL: url, Secret: secret})
			})
		},
	}
	cmd.Flags().StringVar(&url, "public-url", "", "public address of the gateway (default: what the gateway recorded)")
	return cmd
}

// printHook prints the URL and the secret of a hook.
func printHook(cmd *cobra.Command, store *chorus.Store, h *hookInfo) error {
	at, err := gatewayURL(cmd, store, h.URL)
	if err != nil {
		return err
	}
	h.URL = chorus.HookURL(at, chorus.HookName(h.Name))
	return output.Line(cmd, h, "%s\n%s", h.URL, h.Secret)
}

func newHookRemove() *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a hook; stored posts still reach the chat", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
				return store.RemoveHook(ctx, chorus.HookName(args[0]))
			})
		},
	}
}

func newHookList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List hooks and the state of their posts", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hooks, err := readHooks(cmd)
			if err != nil {
				return err
			}
			none := fmt.Sprintf("no hooks in %s (--data): see `hubbub hook add --help`", program.From(cmd).Data)
			head := []any{"HOOK", "CHAT", "OBLIGES", "POSTS", "WAITING", "LOST", "STATE"}
			return output.Table(cmd, hooks, none, head, func(h chorus.Hook) []any {
				state := "ok"
				if trouble := h.Trouble(); trouble != "" {
					state = trouble
				}
				return []any{
					h.Name, h.Chat, map[bool]string{true: "its agent", false: "nobody"}[h.Oblige], h.Posts, h.Waiting,
					h.Lost, state,
				}
			})
		},
	}
}

// readHooks returns the hooks of the data folder. It does not create the store.
func readHooks(cmd *cobra.Command) (hooks []chorus.Hook, err error) {
	if !program.FileExists(program.From(cmd).DataFile(gatewayFile)) {
		return nil, nil
	}
	err = withStore(cmd, func(ctx context.Context, store *chorus.Store) error {
		hooks, err = store.Hooks(ctx)
		return err
	})
	return hooks, err
}

// Hooks lists the names of the hooks, for completion.
func Hooks(cmd *cobra.Command) (list []string, err error) {
	hooks, err := readHooks(cmd)
	for _, h := range hooks {
		list = completion.Append(list, string(h.Name), string(h.Chat))
	}
	return list, err
}
