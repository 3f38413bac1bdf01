package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"strings"
	"sync"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// recordTimeout bounds the wait for an agent's record of what it stopped.
const recordTimeout = 5 * time.Second

// NewHalt returns the command `hubbub halt`.
func NewHalt() *cobra.Command {
	return &cobra.Command{
		Use:   "halt [CHAT|AGENT]",
		Short: "Stop the turns of a chat, of an agent or of all agents",
		Long: "Stop running turns at once and prevent new ones until `hubbub resume`. CHAT is the topic of a\n" +
			"chat, such as tg:42; AGENT is an agent, such as agent:lead. Without an argument, it halts all\n" +
			"connected agents. Each agent reports the events that it was working on. New messages are logged\n" +
			"but not answered; each chat is notified once. A halt survives restarts. In a chat, people write\n" +
			"/halt.",
		Example: "  hubbub halt\n  hubbub halt tg:-100123\n  hubbub halt agent:lead",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return sendHalts(cmd, "on", args) },
	}
}

// NewResume returns the command `hubbub resume`.
func NewResume() *cobra.Command {
	var budget bool
	cmd := &cobra.Command{
		Use:   "resume [CHAT|AGENT]",
		Short: "Resume the turns that `hubbub halt` stopped",
		Long: "Let turns run again after `hubbub halt` with the same argument, or after /halt in a chat.\n" +
			"Stopped turns are not started again: ask again if you still want an answer. With --budget, an\n" +
			"agent that has used up a budget continues: what it has spent so far (`hubbub stats --spent`) no\n" +
			"longer counts. The limits stay; [agent] budget-turns and similar settings change them.",
		Example: "  hubbub resume\n  hubbub resume tg:-100123\n  hubbub resume agent:lead --budget",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if budget {
				return sendHalts(cmd, "anew", args)
			}
			return sendHalts(cmd, "off", args)
		},
	}
	cmd.Flags().BoolVar(&budget, "budget", false, "reset the budgets of an agent, or of all agents; halts stay")
	return cmd
}

// sendHalts sends the change to each agent concerned and prints the records of the agents.
func sendHalts(cmd *cobra.Command, halt string, args []string) error {
	env := program.From(cmd)
	var scope protocol.Topic // empty means each agent's own topic
	agents, err := connectedAgents(cmd.Context(), env)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		scope = protocol.Topic(args[0])
		switch family := protocol.PeerID(scope).Family(); {
		case protocol.CheckTopic(args[0]) != nil || family != "" && family != "agent" &&
			!protocol.IsChat(protocol.PeerID(scope)):
			return program.Usage("%q is neither a chat nor an agent: give a topic such as tg:42 or agent:lead", args[0])
		case halt == "anew" && family != "agent" && family != "":
			return program.Usage("only an agent has a budget: %q is a chat", args[0])
		case family == "agent" || family == "":
			agents, scope = []protocol.PeerID{protocol.PeerID(busclient.AgentID(args[0]))}, ""
		}
	}
	if len(agents) == 0 {
		return errors.New("no agent is connected")
	}
	received := &haltRecords{byMessage: map[protocol.MessageID]chan protocol.HaltRecord{}}
	id := busclient.NewID("halt")
	s, err := busclient.OpenWithHandler(cmd.Context(), env, id, received.receive)
	if err != nil {
		return err
	}
	defer s.Close()
	watch := protocol.SubscribeParams{Topic: string(protocol.TopicAttention), Observe: true}
	if err := s.Call(cmd.Context(), protocol.MethodSubscribe, watch, nil); err != nil {
		return fmt.Errorf("subscribing to the records of agents: %w", err)
	}
	records, failures := make([]protocol.HaltRecord, len(agents)), make([]error, len(agents))
	var wg sync.WaitGroup
	for i, agent := range agents { // concurrently, so that a slow agent does not delay the others
		wg.Go(func() {
			records[i], failures[i] = sendHalt(cmd.Context(), s, received, id, agent, cmp.Or(scope, agent.Topic()),
				halt)
		})
	}
	wg.Wait()
	var failed []string
	titles := logs.TitlesFor(cmd)
	for i, agent := range agents {
		if failures[i] != nil {
			failed = append(failed, fmt.Sprintf("%s: %s", agent, failures[i]))
			continue
		}
		if err := output.Line(cmd, records[i], "%s", titles.Within(describeHalt(&records[i]))); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return errors.New("not reached: " + strings.Join(failed, "; "))
	}
	return nil
}

// describeHalt describes what an agent did.
func describeHalt(r *protocol.HaltRecord) string {
	if r.State == protocol.HaltBudgetReset {
		return term.Printable(string(r.Agent)) + " has reset its budgets"
	}
	line := fmt.Sprintf("%s %s", r.Agent, r.State)
	if r.Scope != r.Agent.Topic() {
		line += " in " + string(r.Scope)
	}
	if r.State == "halted" {
		line += ": " + text.Counted(len(r.Stopped), "turn") + " stopped"
	}
	for _, event := range r.Stopped {
		line += "\n  " + event
	}
	return term.Printable(line)
}

// connectedAgents returns the agents that are connected.
func connectedAgents(ctx context.Context, env *program.Env) (agents []protocol.PeerID, err error) {
	list, err := busclient.Peers(ctx, env)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if id := protocol.PeerID(p.ID); protocol.RoleOf(id) == protocol.RoleAgent {
			agents = append(agents, id)
		}
	}
	return agents, nil
}

// sendHalt sends the change to one agent and returns the agent's record.
func sendHalt(
	ctx context.Context,
	s *busclient.Session,
	received *haltRecords,
	id, agent protocol.PeerID,
	scope protocol.Topic,
	halt string,
) (r protocol.HaltRecord, err error) {
	by := string(id)
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	m := protocol.NewMessage(protocol.TypeConfigure, id, protocol.Configure{TalkTo: scope, Halt: halt, By: by})
	said := received.expect(m.MessageID)
	ctx, cancel := context.WithTimeoutCause(ctx, 4*recordTimeout, errors.New("it did not answer in time"))
	defer cancel()
	var result protocol.SendResult
	err = s.Call(ctx, protocol.MethodSendMessage, protocol.SendParams{Topic: agent.Topic(), Payload: m}, &result)
	switch {
	case err != nil:
		return r, err
	case len(result.Failures) > 0:
		return r, errors.New(cmp.Or(result.Failures[0].Error, string(result.Failures[0].Status)))
	case result.Addressee != protocol.AddresseeOK:
		return r, errors.New("it is not connected; repeat the command when it is")
	}
	select {
	case r = <-said:
	case <-time.After(recordTimeout): // the agent has the message; its record is still on the way
		r = protocol.HaltRecord{
			Event: protocol.RecordHalt,
			Agent: agent,
			State: map[string]string{"on": "halted", "off": "resumed", "anew": protocol.HaltBudgetReset}[halt],
			Scope: scope,
			By:    by,
		}
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	return r, nil
}

// haltRecords receives the records of agents, keyed by the message that caused each.
type haltRecords struct {
	mu        sync.Mutex // guards byMessage
	byMessage map[protocol.MessageID]chan protocol.HaltRecord
}

func (h *haltRecords) expect(id protocol.MessageID) <-chan protocol.HaltRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	said := make(chan protocol.HaltRecord, 1)
	h.byMessage[id] = said
	return said
}

// receive acknowledges a message and keeps it if it is the record of a halt.
func (h *haltRecords) receive(c *jsonrpc.Conn, m jsonrpc.Message) {
	busclient.Acknowledge(c, m)
	var params struct {
		Payload struct {
			InReplyTo protocol.MessageID  `json:"inReplyTo"`
			Content   protocol.HaltRecord `json:"content"`
		} `json:"payload"`
	}
	if json.Unmarshal(m.Params, &params) != nil || params.Payload.Content.Event != protocol.RecordHalt {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if said := h.byMessage[params.Payload.InReplyTo]; said != nil {
		select {
		case said <- params.Payload.Content:
		default: // already received
		}
	}
}
