package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"github.com/spf13/cobra"
)

// brokerPatience is how long a command waits for the collaboration broker.
const brokerPatience = 15 * time.Second

// A collab is one connection of a command to the collaboration broker.
type collab struct {
	*session
	id      protocol.PeerID
	results chan protocol.CollabResult
	asked   int
}

// A refusal is the broker's error. Its details are shown with --json.
type refusal struct{ protocol.CollabError }

func (r *refusal) Error() string {
	return fmt.Sprintf("%s (%s)", screen.Printable(r.Message), screen.Printable(r.Code))
}

// openCollab connects as a person. In records the person is called name; the part
// after the dot only tells this run from others.
func openCollab(ctx context.Context, env *program.Env, name string) (*collab, error) {
	if name == "" {
		name = personName(os.Getenv("USER"))
	}
	if name != personName(name) {
		return nil, program.Usage("--as %q must be a name of letters, digits, - and _, such as %q", name, personName(name))
	}
	c := &collab{
		id:      protocol.PeerID("cli:" + name + "." + strings.ToLower(rand.Text()[:10])),
		results: make(chan protocol.CollabResult, 16),
	}
	var err error
	if c.session, err = openWith(ctx, env, c.id, c.take); err != nil {
		return nil, err
	}
	if err := c.call(ctx, protocol.MethodSubscribe, protocol.SubscribeParams{Topic: string(c.id)}, nil); err != nil {
		c.close()
		return nil, fmt.Errorf("listening for the broker's answers: %w", err)
	}
	return c, nil
}

// personName makes a name for records out of a user's name.
func personName(user string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, user)
	if name = strings.Trim(name, "-"); name == "" {
		return "operator"
	}
	return name[:min(len(name), 48)]
}

// take keeps the broker's results. It runs in the connection's reader.
func (c *collab) take(conn *jsonrpc.Conn, m jsonrpc.Message) {
	var in struct {
		Payload protocol.Message `json:"payload"`
	}
	var r protocol.CollabResult
	if json.Unmarshal(m.Params, &in) == nil && in.Payload.Type == protocol.TypeCollabResult &&
		in.Payload.From == protocol.PeerBroker && json.Unmarshal(in.Payload.Content, &r) == nil {
		select {
		case c.results <- r:
		default: // nobody asked that much
		}
	}
	conn.Reply(m.ID, []byte(`{"processed":true}`))
}

// ask sends one request and decodes its result into out, unless out is nil.
func (c *collab) ask(ctx context.Context, method string, params, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, brokerPatience, fmt.Errorf("the broker did not answer within %s", brokerPatience))
	defer cancel()
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	c.asked++
	request := protocol.CollabRequest{Method: method, Params: raw, RequestID: fmt.Sprintf("%s-%d", c.id.Name(), c.asked)}
	var sent protocol.SendResult
	err = c.call(ctx, protocol.MethodSendMessage, protocol.SendParams{
		Topic: protocol.TopicBroker, Payload: protocol.NewMessage(protocol.TypeCollabRequest, c.id, request),
	}, &sent)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("asking the broker: %w", err)
	case sent.Addressee == protocol.AddresseeAbsent:
		return errors.New("no collaboration broker is on the bus; start hubbub-broker, or put [broker] into the file of `hubbub up`")
	case sent.Addressee == protocol.AddresseeFailed:
		return fmt.Errorf("the broker did not take the request: %s", screen.Printable(fmt.Sprint(sent.Failures)))
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r := <-c.results:
			if r.RequestID == request.RequestID {
				return readResult(r, out)
			}
		}
	}
}

func readResult(r protocol.CollabResult, out any) error {
	if !r.OK && r.Error == nil {
		return errors.New("the broker refused without a reason")
	}
	if !r.OK {
		return &refusal{*r.Error}
	}
	if out == nil {
		return nil
	}
	return readAnswer(r.Result, out)
}

// readAnswer decodes what the broker sent.
func readAnswer(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the broker's answer is not what was expected: %w", err)
	}
	return nil
}

// pages asks for a list page by page, and returns all its items.
func (c *collab) pages(ctx context.Context, method, name string, params map[string]any) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for {
		var page map[string]json.RawMessage
		if err := c.ask(ctx, method, params, &page); err != nil {
			return nil, err
		}
		var items []json.RawMessage
		var next *string
		if err := errors.Join(readAnswer(page[name], &items), readAnswer(page["next"], &next)); err != nil {
			return nil, err
		}
		all = append(all, items...)
		if next == nil || len(items) == 0 {
			return all, nil
		}
		params["after"] = *next
	}
}

// printList shows the records of a list that keep wants: with --json each as the
// broker wrote it, one a line, else all of them with show.
func printList[T any](cmd *cobra.Command, list []json.RawMessage, keep func(*T) bool, show func(out io.Writer, kept []T) error) error {
	out := cmd.OutOrStdout()
	var kept []T
	for _, raw := range list {
		var item T
		if err := readAnswer(raw, &item); err != nil {
			return err
		}
		if !keep(&item) {
			continue
		}
		kept = append(kept, item)
		if asJSON(cmd) {
			if _, err := fmt.Fprintln(out, string(raw)); err != nil {
				return err
			}
		}
	}
	if asJSON(cmd) {
		return nil
	}
	return show(out, kept)
}

// sinceText says how long ago a time of the broker's was.
func sinceText(at string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return ago(now.Sub(t)) + " ago"
}

// withCollab runs a command with a connection to the broker. With --json a refusal
// goes to standard output too, with its details.
func withCollab(cmd *cobra.Command, as string, run func(ctx context.Context, c *collab) error) error {
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), 4*brokerPatience, errors.New("the bus did not answer in time"))
	defer cancel()
	c, err := openCollab(ctx, program.From(cmd), as)
	if err != nil {
		return err
	}
	defer c.close()
	err = run(ctx, c)
	var refused *refusal
	if errors.As(err, &refused) && asJSON(cmd) {
		return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"error": refused.CollabError}), err)
	}
	return err
}
