package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/bus/report"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/cmd/internal/talk"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"github.com/spf13/cobra"
)

// A typist has a direct chat as a person at the command line with an agent: its messages come
// from cli:USER.chat-AGENT, where the agent's answers go.
type typist struct {
	*session
	self   protocol.PeerID
	person string
	agent  protocol.PeerID
	heard  chan protocol.ChatReply // what the agent says
}

// chatWith talks to an agent of a running system: it sends text and waits for the answer, or
// without a text each line that is typed. With start, an agent that is not there is started.
func chatWith(cmd *cobra.Command, name, text string, start bool, wait time.Duration) error {
	env := program.From(cmd)
	person := personName(os.Getenv("USER"))
	t := &typist{
		person: person, agent: protocol.PeerID("agent:" + strings.TrimPrefix(name, "agent:")), heard: make(chan protocol.ChatReply, 64),
	}
	if err := protocol.CheckTopic(string(t.agent)); err != nil {
		return program.Usage("%q is no name of an agent", name)
	}
	t.self = protocol.PeerID("cli:" + person + talk.Suffix(t.agent))
	var err error
	if t.session, err = openWith(cmd.Context(), env, t.self, t.take); err != nil {
		return err
	}
	defer t.close()
	if err := t.call(cmd.Context(), protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(t.self)}, nil); err != nil {
		return fmt.Errorf("listening for the agent's answers: %w", err)
	}
	if start && t.away(cmd.Context(), env) {
		fmt.Fprintf(env.Stderr, "Starting %s.\n", t.agent)
		if err := startAgent(cmd.Context(), env.PeerOptions(), t.self.Topic(), t.agent.Name()); err != nil {
			return fmt.Errorf("starting %s: %w", t.agent, err)
		}
	}
	if text != "" {
		return t.ask(cmd, text, wait)
	}
	return t.typed(cmd.Context(), env)
}

// take takes what the agent says. It runs in the connection's reader.
func (t *typist) take(conn *jsonrpc.Conn, m jsonrpc.Message) {
	var p protocol.ProcessParams
	var got protocol.Message
	var reply protocol.ChatReply
	said := json.Unmarshal(m.Params, &p) == nil && json.Unmarshal(p.Payload, &got) == nil && got.From == t.agent &&
		json.Unmarshal(got.Content, &reply) == nil && talk.Spoken(&reply) != ""
	if said {
		select {
		case t.heard <- reply:
		default: // nobody reads any more
			conn.Reply(m.ID, []byte(`{"processed":false,"message":"the terminal does not read"}`))
			return
		}
	}
	answerAnything(conn, m)
}

// say sends one message, and returns its id.
func (t *typist) say(ctx context.Context, text string) (protocol.MessageID, error) {
	m := talk.Say(t.self, t.person, text)
	var result protocol.SendResult
	if err := t.call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: t.agent.Topic(), Payload: m}, &result); err != nil {
		return "", fmt.Errorf("sending to %s: %w", t.agent, err)
	}
	if err := talk.Taken(t.agent, &result); err != nil {
		return "", err
	}
	return m.MessageID, nil
}

// ask sends one message, and prints what the agent answers to it.
func (t *typist) ask(cmd *cobra.Command, text string, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	id, err := t.say(ctx, text)
	if err != nil {
		return err
	}
	for {
		select {
		case reply := <-t.heard:
			if reply.InReplyTo != string(id) {
				continue // to an earlier message, or of its own accord
			}
			return printLine(cmd, reply, "%s", screen.Printable(talk.Spoken(&reply)))
		case <-ctx.Done():
			if cmd.Context().Err() != nil {
				return cmd.Context().Err()
			}
			return fmt.Errorf("no answer within %s; `hubbub why %s` may say why", wait, id)
		case <-t.ended:
			return errors.New("the bus has ended the connection before an answer came; ask again")
		}
	}
}

// away reports whether the bus has no such agent, as far as it tells: another of its cluster
// may have it.
func (t *typist) away(ctx context.Context, env *program.Env) bool {
	raw, _, err := fetch(ctx, env, http.MethodGet, "/peers", describeGet)
	var list []report.Peer
	return err == nil && json.Unmarshal(raw, &list) == nil &&
		!slices.ContainsFunc(list, func(p report.Peer) bool { return p.ID == string(t.agent) })
}

// typed sends each line that is typed, and prints what the agent says, until either side
// ends.
func (t *typist) typed(ctx context.Context, env *program.Env) error {
	stdin, ok := env.Stdin.(*os.File)
	if !ok {
		return errors.New("there is nothing to read lines from")
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	fmt.Fprintf(env.Stderr, "This is a direct chat with %s. Type a line; Ctrl-D ends.\n", screen.Printable(string(t.agent)))
	if t.away(ctx, env) {
		fmt.Fprintln(env.Stderr, "It is not connected to this bus now; `hubbub peers` lists who is, and --start starts it.")
	}
	paint := screen.NewPainter(env.Stdout)
	wg.Go(func() {
		for {
			select {
			case reply := <-t.heard:
				fmt.Fprintf(env.Stdout, "%s %s\n", paint.Paint(screen.Green, t.agent.Name()+":"), screen.Printable(talk.Spoken(&reply)))
			case <-t.ended:
				fmt.Fprintln(env.Stderr, "The bus has ended the connection; begin again with the same command.")
				cancel()
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return eachTyped(ctx, stdin, func(text string, _ bool) error {
		_, err := t.say(ctx, text)
		return err
	})
}
