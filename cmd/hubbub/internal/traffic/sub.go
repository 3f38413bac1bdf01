package traffic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
	"hubbub/protocol/wire"

	"github.com/spf13/cobra"
)

// NewSub returns the command `hubbub sub`.
func NewSub() *cobra.Command {
	var (
		limit int
		as    string
	)
	cmd := &cobra.Command{
		Use:   "sub PATTERN...",
		Short: "Show messages as they are sent",
		Long: "Show every message whose topic matches a pattern, until interrupted. It only watches: senders do\n" +
			"not wait for it, and it does not count as a subscriber. It survives restarts of the bus but\n" +
			"misses messages sent meanwhile; `hubbub tail` reads the log instead.",
		Example: "  hubbub sub 'tg:*' 'agent:*'\n  hubbub sub '*' --json | jq .payload.type",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.EachAlone(
				args, "give each pattern as a separate argument, as in hubbub sub 'tg:*' 'agent:*'",
			); err != nil {
				return err
			}
			return subscribe(cmd, cmp.Or(protocol.PeerID(as), busclient.NewID("sub")), args, limit)
		},
	}
	cmd.Flags().IntVarP(&limit, "count", "n", 0, "end after this many messages (0: never)")
	cmd.Flags().StringVar(&as, "as", "", "identity to watch as (default: a new one, cli:sub-...)")
	return cmd
}

func subscribe(cmd *cobra.Command, id protocol.PeerID, patterns []string, limit int) error {
	env := program.From(cmd)
	var list []protocol.Pattern
	for _, p := range patterns {
		list = append(list, protocol.Pattern(p))
	}
	ctx, stop := context.WithCancel(cmd.Context())
	defer stop()

	options := env.PeerOptions()
	options.Concurrency = 1 // print messages one at a time
	options.Log = nil       // the reporter reports connections
	lost := &connectionReporter{w: env.Stderr}
	options.OnConnect = func(context.Context) { lost.connected(patterns) }
	options.OnDisconnect = lost.dropped
	p := peer.New(id, options)
	shown := &messagePrinter{Printer: output.NewPrinter(cmd), limit: limit, stop: stop}
	p.HandleAny(shown.show)
	if err := p.Observe(ctx, list...); err != nil {
		return err
	}
	token, err := env.Token()
	if err == nil {
		err = lost.checkReachable(ctx, env.Buses, token)
	}
	if err != nil {
		return err
	}
	return errors.Join(p.Run(ctx), shown.Err)
}

// A connectionReporter reports changes of the connection on standard error.
type connectionReporter struct {
	mu       sync.Mutex
	w        io.Writer
	reported bool // the missing connection was reported
}

// checkReachable reports at the start that no bus answers. The peer itself retries silently.
func (a *connectionReporter) checkReachable(ctx context.Context, buses []string, token string) error {
	var failures []error
	for _, bus := range buses {
		err := busclient.CheckReachable(ctx, bus, token)
		if err == nil {
			return nil
		}
		failures = append(failures, err)
		if status, ok := errors.AsType[*wire.StatusError](err); ok && status.Code == http.StatusUnauthorized {
			return err // waiting does not help
		}
	}
	if ctx.Err() == nil {
		fmt.Fprintf(a.w, "%s; waiting for it\n", term.Printable(fmt.Sprint(errors.Join(failures...))))
		a.mu.Lock()
		defer a.mu.Unlock()
		a.reported = true
	}
	return nil
}

func (a *connectionReporter) connected(patterns []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reported = false
	fmt.Fprintf(a.w, "watching %s\n", term.Printable(strings.Join(patterns, ", ")))
}

func (a *connectionReporter) dropped(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.reported {
		fmt.Fprintf(a.w, "no connection to the bus; retrying (%s)\n", term.Printable(fmt.Sprint(err)))
	}
	a.reported = true
}

// A messagePrinter prints the messages of a subscription.
type messagePrinter struct {
	*output.Printer
	limit int // 0 means no limit
	shown int
	stop  func() // ends the subscription
}

// show prints a message. The peer calls it for one message at a time.
func (s *messagePrinter) show(_ context.Context, d *peer.Delivery) error {
	if s.limit > 0 && s.shown >= s.limit {
		return nil
	}
	line := messageLine(d, time.Now())
	if s.JSON {
		// The payload is printed as it was sent. A line break in it can only be white space
		// between tokens, so a blank may replace it.
		topic := jsonrpc.AppendString(nil, string(d.Topic))
		line = fmt.Sprintf(`{"topic":%s,"payload":%s}`, topic, bytes.ReplaceAll(d.Raw, []byte("\n"), []byte(" ")))
	}
	s.Linef("%s", line)
	if s.shown++; s.shown == s.limit || s.Err != nil {
		s.stop()
	}
	return nil
}

// messageLine formats a message as one line.
func messageLine(d *peer.Delivery, now time.Time) string {
	m := d.Message
	to := ""
	if d.Topic != m.From.Topic() {
		to = " → " + string(d.Topic)
	}
	content := string(m.Content)
	var chat protocol.ChatMessage
	if err := json.Unmarshal(m.Content, &chat); err == nil && chat.Text != "" {
		content = chat.Text
	}
	return fmt.Sprintf("%s  %-15s %s%s  %s", now.Format("15:04:05.000 MST"), term.Printable(string(m.Type)),
		term.Printable(string(m.From)), term.Printable(to), text.Clip(term.Printable(content), 500))
}
