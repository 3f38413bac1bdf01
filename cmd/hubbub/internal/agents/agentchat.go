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

// A typist has a direct chat as a person at the command line with an agent: its messages come
// from cli:USER.chat-AGENT, where the agent's answers go.
type typist struct {
	*busclient.Session
	self   protocol.PeerID
	person string
	agent  protocol.PeerID
	live   bool                    // a person types
	heard  chan protocol.ChatReply // what the agent says
	sent   []string                // messages
	awaits []string                // of these, and of what they decided: the answer to one is waited for
}

// chatWith talks to an agent of a running system: it sends text, or without a text each line
// that is typed, and prints what the agent answers. With start, an agent that is not there is
// started.
func chatWith(cmd *cobra.Command, name, text string, start bool, wait time.Duration) error {
	env := program.From(cmd)
	person := busclient.PersonName(os.Getenv("USER"))
	t := &typist{
		person: person, agent: protocol.PeerID("agent:" + strings.TrimPrefix(name, "agent:")), heard: make(chan protocol.ChatReply, 64),
	}
	if err := protocol.CheckTopic(string(t.agent)); err != nil {
		return program.Usage("%q is no name of an agent", name)
	}
	there := present(cmd.Context(), env)
	t.self = protocol.PeerID("cli:" + person + directchat.Suffix(t.agent))
	for n := 2; there[string(t.self)]; n++ { // this person talks to the agent in another terminal, too
		t.self = protocol.PeerID(fmt.Sprintf("cli:%s.%d%s", person, n, directchat.Suffix(t.agent)))
	}
	var err error
	if t.Session, err = busclient.OpenWithHandler(cmd.Context(), env, t.self, t.take); err != nil {
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
		return t.converse(cmd, said, wait)
	}
	if t.live = term.IsTerminal(env.Stdin); t.live {
		env.Tell("This is a direct chat with %s. Type a line; Ctrl-D ends.", term.Printable(string(t.agent)))
		if away {
			env.Tell("It is not connected to this bus now; `hubbub peers` lists who is, and --start starts it.")
		}
	}
	return t.converse(cmd, term.ReadLines(cmd.Context(), env.Stdin), wait)
}

// present returns who is on the bus, as far as it tells: another of its cluster may have more.
func present(ctx context.Context, env *program.Env) map[string]bool {
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

// take takes what the agent says. It runs in the connection's reader.
func (t *typist) take(conn *jsonrpc.Conn, m jsonrpc.Message) {
	var p protocol.ProcessParams
	var got protocol.Message
	var reply protocol.ChatReply
	said := json.Unmarshal(m.Params, &p) == nil && json.Unmarshal(p.Payload, &got) == nil && got.From == t.agent &&
		json.Unmarshal(got.Content, &reply) == nil && directchat.Spoken(&reply) != ""
	if said {
		reply.InReplyTo = cmp.Or(reply.InReplyTo, string(got.InReplyTo))
		select {
		case t.heard <- reply:
		default: // nobody reads any more
			conn.Reply(m.ID, []byte(`{"processed":false,"message":"the terminal does not read"}`))
			return
		}
	}
	busclient.Acknowledge(conn, m)
}

var errTakenOver = errors.New("the bus has ended the connection, or another `hubbub chat` that began at the same moment took it over")

// say sends one message, whose answer is waited for from now on.
func (t *typist) say(ctx context.Context, text string) error {
	m := directchat.Say(t.self, t.person, text)
	var result protocol.SendResult
	t.sent, t.awaits = append(t.sent, string(m.MessageID)), []string{string(m.MessageID)}
	switch err := t.Call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: t.agent.Topic(), Payload: m}, &result); {
	case errors.Is(err, jsonrpc.ErrClosed):
		return t.unanswered(errTakenOver)
	case err != nil:
		return fmt.Errorf("sending to %s: %w", t.agent, err)
	}
	return directchat.Taken(t.agent, &result)
}

// converse sends each of some lines, and prints what the agent says, until either side ends.
// Unless a person types, it waits for the answer to the last line.
func (t *typist) converse(cmd *cobra.Command, lines <-chan string, wait time.Duration) error {
	ctx := cmd.Context()
	ends := make(<-chan time.Time) // never
	var waiting *term.Progress
	defer func() { waiting.End() }()
	for {
		select {
		case line, more := <-lines:
			switch {
			case !more && (t.live || len(t.awaits) == 0):
				return nil
			case !more:
				lines, ends = nil, time.After(wait)
				waiting = program.From(cmd).Progress("waiting for "+term.Printable(string(t.agent)), "", nil)
			case strings.TrimSpace(line) != "":
				if err := t.say(ctx, line); err != nil {
					return err
				}
			}
		case reply := <-t.heard:
			waiting.End()
			waiting = nil
			ours, answered := t.hear(&reply)
			if err := t.show(cmd, &reply, ours); err != nil || answered && lines == nil {
				return err
			}
		case <-ends:
			return t.unanswered(fmt.Errorf("no answer within %s", view.Long(wait)))
		case <-ctx.Done():
			if t.live {
				return nil
			}
			return t.unanswered(context.Cause(ctx))
		case <-t.Ended:
			return t.unanswered(errTakenOver)
		}
	}
}

// hear reports whether a reply is to what was sent, and whether it answers the last of that. Where
// that decided something, or answered a question, of an earlier message, so does the reply to that.
func (t *typist) hear(reply *protocol.ChatReply) (ours, answered bool) {
	if reply.Edits != "" {
		t.sent, t.awaits = append(t.sent, reply.InReplyTo), append(t.awaits, reply.InReplyTo)
		return true, false
	}
	if reply.Text != "" || !slices.Contains(onTheWay, reply.Signal) {
		if answered = slices.Contains(t.awaits, reply.InReplyTo); answered {
			t.awaits = nil
		}
	}
	return slices.Contains(t.sent, reply.InReplyTo), answered
}

// onTheWay are the signals of an agent whose answer is still to come.
var onTheWay = []string{string(attention.SignalSeen), string(attention.SignalWorking), string(attention.SignalQueued), string(attention.SignalClaimed)}

// show prints what the agent said; what is no answer to what was sent goes beside, unless a person
// reads it all.
func (t *typist) show(cmd *cobra.Command, reply *protocol.ChatReply, ours bool) error {
	p := output.NewPrinter(cmd)
	said := term.Lines(directchat.Spoken(reply), p.Columns)
	switch {
	case p.JSON:
		p.Value(reply)
	case t.live:
		p.Linef("%s %s", p.Paint(term.Green, t.agent.Name()+":"), said)
	case ours:
		p.Linef("%s", said)
	default:
		program.From(cmd).Tell("(to an earlier message) %s", said)
	}
	return p.Err
}

// unanswered adds to an error where to look for an answer that did not come.
func (t *typist) unanswered(err error) error {
	if len(t.awaits) == 0 {
		return err
	}
	return fmt.Errorf("%w; `hubbub why %s` tells what became of the message", err, t.awaits[0])
}
