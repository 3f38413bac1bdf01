package activity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// NewTrace returns the command `hubbub trace`.
func NewTrace() *cobra.Command {
	var (
		within time.Duration
		limit  int
		alone  bool
	)
	cmd := &cobra.Command{
		Use:   "trace MESSAGE",
		Short: "Show one message from end to end, and what it caused",
		Long: "Show what happened to one message: when it was sent, how long each peer took, and what each peer\n" +
			"answered. Show also its causes, and every message that it caused, as bars on one time axis.\n" +
			"MESSAGE is a message ID or, for a chat message, its sourceId (tg:<bot>:<chat>:<message>). A\n" +
			"sourceId shows each message that carried the chat message to an agent.\n\n" +
			"Messages are linked by inReplyTo, traceparent and the IDs in their contents.",
		Example: "  hubbub trace msg_01J9Z3X5Q2W8\n  hubbub trace tg:42:-100123:7\n  hubbub trace msg_01J9Z3X5Q2W8 " +
			"--json | jq .caused",
	}
	cmd.Flags().DurationVar(
		&within, "within", 15*time.Minute, "how far before and after the message to look for causes and effects",
	)
	cmd.Flags().IntVar(&limit, "limit", 200, "maximum number of messages")
	cmd.Flags().BoolVar(&alone, "alone", false, "show only the message, not what it caused")
	cmd.RunE = logs.AddFlag(cmd).Run(func(cmd *cobra.Command, r *read.Reader, args []string) error {
		progress := logs.Progress(cmd)
		defer progress.End()
		ids, err := messageIDs(cmd.Context(), r, logs.ExpandID(cmd.Context(), r, args[0]))
		if err != nil {
			return err
		}
		p := output.NewPrinter(cmd)
		for i, id := range ids {
			var found *chain.Chain
			if alone {
				var m *read.Message
				m, err = r.Message(cmd.Context(), id)
				found = &chain.Chain{Steps: []chain.Step{{Message: m}}}
			} else {
				found, err = chain.Find(cmd.Context(), r, id, &chain.Options{Within: within, Limit: limit})
			}
			progress.End()
			switch {
			case errors.Is(err, read.ErrUnknownMessage):
				return fmt.Errorf("%w; hubbub tail shows message IDs, and --log reads other logs", err)
			case err != nil:
				return err
			case p.JSON:
				p.Value(describeChain(found))
				continue
			case i > 0:
				p.Linef("")
			}
			printChain(p, found, logs.Titles(cmd.Context(), r))
		}
		return p.Err
	})
	return cmd
}

// messageIDs returns the messages that a name stands for, oldest first: the message with that ID,
// or the messages that carried the chat event with that ID to agents.
func messageIDs(ctx context.Context, r *read.Reader, name string) (ids []string, err error) {
	if _, err := r.Message(ctx, name); errors.Is(err, read.ErrUnknownMessage) {
		err = r.ChatEvents(ctx, read.AttentionFilter{EventID: name}, func(c *activitylog.ChatEvent) error {
			if !slices.Contains(ids, c.MessageID) {
				ids = append(ids, c.MessageID)
			}
			return nil
		})
		if err != nil || len(ids) > 0 {
			return ids, err
		}
	}
	return []string{name}, nil
}

// A tracedStep is a step of a chain as JSON.
type tracedStep struct {
	MessageID string              `json:"messageId"`
	Type      string              `json:"type"`
	From      string              `json:"from"`
	Topic     string              `json:"topic"`
	Depth     int                 `json:"depth"`
	Cause     string              `json:"cause,omitempty"`
	Reason    string              `json:"reason,omitempty"`
	Start     time.Time           `json:"start"`
	End       time.Time           `json:"end"`
	Status    string              `json:"status"` // of the last publication; "rejected"; empty while in progress
	Payload   json.RawMessage     `json:"payload"`
	Passes    []tracedPublication `json:"passes"`
	Refusals  []tracedDelivery    `json:"refusals,omitempty"`
}

type tracedPublication struct {
	tracedLeg
	Result     json.RawMessage  `json:"result"`
	Deliveries []tracedDelivery `json:"deliveries"`
}

type tracedDelivery struct {
	Peer string `json:"peer"`
	tracedLeg
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

type tracedLeg struct {
	Bus        string     `json:"bus,omitempty"`
	Start      *time.Time `json:"start"`
	Finish     *time.Time `json:"finish"`
	DurationUS int64      `json:"durationUs,omitempty"`
	Status     string     `json:"status"`
}

// A tracedChain is the JSON output of trace.
type tracedChain struct {
	Message *tracedStep  `json:"message"`
	Causes  []tracedStep `json:"causes"` // from the root cause to the direct cause
	Caused  []tracedStep `json:"caused"` // each followed by what it caused
	Cut     bool         `json:"cut,omitempty"`
}

func describeChain(c *chain.Chain) tracedChain {
	t := tracedChain{Causes: []tracedStep{}, Caused: []tracedStep{}, Cut: c.Cut}
	for _, s := range c.Causes {
		t.Causes = append(t.Causes, describeStep(s))
	}
	for i, s := range c.Steps {
		step := describeStep(s)
		if i == 0 {
			t.Message = &step
		} else {
			t.Caused = append(t.Caused, step)
		}
	}
	return t
}

func describeStep(s chain.Step) tracedStep {
	t := tracedStep{
		MessageID: s.ID, Type: s.Type, From: s.From, Topic: s.Topic, Depth: s.Depth, Cause: s.Cause, Reason: s.Reason,
		Start: s.Begin(), End: s.End(), Status: s.Status(), Payload: validOrNull(s.Payload),
		Passes: []tracedPublication{},
	}
	for _, p := range s.Publications {
		pass := tracedPublication{describeLeg(p.Leg), validOrNull(p.Result), []tracedDelivery{}}
		for _, d := range p.Deliveries {
			pass.Deliveries = append(pass.Deliveries,
				tracedDelivery{d.Peer, describeLeg(d.Leg), validOrNull(d.Answer), d.Error})
		}
		t.Passes = append(t.Passes, pass)
	}
	for _, e := range s.Refusals {
		at := e.Time()
		leg := describeLeg(activitylog.Leg{Bus: e.Bus, Start: at, Finish: at, Status: activitylog.Rejected.String()})
		t.Refusals = append(t.Refusals, tracedDelivery{Peer: e.Actor, tracedLeg: leg, Error: e.Error})
	}
	return t
}

func describeLeg(l activitylog.Leg) tracedLeg {
	return tracedLeg{l.Bus, nilIfZero(l.Start), nilIfZero(l.Finish), l.Duration().Microseconds(), l.Status}
}

func validOrNull(raw json.RawMessage) json.RawMessage {
	if !json.Valid(raw) || !utf8.Valid(raw) {
		return nil
	}
	return raw
}

func nilIfZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// printChain draws a chain as text.
func printChain(p *output.Printer, c *chain.Chain, titles *view.Titles) {
	self := c.Steps[0]
	p.Linef(
		"%s  %s  %s",
		p.Paint(term.Bold, term.Printable(self.ID)),
		p.Paint(term.Cyan, term.Printable(self.Type)),
		route(titles.Called(self.From), titles.Called(self.Topic)),
	)
	p.Linef("%s", p.Paint(term.Dim, self.Begin().Local().Format("Mon 2 Jan 2006 15:04:05.000000 MST")))
	if detail := view.Full.Message(self.Payload); detail != "" {
		p.Linef("%s", text.Clip(term.Printable(detail), max(p.Columns, 100)))
	}
	p.Linef("\n%s", strings.Join(newWaterfall(c, titles, p.Painter, p.Columns).lines(), "\n"))
	if c.Cut {
		p.Linef("%s", p.Paint(term.Yellow, "there are more messages: see --limit and --within"))
	}
}

func route(from, topic string) string {
	if protocol.PeerID(from).Topic() == protocol.Topic(topic) {
		return term.Printable(from)
	}
	return term.Printable(from + " → " + topic)
}
