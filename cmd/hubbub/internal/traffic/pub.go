package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// pubOptions are the flags of pub.
type pubOptions struct {
	kind      string
	content   string
	as        string
	messageID string
	inReplyTo string
	once      bool
	timeout   time.Duration
}

// NewPub returns the command `hubbub pub`.
func NewPub() *cobra.Command {
	var p pubOptions
	cmd := &cobra.Command{
		Use:   "pub TOPIC --type TYPE [--content JSON | TEXT...]",
		Short: "Send a message and show its outcome",
		Long: "Send one message to a topic and wait until every subscriber has answered.\n\n" +
			"The content is the JSON object of --content (- reads it from standard input), or {\"text\": TEXT}.\n" +
			"Exits 0 if the message was processed or nobody subscribes. Exits 1 if the bus rejected it, or if\n" +
			"no subscriber processed it. It does not wait for an agent's reply: `hubbub chat` does.",
		Example: "  hubbub pub agent:lead --type chat_message 'is the deploy blocked?'\n" +
			`  hubbub pub system:spawn --type spawn_request --content '{"topic":"tg:42"}'`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd, args[0], args[1:]) },
	}
	types := view.TypeNames()
	cmd.Flags().StringVar(&p.kind, "type", "", "message type: "+strings.Join(types, ", "))
	cmd.Flags().StringVar(&p.content, "content", "", "content as a JSON object, or - for standard input")
	cmd.Flags().StringVar(&p.as, "as", "", "identity to send as, such as tg:42 (default: a new one, cli:pub-...)")
	cmd.Flags().StringVar(&p.messageID, "message-id", "", "ID of the message (default: a new one)")
	cmd.Flags().StringVar(&p.inReplyTo, "in-reply-to", "", "ID of the message that this one answers")
	cmd.Flags().BoolVar(
		&p.once, "once", false,
		"for ten minutes, a repetition with the same --as and --message-id returns the first outcome",
	)
	cmd.Flags().DurationVar(&p.timeout, "timeout", 40*time.Second, "how long to wait for the bus's answer")
	_ = cmd.RegisterFlagCompletionFunc(
		"type", cobra.FixedCompletions(types, cobra.ShellCompDirectiveNoFileComp),
	) // the flag exists
	return cmd
}

func (p *pubOptions) run(cmd *cobra.Command, topic string, text []string) error {
	env := program.From(cmd)
	content, err := p.readContent(env.Stdin, text)
	if err != nil {
		return err
	}
	if err := protocol.CheckTopic(topic); err != nil {
		return program.Usage("%s", err)
	}
	if p.kind == "" {
		return program.Usage("--type is missing: for the message of a person use chat_message")
	}
	if !slices.Contains(protocol.AllTypes, protocol.MessageType(p.kind)) {
		return program.Usage("--type %q is not a message type; see hubbub pub --help", p.kind)
	}
	id := cmp.Or(protocol.PeerID(p.as), busclient.NewID("pub"))
	ctx, cancel := context.WithTimeoutCause(
		cmd.Context(), p.timeout, fmt.Errorf("no answer within %s (--timeout)", p.timeout),
	)
	defer cancel()
	s, err := busclient.Open(ctx, env, id)
	if err != nil {
		return err
	}
	defer s.Close()

	m := protocol.NewMessage(protocol.MessageType(p.kind), id, struct{}{})
	m.Content = content // sent unchanged
	m.MessageID = cmp.Or(protocol.MessageID(p.messageID), m.MessageID)
	m.InReplyTo = protocol.MessageID(p.inReplyTo)
	var result protocol.SendResult
	if err := s.Call(
		ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: protocol.Topic(topic), Payload: m, Once: p.once},
		&result,
	); err != nil {
		return fmt.Errorf("sending to %s: %w", topic, err)
	}
	return printSend(cmd, topic, result)
}

// readContent returns the content to send.
func (p *pubOptions) readContent(stdin io.Reader, text []string) (json.RawMessage, error) {
	switch {
	case p.content != "" && len(text) > 0:
		return nil, program.Usage("give --content or a text, not both")
	case p.content == "" && len(text) == 0:
		return json.RawMessage(`{}`), nil
	case p.content == "":
		return json.Marshal(map[string]string{"text": strings.Join(text, " ")})
	}
	raw := []byte(p.content)
	if p.content == "-" {
		var err error
		if raw, err = io.ReadAll(stdin); err != nil {
			return nil, fmt.Errorf("reading the content: %w", err)
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, program.Usage("--content must be a JSON object, such as '{\"text\":\"hello\"}'")
	}
	return raw, nil
}

// printSend prints the outcome of a message.
func printSend(cmd *cobra.Command, topic string, result protocol.SendResult) error {
	var b strings.Builder
	if result.DeliveredTo == 0 && len(result.Failures) == 0 {
		fmt.Fprintf(&b, "%s accepted, but nobody subscribes to %s", result.MessageID, topic)
	} else {
		fmt.Fprintf(&b, "%s processed by %s", result.MessageID, text.Counted(result.DeliveredTo, "peer"))
	}
	for _, f := range result.Failures {
		fmt.Fprint(&b, strings.TrimSuffix(fmt.Sprintf("\n  %s  %s  %s", f.Peer, f.Status, f.Error), "  "))
	}
	if result.Omitted > 0 {
		fmt.Fprintf(&b, "\n  and %s that the result had no room for", text.Counted(result.Omitted, "more failure"))
	}
	if err := output.Line(cmd, result, "%s", b.String()); err != nil {
		return err
	}
	if result.DeliveredTo == 0 && len(result.Failures) > 0 {
		return errors.New("nobody processed the message")
	}
	return nil
}
