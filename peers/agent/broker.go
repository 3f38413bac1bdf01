package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/collab"
	"hubbub/protocol"
	contract "hubbub/protocol/collab"
)

// contractPatience is how long a turn waits for the newest contract before it begins
// with what stood at the announcement.
const contractPatience = 3 * time.Second

// A broker is the collaboration broker as the agent deals with it: the mailbox tells
// it what happens to events (mailbox.Broker), turns ask it for the contract
// (turns.Broker), tools call it.
type broker struct {
	*collab.Client
	id   protocol.PeerID
	opts *Options
	box  func() *mailbox.Mailbox

	contract atomic.Value // string: of the last announcement
}

func newBroker(a *Agent) *broker {
	b := &broker{id: a.id, opts: &a.opts, box: func() *mailbox.Mailbox { return a.box }}
	b.Client = collab.New(a.id, a.peer.Send, &collab.Options{Remember: b.remember, Log: a.opts.Log})
	return b
}

// seenCounter is the mailbox's counter of when the broker was there.
const seenCounter = "broker_at"

func (b *broker) remember(ctx context.Context, at time.Time) error {
	return b.box().InTx(ctx, func(tx *mailbox.Tx) { tx.SetCounter(seenCounter, at.UnixMicro()) })
}

// recall makes a broker that the last run saw one that went away just now.
func (b *broker) recall(ctx context.Context) error {
	v := b.box().View(ctx)
	b.Recall(time.UnixMicro(v.Counter(seenCounter)))
	return v.Err()
}

// attend keeps the agent announced until ctx ends.
func (b *broker) attend(ctx context.Context) {
	roles := []string{}
	for _, r := range b.opts.Roles {
		roles = append(roles, strings.TrimPrefix(r, "role:"))
	}
	who := contract.AnnounceParams{
		LogicalAgentID: b.id.Name(), HarnessType: b.opts.HarnessType, WorkspaceID: b.opts.WorkspaceID, ProjectPath: b.opts.Workspace,
		Roles: roles, WakePolicy: b.opts.WakePolicy,
	}
	b.Attend(ctx, who, func(ctx context.Context) {
		if text := b.askContract(ctx, &mailbox.Origin{}); text != "" {
			b.contract.Store(text)
		}
	})
}

// askContract asks the broker for the contract as it stands now, with the conversation
// and the work of a wake. It is empty if none came.
func (b *broker) askContract(ctx context.Context, o *mailbox.Origin) string {
	ctx, cancel := context.WithTimeout(ctx, contractPatience)
	defer cancel()
	answer, err := contract.PromptContract.Ask(ctx, b, contract.PromptParams{
		AgentID: b.id.Name(), HarnessType: b.opts.HarnessType, ConversationID: o.ConversationID, WorkItemID: o.WorkItemID,
	})
	if err != nil {
		b.opts.Log.Debug().Err(err).Msg("prompt contract not given by the broker")
	}
	return strings.TrimSpace(answer.Contract)
}

// Contract returns the text that tells the agent who it is and how it works with
// others: the broker's, which is then given, if there is one. If o is not nil, the broker
// is asked for it as it stands now.
func (b *broker) Contract(ctx context.Context, o *mailbox.Origin) (text string, given bool) {
	if o != nil && b.Known() {
		if text := b.askContract(ctx, o); text != "" {
			return text, true
		}
	}
	if text, ok := b.contract.Load().(string); ok && b.Seen() {
		return text, true
	}
	text = "You are the agent " + b.id.Name() + " on a message bus. Others reach you as @" + b.id.Name() + ". You speak for nobody else."
	if len(b.opts.Roles) > 0 {
		text += "\nYour roles: " + strings.Join(b.opts.Roles, ", ") + "."
	}
	if b.opts.Workspace != "" {
		text += "\nYour workspace is the folder " + b.opts.Workspace + "."
	}
	return text, false
}
