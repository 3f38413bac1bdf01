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

// contractTimeout is how long a turn waits for the newest contract before it begins
// with what stood at the announcement.
const contractTimeout = 3 * time.Second

// A broker is the collaboration broker as the agent deals with it: the mailbox tells
// it what happens to events (mailbox.Broker), turns ask it for the contract
// (turns.Broker), tools call it.
type broker struct {
	*collab.Client
	agent *Agent

	contract atomic.Value // string: of the last announcement
}

func newBroker(a *Agent) *broker {
	b := &broker{agent: a}
	b.Client = collab.New(a.id, a.peer.Send, &collab.Options{Remember: b.remember, Log: a.opts.Log})
	return b
}

// brokerSeenCounter is the mailbox's counter of when the broker was there.
const brokerSeenCounter = "broker_at"

func (b *broker) remember(ctx context.Context, at time.Time) error {
	return b.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.SetCounter(brokerSeenCounter, at.UnixMicro()) })
}

// recall makes a broker that the last run saw one that went away just now.
func (b *broker) recall(ctx context.Context) error {
	v := b.agent.mailbox.View(ctx)
	b.Recall(time.UnixMicro(v.Counter(brokerSeenCounter)))
	return v.Err()
}

// attend keeps the agent announced until ctx ends.
func (b *broker) attend(ctx context.Context) {
	o, roles := &b.agent.opts, []string{}
	for _, r := range o.Roles {
		roles = append(roles, strings.TrimPrefix(r, "role:"))
	}
	who := contract.AnnounceParams{
		LogicalAgentID: b.agent.id.Name(), HarnessType: o.HarnessType, WorkspaceID: o.WorkspaceID, ProjectPath: o.Workspace,
		Roles: roles, WakePolicy: o.WakePolicy,
	}
	b.Attend(ctx, who, func(ctx context.Context) {
		if text := b.askContract(ctx, &mailbox.Origin{}); text != "" {
			b.contract.Store(text)
		}
		b.syncObligations(ctx)
	})
}

// askContract asks the broker for the contract as it stands now, with the conversation
// and the work of a wake. It is empty if none came.
func (b *broker) askContract(ctx context.Context, o *mailbox.Origin) string {
	ctx, cancel := context.WithTimeout(ctx, contractTimeout)
	defer cancel()
	answer, err := contract.PromptContract.Ask(ctx, b, contract.PromptParams{
		AgentID: b.agent.id.Name(), HarnessType: b.agent.opts.HarnessType, ConversationID: o.ConversationID, WorkItemID: o.WorkItemID,
	})
	if err != nil {
		b.agent.opts.Log.Debug().Err(err).Msg("prompt contract not given by the broker")
	}
	return strings.TrimSpace(answer.Contract)
}

// Contract returns the text that tells the agent who it is and how it works with
// others: the broker's, which is then given, if there is one. If wake is not nil, the broker
// is asked for it as it stands now.
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
	text = "You are the agent " + name + " on a message bus. Others reach you as @" + name + ". You speak for nobody else."
	if len(o.Roles) > 0 {
		text += "\nYour roles: " + strings.Join(o.Roles, ", ") + "."
	}
	if o.Workspace != "" {
		text += "\nYour workspace is the folder " + o.Workspace + "."
	}
	return text, false
}
