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

// A agentChat has a direct chat as a person at the command line with an agent: its messages come
// from cli:USER.chat-AGENT, where the agent's answers go.
type agentChat struct {
	*busclient.Session
	self        protocol.PeerID
	person      string
	agent       protocol.PeerID
	interactive bool                    // a person types
	replies     chan protocol.ChatReply // what the agent says
	sent        []string                // messages
	awaiting    []string                // of these, and of what they decided: the answer to one is waited for
}

// runAgentChat talks to an agent of a running system: it sends text, or without a text each line
// that is typed, and prints what the agent answers. With start, an agent that is not there is
// started.
func runAgentChat(cmd *cobra.Command, name, text string, start bool, wait time.Duration) error {
	env := program.From(cmd)
	person := busclient.PersonName(os.Getenv("USER"))
	t := &agentChat{
		person: person, agent: protocol.PeerID("agent:" + strings.TrimPrefix(name, "agent:")), replies: make(chan protocol.ChatReply, 64),
	}
	if err := protocol.CheckTopic(string(t.agent)); err != nil {
		return program.Usage("%q is no name of an agent", name)
	}
	there := connectedPeers(cmd.Context(), env)
	t.self = protocol.PeerID("cli:" + person + directchat.Suffix(t.agent))
	for n := 2; there[string(t.self)]; n++ { // this person talks to the agent in another terminal, too
		t.self = protocol.PeerID(fmt.Sprintf("cli:%s.%d%s", person, n, directchat.Suffix(t.agent)))
	}
	var err error
	if t.Session, err = busclient.OpenWithHandler(cmd.Context(), env, t.self, t.receive); err != nil {
		return err
	}
	defer t.Close()
	if err := t.Call(cmd.Context(), protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(t.self)}, nil); err != nil {
		return fmt.Errorf("listening for the agent's answers: %w", err)
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
			env.Tell("It is not connected to this bus now; `hubbub peers` lists who is, and --start starts it.")
		}
	}
	return t.run(cmd, term.ReadLines(cmd.Context(), env.Stdin), wait)
}

// connectedPeers returns who is on the bus, as far as it tells: another of its cluster may have more.
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

// receive takes what the agent says. It runs in the connection's reader.
func (t *agentChat) receive(conn *jsonrpc.Conn, m jsonrpc.Message) {
	var p protocol.ProcessParams
	var got protocol.Message
	var reply protocol.ChatReply
	said := json.Unmarshal(m.Params, &p) == nil && json.Unmarshal(p.Payload, &got) == nil && got.From == t.agent &&
		json.Unmarshal(got.Content, &reply) == nil && directchat.Spoken(&reply) != ""
	if said {
		reply.InReplyTo = cmp.Or(reply.InReplyTo, string(got.InReplyTo))
		select {
		case t.replies <- reply:
		default: // nobody reads any more
			conn.Reply(m.ID, []byte(`{"processed":false,"message":"the terminal does not read"}`))
			return
		}
	}
	busclient.Acknowledge(conn, m)
}

var errDisconnected = errors.New("the bus has ended the connection, or another `hubbub chat` that began at the same moment took it over")

// send sends one message, whose answer is waited for from now on.
func (t *agentChat) send(ctx context.Context, text string) error {
	m := directchat.Say(t.self, t.person, text)
	var result protocol.SendResult
	t.sent, t.awaiting = append(t.sent, string(m.MessageID)), []string{string(m.MessageID)}
	switch err := t.Call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: t.agent.Topic(), Payload: m}, &result); {
	case errors.Is(err, jsonrpc.ErrClosed):
		return t.noAnswer(errDisconnected)
	case err != nil:
		return fmt.Errorf("sending to %s: %w", t.agent, err)
	}
	return directchat.Taken(t.agent, &result)
}

// run sends each of some lines, and prints what the agent says, until either side ends.
// Unless a person types, it waits for the answer to the last line.
func (t *agentChat) run(cmd *cobra.Command, lines <-chan string, wait time.Duration) error {
	ctx := cmd.Context()
	ends := make(<-chan time.Time) // never
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

// matchReply reports whether a reply is to what was sent, and whether it answers the last of that. Where
// that decided something, or answered a question, of an earlier message, so does the reply to that.
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

// interimSignals are the signals of an agent whose answer is still to come.
var interimSignals = []string{string(attention.SignalSeen), string(attention.SignalWorking), string(attention.SignalQueued), string(attention.SignalClaimed)}

// printReply prints what the agent said; what is no answer to what was sent goes beside, unless a person
// reads it all.
func (t *agentChat) printReply(cmd *cobra.Command, reply *protocol.ChatReply, ours bool) error {
	p := output.NewPrinter(cmd)
	said := term.Lines(directchat.Spoken(reply), p.Columns)
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

// noAnswer adds to an error where to look for an answer that did not come.
func (t *agentChat) noAnswer(err error) error {
	if len(t.awaiting) == 0 {
		return err
	}
	return fmt.Errorf("%w; `hubbub why %s` tells what became of the message", err, t.awaiting[0])
}
