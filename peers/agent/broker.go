package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/collab"
	contract "hubbub/protocol/collab"
)

// contractTimeout is how long a turn waits for the current contract before it uses the one of the
// last announcement.
const contractTimeout = 3 * time.Second

// A broker connects the agent to the collaboration broker. The mailbox reports events to it
// (mailbox.Broker), turns ask it for the contract (turns.Broker), and tools call it.
type broker struct {
	*collab.Client
	agent *Agent

	contract atomic.Value // string, from the last announcement
}

func newBroker(a *Agent) *broker {
	b := &broker{agent: a}
	b.Client = collab.New(a.id, a.peer.Send, &collab.Options{Remember: b.remember, Log: a.opts.Log})
	return b
}

// brokerSeenCounter is the mailbox's counter with the time when the broker was last available.
const brokerSeenCounter = "broker_at"

func (b *broker) remember(ctx context.Context, at time.Time) error {
	return b.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.SetCounter(brokerSeenCounter, at.UnixMicro()) })
}

// recall treats a broker that the last run saw as one that was available recently.
func (b *broker) recall(ctx context.Context) error {
	v := b.agent.mailbox.View(ctx)
	b.Recall(time.UnixMicro(v.Counter(brokerSeenCounter)))
	return v.Err()
}

// attend keeps the agent announced at the broker until ctx ends.
func (b *broker) attend(ctx context.Context) {
	o, roles := &b.agent.opts, []string{}
	for _, r := range o.Roles {
		roles = append(roles, strings.TrimPrefix(r, "role:"))
	}
	who := contract.AnnounceParams{
		LogicalAgentID: b.agent.id.Name(), HarnessType: o.HarnessType, WorkspaceID: o.WorkspaceID,
		ProjectPath: o.Workspace,
		Model:       o.ModelName, Node: o.Node,
		Aliases: o.Aliases, Roles: roles, WakePolicy: o.WakePolicy,
	}
	b.Attend(ctx, who, func(ctx context.Context) {
		if text := b.askContract(ctx, &mailbox.Origin{}); text != "" {
			b.contract.Store(text)
		}
		b.syncObligations(ctx)
	})
}

// askContract asks the broker for the current contract with the conversation and work item of a
// wake. It returns "" on failure.
func (b *broker) askContract(ctx context.Context, o *mailbox.Origin) string {
	ctx, cancel := context.WithTimeout(ctx, contractTimeout)
	defer cancel()
	answer, err := contract.PromptContract.Ask(ctx, b, contract.PromptParams{
		AgentID: b.agent.id.Name(), HarnessType: b.agent.opts.HarnessType, ConversationID: o.ConversationID,
		WorkItemID: o.WorkItemID,
	})
	if err != nil {
		b.agent.opts.Log.Debug().Err(err).Msg("prompt contract not received from the broker")
	}
	return strings.TrimSpace(answer.Contract)
}

// Contract returns the text that explains to the agent who it is and how it works with others.
// given reports whether it is the broker's. If wake is not nil, the broker is asked for the
// current contract.
func (b *broker) Contract(ctx context.Context, wake *mailbox.Origin) (text string, given bool) {
	if wake != nil && b.Known() {
		if text := b.askContract(ctx, wake); text != "" {
			return text, true
		}
	}
	if text, ok := b.contract.Load().(string); ok && b.Seen() {
		return text, true
	}
	o, name := &b.agent.opts, b.agent.id.Name()
	text = "You are the agent " + name + " on a message bus. Others reach you as @" + name +
		strings.Join(append([]string{""}, o.Aliases...), ", @") + ". You speak for nobody else."
	if len(o.Roles) > 0 {
		text += "\nYour roles: " + strings.Join(o.Roles, ", ") + "."
	}
	if o.Workspace != "" {
		text += "\nYour workspace is the folder " + o.Workspace + "."
	}
	return text, false
}
