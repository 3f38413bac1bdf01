package work

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	client "hubbub/peers/collab"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/jsonrpc"

	"github.com/spf13/cobra"
)

// brokerLimit bounds a command that uses the broker.
const brokerLimit = time.Minute

// A brokerCommand describes a command that uses the broker.
type brokerCommand struct {
	use, short, long, example string
	args                      cobra.PositionalArgs
	flags                     []brokerFlag
	run                       func(ctx context.Context, in *brokerRun) error
}

// A brokerFlag is a string or boolean flag of a brokerCommand.
type brokerFlag struct {
	name    string
	initial any // a string or a bool
	usage   string
}

// A brokerRun is one run of a command, with its connection to the broker. The broker sees it as a
// person.
type brokerRun struct {
	*cobra.Command
	*client.Client
	args   []string
	person string // the identity in records
}

// str returns the value of a flag.
func (in *brokerRun) str(flag string) string { return in.Flag(flag).Value.String() }

// boolean returns the value of a boolean flag.
func (in *brokerRun) boolean(flag string) bool { return in.str(flag) == "true" }

// optional returns the value of a flag, or nil if it is empty.
func (in *brokerRun) optional(flag string) *string { return optional(in.str(flag)) }

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// joinArgs joins the arguments from index i on.
func (in *brokerRun) joinArgs(i int) string { return strings.Join(in.args[i:], " ") }

func (b *brokerCommand) command() *cobra.Command {
	cmd := &cobra.Command{Use: b.use, Short: b.short, Long: b.long, Example: b.example, Args: b.args}
	for _, f := range b.flags {
		switch initial := f.initial.(type) {
		case string:
			cmd.Flags().String(f.name, initial, f.usage)
		case bool:
			cmd.Flags().Bool(f.name, initial, f.usage)
		}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeoutCause(cmd.Context(), brokerLimit,
			errors.New("the bus did not answer in time"))
		defer cancel()
		return explainBroker(cmd, b.connect(ctx, &brokerRun{Command: cmd, args: args}))
	}
	return cmd
}

// connect connects to the bus and runs the command. Records show the person as --as says; the
// part of the identity after the dot only makes this run unique.
func (b *brokerCommand) connect(ctx context.Context, in *brokerRun) error {
	name := busclient.PersonName(os.Getenv("USER"))
	if as := in.Flag("as"); as != nil && as.Value.String() != "" {
		asked := as.Value.String()
		if name = busclient.PersonName(asked); name != asked {
			return program.Usage("--as %q must be a name of letters, digits, - and _, such as %q", asked, name)
		}
	}
	in.person = "cli:" + name
	id := protocol.PeerID(in.person + "." + strings.ToLower(rand.Text()[:10]))
	var s *busclient.Session
	in.Client = client.New(id, func(ctx context.Context, topic protocol.Topic,
		m protocol.Message) (sent protocol.SendResult, err error) {
		err = s.Call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: topic, Payload: m}, &sent)
		return sent, err
	}, nil)
	s, err := busclient.OpenWithHandler(ctx, program.From(in.Command), id, in.receive)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Call(ctx, protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(id)}, nil); err != nil {
		return fmt.Errorf("subscribing to the broker's answers: %w", err)
	}
	if err := b.run(ctx, in); err != nil {
		return err
	}
	return in.printReminders(ctx)
}

// maxReminders bounds the reminders that a command prints.
const maxReminders = 5

// printReminders prints, after the result, the reminders of the person: an agent would have been
// woken for them.
func (in *brokerRun) printReminders(ctx context.Context) error {
	if output.WantsJSON(in.Command) || slices.Contains([]string{"owe", "blocking"}, in.Name()) {
		return nil
	}
	list, err := collab.WakeReminded.Ask(
		ctx, in, collab.ReminderListParams{RemindedID: in.person, PageParams: collab.PageParams{Limit: maxReminders}},
	)
	if err != nil {
		return nil //nolint:nilerr // the command itself succeeded, perhaps at a broker that has no such list
	}
	for _, raw := range list.Items {
		r, err := raw.Read()
		if err != nil {
			return err
		}
		program.From(in.Command).Tell("reminder: %s",
			term.Printable(fmt.Sprintf("%s (%s) waits for %s: %s; no change for %s",
				r.ID, r.Title, r.RemindedID, r.Reason, strings.TrimSuffix(sinceText(r.Since, time.Now()), " ago"))))
	}
	return nil
}

// receive handles the broker's results. It runs in the goroutine that reads the connection.
func (in *brokerRun) receive(conn *jsonrpc.Conn, m jsonrpc.Message) {
	var p protocol.ProcessParams
	var got protocol.Message
	var r protocol.CollabResult
	if json.Unmarshal(
		m.Params, &p,
	) == nil && json.Unmarshal(p.Payload, &got) == nil && got.Type == protocol.TypeCollabResult &&
		got.From == protocol.PeerBroker && json.Unmarshal(got.Content, &r) == nil {
		in.Answer(&r)
	}
	busclient.Acknowledge(conn, m)
}

// explainBroker adds advice to an error of the broker. With --json it also prints a refusal to
// standard output, with its code and details.
func explainBroker(cmd *cobra.Command, err error) error {
	var refused *collab.Error
	switch {
	case errors.Is(err, collab.ErrNoBroker):
		return errors.New(
			"no collaboration broker is on the bus; start hubbub-broker, or add [broker] to the file of `hubbub up`",
		)
	case !errors.As(err, &refused):
		return err
	case output.WantsJSON(cmd):
		err = errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"error": *refused}), err)
	}
	refused.Code, refused.Message = "", logs.TitlesFor(cmd).Within(term.Printable(refused.Message))
	return err
}

// listAll reads all pages of a list.
func listAll[P, T any, PP interface {
	*P
	SetAfter(next string)
}](
	ctx context.Context, in *brokerRun, m collab.Method[P, collab.Page[T]], params P,
) (all []collab.Listed[T], err error) {
	for {
		page, err := m.Ask(ctx, in, params)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == nil || len(page.Items) == 0 {
			return all, nil
		}
		PP(&params).SetAfter(*page.Next)
	}
}
