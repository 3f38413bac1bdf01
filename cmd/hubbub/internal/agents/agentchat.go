package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/directchat"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"github.com/spf13/cobra"
)

// An agentChat is a direct chat of the person at the command line with an agent. Its messages
// come from cli:USER.chat-AGENT, and the agent answers there.
type agentChat struct {
	*busclient.Session
	self        protocol.PeerID
	person      string
	agent       protocol.PeerID
	interactive bool                    // a person types at a terminal
	replies     chan protocol.ChatReply // from the agent
	sent        []string                // IDs of the messages sent
	awaiting    []string                // IDs of the messages that await an answer
}

// runAgentChat sends text to an agent and prints its answer. Without text it sends each line of
// the input. With start, it starts the agent first if it is not connected.
func runAgentChat(cmd *cobra.Command, name, text string, start bool, wait time.Duration) error {
	env := program.From(cmd)
	person := busclient.PersonName(os.Getenv("USER"))
	t := &agentChat{
		person: person, agent: protocol.AgentID(
			strings.TrimPrefix(name, "agent:"),
		), replies: make(chan protocol.ChatReply, 64),
	}
	if err := protocol.CheckTopic(string(t.agent)); err != nil {
		return program.Usage("%q is not the name of an agent", name)
	}
	there := connectedPeers(cmd.Context(), env)
	t.self = protocol.PeerID("cli:" + person + directchat.Suffix(t.agent))
	for n := 2; there[string(t.self)]; n++ { // the same person may chat in another terminal
		t.self = protocol.PeerID(fmt.Sprintf("cli:%s.%d%s", person, n, directchat.Suffix(t.agent)))
	}
	var err error
	if t.Session, err = busclient.OpenWithHandler(cmd.Context(), env, t.self, t.receive); err != nil {
		return err
	}
	defer t.Close()
	if err := t.Call(
		cmd.Context(), protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(t.self)}, nil,
	); err != nil {
		return fmt.Errorf("subscribing to the agent's answers: %w", err)
	}
	away := there != nil && !there[string(t.agent)]
	if start && away {
		env.Tell("Starting %s.", t.agent)
		if err := busclient.StartAgent(cmd.Context(), env.PeerOptions(), t.self.Topic(), t.agent.Name()); err != nil {
			return fmt.Errorf("starting %s: %w", t.agent, err)
		}
		away = false
	}
	if text != "" {
		said := make(chan string, 1)
		said <- text
		close(said)
		return t.run(cmd, said, wait)
	}
	if t.interactive = term.IsTerminal(env.Stdin); t.interactive {
		env.Tell("This is a direct chat with %s. Type a line; Ctrl-D ends.", term.Printable(string(t.agent)))
		if away {
			env.Tell("It is not connected to this bus. `hubbub peers` lists the connected peers, and --start starts " +
				"the agent.")
		}
	}
	return t.run(cmd, term.ReadLines(cmd.Context(), env.Stdin), wait)
}

// connectedPeers returns the peers on the bus, or nil if the bus does not list them. Other buses
// of a cluster may have more.
func connectedPeers(ctx context.Context, env *program.Env) map[string]bool {
	list, err := busclient.Peers(ctx, env)
	if err != nil {
		return nil
	}
	there := map[string]bool{}
	for _, p := range list {
		there[p.ID] = true
	}
	return there
}

// receive handles a message from the agent. It runs in the goroutine that reads the connection.
func (t *agentChat) receive(conn *jsonrpc.Conn, m jsonrpc.Message) {
	var p protocol.ProcessParams
	var got protocol.Message
	var reply protocol.ChatReply
	said := json.Unmarshal(m.Params, &p) == nil && json.Unmarshal(p.Payload, &got) == nil && got.From == t.agent &&
		json.Unmarshal(got.Content, &reply) == nil && directchat.ReplyText(&reply) != ""
	if said {
		reply.InReplyTo = cmp.Or(reply.InReplyTo, string(got.InReplyTo))
		select {
		case t.replies <- reply:
		default: // nothing reads the channel any more
			conn.Reply(m.ID, []byte(`{"processed":false,"message":"the terminal does not read"}`))
			return
		}
	}
	busclient.Acknowledge(conn, m)
}

var errDisconnected = errors.New(
	"the bus closed the connection, or another `hubbub chat` that started at the same moment took it over",
)

// send sends a message and from then on awaits its answer.
func (t *agentChat) send(ctx context.Context, text string) error {
	m := directchat.NewMessage(t.self, t.person, text)
	var result protocol.SendResult
	t.sent, t.awaiting = append(t.sent, string(m.MessageID)), []string{string(m.MessageID)}
	switch err := t.Call(
		ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: t.agent.Topic(), Payload: m}, &result,
	); {
	case errors.Is(err, jsonrpc.ErrClosed):
		return t.noAnswer(errDisconnected)
	case err != nil:
		return fmt.Errorf("sending to %s: %w", t.agent, err)
	}
	return directchat.CheckSent(t.agent, &result)
}

// run sends each line and prints each reply until either side ends. If the input is not a
// terminal, it waits for the answer to the last line.
func (t *agentChat) run(cmd *cobra.Command, lines <-chan string, wait time.Duration) error {
	ctx := cmd.Context()
	ends := make(<-chan time.Time) // never fires
	var waiting *term.Progress
	defer func() { waiting.End() }()
	for {
		select {
		case line, more := <-lines:
			switch {
			case !more && (t.interactive || len(t.awaiting) == 0):
				return nil
			case !more:
				lines, ends = nil, time.After(wait)
				waiting = program.From(cmd).Progress("waiting for "+term.Printable(string(t.agent)), "", nil)
			case strings.TrimSpace(line) != "":
				if err := t.send(ctx, line); err != nil {
					return err
				}
			}
		case reply := <-t.replies:
			waiting.End()
			waiting = nil
			ours, answered := t.matchReply(&reply)
			if err := t.printReply(cmd, &reply, ours); err != nil || answered && lines == nil {
				return err
			}
		case <-ends:
			return t.noAnswer(fmt.Errorf("no answer within %s", view.Long(wait)))
		case <-ctx.Done():
			if t.interactive {
				return nil
			}
			return t.noAnswer(context.Cause(ctx))
		case <-t.Ended:
			return t.noAnswer(errDisconnected)
		}
	}
}

// matchReply reports whether a reply belongs to a message of this chat, and whether it answers
// the last one. If that message decided on an earlier message, or answered its question, the
// reply to the earlier one counts as the answer.
func (t *agentChat) matchReply(reply *protocol.ChatReply) (ours, answered bool) {
	if reply.Edits != "" {
		t.sent, t.awaiting = append(t.sent, reply.InReplyTo), append(t.awaiting, reply.InReplyTo)
		return true, false
	}
	if reply.Text != "" || !slices.Contains(interimSignals, reply.Signal) {
		if answered = slices.Contains(t.awaiting, reply.InReplyTo); answered {
			t.awaiting = nil
		}
	}
	return slices.Contains(t.sent, reply.InReplyTo), answered
}

// interimSignals are the signals after which an agent still answers.
var interimSignals = []string{
	string(attention.SignalSeen),
	string(attention.SignalWorking),
	string(attention.SignalQueued),
	string(attention.SignalClaimed),
}

// printReply prints a reply. A reply to some other message goes to standard error, unless a
// person reads all of them.
func (t *agentChat) printReply(cmd *cobra.Command, reply *protocol.ChatReply, ours bool) error {
	p := output.NewPrinter(cmd)
	said := term.Lines(directchat.ReplyText(reply), p.Columns)
	switch {
	case p.JSON:
		p.Value(reply)
	case t.interactive:
		p.Linef("%s %s", p.Paint(term.Green, t.agent.Name()+":"), said)
	case ours:
		p.Linef("%s", said)
	default:
		program.From(cmd).Tell("(to an earlier message) %s", said)
	}
	return p.Err
}

// noAnswer adds advice to the error of a chat without an answer.
func (t *agentChat) noAnswer(err error) error {
	if len(t.awaiting) == 0 {
		return err
	}
	return fmt.Errorf("%w; `hubbub why %s` shows what happened to the message", err, t.awaiting[0])
}
