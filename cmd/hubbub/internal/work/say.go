package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/hubbub/internal/records"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/retry"

	"github.com/spf13/cobra"
)

var asFlag = brokerFlag{"as", "", "name under which you stand in the records (default your user name)"}

// sayCommands are the commands that speak in conversations: say, ask and invoke.
var sayCommands = []brokerCommand{
	{
		use: "say CONVERSATION TEXT...", short: "Say something in a conversation, and wake whom it is for",
		long: "Say something in a conversation of the broker. Mentions with which the text begins\n" +
			"wake the agent that they name; without any, who has the next move on --work, or who\n" +
			"answers for the conversation, is woken. Prints the message, and who was woken and why.",
		example: "  hubbub say release '@lead is the build green?'\n  hubbub say release 'two tests are red' --work wi_1",
		args:    cobra.MinimumNArgs(2),
		flags: []brokerFlag{
			asFlag,
			{"work", "", "id of the work item that it is about"},
			{"reply", "", "id of the message that it answers"},
			{"id", "", "id of the message, so that the command may be repeated (default a new one)"},
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
				refused.Message += "; the message is kept as " + storedDetails(err).MessageID
			}
			if err != nil {
				return err
			}
			why, err := collab.WakeExplain.Ask(ctx, in, collab.ExplainParams{MessageID: got.Message.ID})
			if err != nil {
				return err
			}
			return output.Line(in.Command, got, "%s  (%s)", term.Printable(got.Message.ID), term.Printable(records.Wake(&why.Decision)))
		},
	},
	{
		use: "ask NAME QUESTION...", short: "Ask an agent or a person, and wake the agent",
		long: "Ask a question. Its answer is shown by `hubbub work questions`; the agent is woken.\n" +
			"With --blocks the question comes back to an agent of --policy-version 2026-08-11 until\n" +
			"you close it: `hubbub owe close` ID.",
		example: "  hubbub ask lead 'which region do we deploy to?'\n  hubbub ask lead 'may I merge?' --blocks halted --default 'I do not merge'",
		args:    cobra.MinimumNArgs(2),
		flags: []brokerFlag{
			asFlag,
			{"conversation", "", "id of the conversation that it belongs to"},
			{"id", "", "id of the question, so that the command may be repeated (default a new one)"},
			{"blocks", "", "you wait for it, and are meanwhile halted, degraded, or none of both"},
			{"default", "", "what you do without an answer"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			p := collab.QuestionParams{ID: in.optional("id"), AskedOfID: in.args[0], Title: in.joinArgs(1), ConversationID: in.str("conversation")}
			if blocks := in.str("blocks"); blocks != "" {
				p.Obligation = &protocol.Obligation{Blocks: blocks, DefaultAction: in.str("default")}
			} else if in.str("default") != "" {
				return program.Usage("--default is of what you wait for: add --blocks")
			}
			return requestRecord(ctx, in, collab.QuestionAsk, p)
		},
	},
	{
		use: "invoke NAME TEXT...", short: "Have an agent do something, and follow how far it is",
		long: "Hand something to an agent and wake it. Prints the flight, which is how far it is; with\n" +
			"--wait the command ends with the flight, and prints what the agent answered.",
		example: "  hubbub invoke lead 'summarise the open issues' --wait\n  hubbub invoke lead 'write the notes' --work wi_1",
		args:    cobra.MinimumNArgs(2),
		flags: []brokerFlag{
			asFlag,
			{"work", "", "id of the work item that it is for; it comes to review with the answer"},
			{"conversation", "", "id of the conversation in which the agent answers"},
			{"id", "", "id of the invocation, so that the command may be repeated (default a new one)"},
			{"wait", false, "wait for the answer, a minute at most"},
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
		use: "create TITLE...", short: "Make a conversation", args: cobra.MinimumNArgs(1),
		example: "  hubbub conversation create 'Release 2' --id r2 --master lead --members a,b",
		flags: []brokerFlag{
			{"kind", "group", "dm, group, channel or thread"},
			{"members", "", "names of those whom it concerns, with commas between them"},
			{"master", "", "who answers for it: woken for what people say there to nobody"},
			{"id", "", "id of the conversation, so that the command may be repeated (default a new one)"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			members := strings.FieldsFunc(in.str("members"), func(r rune) bool { return r == ',' || r == ' ' })
			got, err := collab.ConversationCreate.Ask(ctx, in, collab.ConversationParams{
				ID: in.optional("id"), Kind: in.str("kind"), Title: in.joinArgs(0), MasterID: in.str("master"), MemberIDs: members,
			})
			if err != nil {
				return err
			}
			c := &got.Conversation
			return output.Line(in.Command, c, "%s  %s  %s", term.Printable(c.ID), c.Kind, term.Printable(c.Title))
		},
	},
	{
		use: "show ID", short: "Show what was said in a conversation, the oldest first", args: cobra.ExactArgs(1),
		run: showConversation,
	},
}

// NewConversation returns the command `hubbub conversation`.
func NewConversation() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conversation",
		Short: "Make and read conversations about work",
		Long: "A conversation is where messages about work are said: `hubbub say` says one. A chat that\n" +
			"used /work or /ask has one, under its own name, such as tg:-100123.",
		Example: "  hubbub conversation show tg:-100123",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("as", "", "name under which you stand in the records (default your user name)")
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
				printer.Linef("%s  %s: %s", m.CreatedAt, term.Printable(records.Name(m.AuthorID, m.AuthorIdentity)), term.Printable(m.Text))
			}
		}
		if page.Next == nil || printer.Err != nil {
			return printer.Err
		}
		p.SetAfter(*page.Next)
	}
}
