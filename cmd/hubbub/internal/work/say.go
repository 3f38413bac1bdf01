package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/retry"

	"github.com/spf13/cobra"
)

var asFlag = brokerFlag{"as", "", "your name in records (default: your user name)"}

// sayCommands are the commands that speak in conversations: say, ask and invoke.
var sayCommands = []brokerCommand{
	{
		use: "say CONVERSATION TEXT...", short: "Post a message to a conversation and wake its addressee",
		long: "Post a message to a conversation of the broker. If the text begins with mentions, the mentioned\n" +
			"agent is woken. Otherwise the one with the next move on --work is woken or, without --work, the\n" +
			"one who answers for the conversation. Prints the message, and who was woken and why.",
		example: "  hubbub say release '@lead is the build green?'\n  hubbub say release 'two tests are red' --work " +
			"wi_1",
		args: cobra.MinimumNArgs(2),
		flags: []brokerFlag{
			asFlag,
			{"work", "", "ID of the work item that it is about"},
			{"reply", "", "ID of the message that it answers"},
			{"id", "", "ID of the message, to make the command repeatable (default: a new one)"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			got, err := collab.MessagePost.Ask(ctx, in, collab.PostParams{
				ID: in.optional("id"), ConversationID: in.args[0], Text: in.joinArgs(1), Surface: collab.SurfaceHuman,
				WorkItemID: in.str("work"), InReplyTo: in.str("reply"),
			})
			if kept := storedUnavailable(err); kept.MessageID != "" {
				got.Message, err = kept.Message, nil
			}
			if refused, ok := errors.AsType[*collab.Error](err); ok && storedDetails(err).MessageID != "" {
				refused.Message += "; the message is stored as " + storedDetails(err).MessageID
			}
			if err != nil {
				return err
			}
			why, err := collab.WakeExplain.Ask(ctx, in, collab.ExplainParams{MessageID: got.Message.ID})
			if err != nil {
				return err
			}
			return output.Line(
				in.Command, got, "%s  (%s)", term.Printable(got.Message.ID), term.Printable(why.Decision.Describe()),
			)
		},
	},
	{
		use: "ask NAME QUESTION...", short: "Ask an agent or a person a question",
		long: "Ask a question. An agent is woken. `hubbub work questions` shows the answer. With --blocks, an\n" +
			"agent with --policy-version 2026-08-11 is reminded of the question until you close it: `hubbub\n" +
			"owe close` ID.",
		example: "  hubbub ask lead 'which region do we deploy to?'\n  hubbub ask lead 'may I merge?' --blocks " +
			"halted --default 'I do not merge'",
		args: cobra.MinimumNArgs(2),
		flags: []brokerFlag{
			asFlag,
			{"conversation", "", "ID of the conversation that it belongs to"},
			{"id", "", "ID of the question, to make the command repeatable (default: a new one)"},
			{"blocks", "", "you wait for the answer, and meanwhile are: halted, degraded or none"},
			{"default", "", "what you will do without an answer"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			p := collab.QuestionParams{
				ID:             in.optional("id"),
				AskedOfID:      in.args[0],
				Title:          in.joinArgs(1),
				ConversationID: in.str("conversation"),
			}
			if blocks := in.str("blocks"); blocks != "" {
				p.Obligation = &protocol.Obligation{Blocks: blocks, DefaultAction: in.str("default")}
			} else if in.str("default") != "" {
				return program.Usage("--default requires --blocks")
			}
			return requestRecord(ctx, in, collab.QuestionAsk, p)
		},
	},
	{
		use: "invoke NAME TEXT...", short: "Ask an agent to do something, and follow its progress",
		long: "Give an agent a task and wake it. Prints the flight, which tracks the task. With --wait, the\n" +
			"command ends when the flight ends, and prints the agent's answer.",
		example: "  hubbub invoke lead 'summarise the open issues' --wait\n  hubbub invoke lead 'write the notes' " +
			"--work wi_1",
		args: cobra.MinimumNArgs(2),
		flags: []brokerFlag{
			asFlag,
			{"work", "", "ID of the work item that it is for; the answer moves the item to review"},
			{"conversation", "", "ID of the conversation in which the agent answers"},
			{"id", "", "ID of the invocation, to make the command repeatable (default: a new one)"},
			{"wait", false, "wait for the answer, at most a minute"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			got, err := collab.InvocationCreate.Ask(ctx, in, collab.InvocationParams{
				ID: in.optional("id"), TargetAgentID: in.args[0], Text: in.joinArgs(1),
				ConversationID: in.str("conversation"), WorkItemID: in.str("work"),
			})
			if kept := storedUnavailable(err); kept.FlightID != "" {
				got.Flight, err = kept.Flight, nil
			}
			for err == nil && in.boolean("wait") && !got.Flight.Terminal() {
				if !retry.Sleep(ctx, 200*time.Millisecond) {
					return context.Cause(ctx)
				}
				got, err = collab.FlightGet.Ask(ctx, in, collab.IDParams{ID: got.Flight.ID})
			}
			if err != nil {
				return err
			}
			return printFlight(in, &got)
		},
	},
}

// NewSay returns the command `hubbub say`.
func NewSay() *cobra.Command { return sayCommands[0].command() }

// NewAsk returns the command `hubbub ask`.
func NewAsk() *cobra.Command { return sayCommands[1].command() }

// NewInvoke returns the command `hubbub invoke`.
func NewInvoke() *cobra.Command { return sayCommands[2].command() }

// A storedRecord is a record that the broker stored although it could not wake anybody for it.
type storedRecord struct {
	MessageID string         `json:"messageId"`
	Message   collab.Message `json:"message"`
	FlightID  string         `json:"flightId"`
	Flight    collab.Flight  `json:"flight"`
}

// storedUnavailable returns the stored record if the error says that the agent is unavailable.
// The broker wakes the agent when it comes.
func storedUnavailable(err error) (k storedRecord) {
	if collab.Refusal(err) == collab.CodeUnavailable {
		return storedDetails(err)
	}
	return k
}

// storedDetails returns the stored record in the details of any refusal.
func storedDetails(err error) (k storedRecord) {
	var refused *collab.Error
	if errors.As(err, &refused) {
		raw, _ := refused.Details.(json.RawMessage)
		_ = json.Unmarshal(raw, &k) // without readable details, nothing was stored
	}
	return k
}

// printFlight prints the state of a flight and its output. It returns an error if the flight
// failed.
func printFlight(in *brokerRun, got *collab.Result) error {
	f := &got.Flight
	said := []string{term.Printable(fmt.Sprintf("%s  %s  %s", f.ID, f.State, f.TargetAgentID))}
	for line := range strings.Lines(f.Output) {
		said = append(said, term.Printable(strings.TrimRight(line, "\n")))
	}
	if err := output.Line(in.Command, f, "%s", strings.Join(said, "\n")); err != nil || f.State != collab.FlightFailed {
		return err
	}
	return fmt.Errorf("%s failed: %s", f.ID, term.Printable(f.Error))
}

// conversationCommands are the commands of `hubbub conversation`.
var conversationCommands = []brokerCommand{
	{
		use: "create TITLE...", short: "Create a conversation", args: cobra.MinimumNArgs(1),
		example: "  hubbub conversation create 'Release 2' --id r2 --master lead --members a,b",
		flags: []brokerFlag{
			{"kind", "group", "dm, group, channel or thread"},
			{"members", "", "names of the members, separated by commas"},
			{"master", "", "who answers for it: woken for messages of people that mention nobody"},
			{"id", "", "ID of the conversation, to make the command repeatable (default: a new one)"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			members := strings.FieldsFunc(in.str("members"), func(r rune) bool { return r == ',' || r == ' ' })
			got, err := collab.ConversationCreate.Ask(ctx, in, collab.ConversationParams{
				ID: in.optional("id"), Kind: in.str("kind"), Title: in.joinArgs(0), MasterID: in.str("master"),
				MemberIDs: members,
			})
			if err != nil {
				return err
			}
			c := &got.Conversation
			return output.Line(in.Command, c, "%s  %s  %s", term.Printable(c.ID), c.Kind, term.Printable(c.Title))
		},
	},
	{
		use: "show ID", short: "Show the messages of a conversation, oldest first", args: cobra.ExactArgs(1),
		run: showConversation,
	},
}

// NewConversation returns the command `hubbub conversation`.
func NewConversation() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conversation",
		Short: "Create and read conversations about work",
		Long: "A conversation has messages about work; `hubbub say` posts one. A chat in which /work or /ask\n" +
			"was used has a conversation with its own name, such as tg:-100123.",
		Example: "  hubbub conversation show tg:-100123",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("as", "", "your name in records (default: your user name)")
	for _, c := range conversationCommands {
		cmd.AddCommand(c.command())
	}
	return cmd
}

func showConversation(ctx context.Context, in *brokerRun) error {
	p := collab.ConversationGetParams{IDParams: collab.IDParams{ID: in.args[0]}}
	printer := output.NewPrinter(in.Command)
	for first := true; ; first = false {
		page, err := collab.ConversationGet.Ask(ctx, in, p)
		if err != nil {
			return err
		}
		if first && !printer.JSON {
			c := &page.Conversation
			printer.Linef("%s  %s  %s", term.Printable(c.ID), c.Kind, term.Printable(c.Title))
		}
		for _, raw := range page.Messages {
			m, err := raw.Read()
			switch {
			case err != nil:
				return err
			case printer.JSON:
				printer.Linef("%s", raw.RawMessage)
			default:
				printer.Linef(
					"%s  %s: %s", m.CreatedAt, term.Printable(collab.NameOf(m.AuthorID, m.AuthorIdentity)),
					term.Printable(m.Text),
				)
			}
		}
		if page.Next == nil || printer.Err != nil {
			return printer.Err
		}
		p.SetAfter(*page.Next)
	}
}
