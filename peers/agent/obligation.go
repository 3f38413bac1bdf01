package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Limits on what an obligation may bring.
const (
	maxRecipients = 16
	maxDefault    = 4 << 10 // bytes of a default action
)

// checkObliging says what is wrong with what a chat message says of obligations, or nothing.
func checkObliging(c *protocol.ChatMessage) string {
	parties := append([]protocol.Party{}, c.Recipients...)
	for _, p := range []*protocol.Party{c.Actor, c.Recipient} {
		if p != nil {
			parties = append(parties, *p)
		}
	}
	if o := c.Obligation; o != nil {
		switch {
		case !slices.Contains(attention.AllBlocks, attention.Blocks(o.Blocks)):
			return fmt.Sprintf("obligation.blocks is %q: use halted, degraded or none", text.Clip(o.Blocks, 40))
		case len(o.DefaultAction) > maxDefault:
			return fmt.Sprintf("obligation.defaultAction has %d bytes; at most %d are taken", len(o.DefaultAction), maxDefault)
		case o.DischargeDelegate != nil:
			parties = append(parties, *o.DischargeDelegate)
		}
	}
	switch {
	case len(c.Recipients) > maxRecipients:
		return fmt.Sprintf("at most %d recipients are taken; an event that obliges should have one", maxRecipients)
	case len(c.ReactionID)+len(c.TargetEventID) > maxID:
		return fmt.Sprintf("an id has more than %d bytes", maxID)
	case !text.IsCleanName(c.ReactionID + c.TargetEventID):
		return "an id has control characters or others that nobody sees"
	case c.Event == protocol.EventReaction && c.Actor != nil && c.Author != nil && c.Author.ID != "" && bareID(c.Actor.ID) != bareID(c.Author.ID):
		return fmt.Sprintf("the reaction has the author %s and the actor %s, and they are one", text.Clip(c.Author.ID, 80), text.Clip(c.Actor.ID, 80))
	}
	for _, p := range parties {
		if p.ID == "" || len(p.ID) > maxID || !text.IsCleanName(p.ID) {
			return "a recipient, actor or delegate has an id that is empty, too long, or has characters that nobody sees"
		}
	}
	return ""
}

// bareID returns what identities and bare ids have in common.
func bareID(id string) string { return id[strings.IndexByte(id, ':')+1:] }

// handleReaction takes the reaction of an agent, who speaks for itself.
func (a *Agent) handleReaction(ctx context.Context, d *peer.Delivery, r *protocol.Reaction) error {
	switch _, err := attention.ParseSignal(r.Signal); {
	case err != nil:
		return peer.Reject(err.Error())
	case r.Actor.ID != string(d.Message.From):
		return peer.Reject(fmt.Sprintf("%s reacts for itself, and not for %s", d.Message.From, text.Clip(r.Actor.ID, 80)))
	case r.TargetEventID == "" || len(r.TargetEventID)+len(r.ReactionID) > maxID || !text.IsCleanName(r.TargetEventID+r.ReactionID):
		return peer.Reject("a reaction needs a targetEventId, and its ids must be clean and short")
	}
	act := mailbox.Act{ID: r.ReactionID, Target: r.TargetEventID, Act: attention.Act{Actor: r.Actor.ID, Signal: attention.Signal(r.Signal)}}
	if r.Recipient != nil {
		act.Recipient = r.Recipient.ID
	}
	err := a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { mailbox.RecordAct(tx, act) })
	a.turns.Notify()
	return err
}

// syncObligations brings what is open here in step with the broker, which may know of acts that this agent
// missed, and lack what it did alone.
func (b *broker) syncObligations(ctx context.Context) {
	v := b.agent.mailbox.View(ctx)
	for _, o := range append(mailbox.OpenObligations(v, string(b.agent.id), ""), mailbox.OpenObligations(v, "", string(b.agent.id))...) {
		if o.Sync != mailbox.Synced { // it is told anyway, or nobody else knows it
			continue
		}
		got, err := collab.ObligationGet.Ask(ctx, b, collab.DischargeParams{EventID: o.ID, Recipient: protocol.PeerID(o.Recipient)})
		if err != nil {
			if refused, ok := errors.AsType[*collab.Error](err); !ok || refused.Code != collab.CodeNotFound {
				b.agent.opts.Log.Debug().Err(err).Str("obligation", o.ID).Msg("the broker did not say how an obligation stands")
				continue
			}
			got, err = collab.ObligationOpen.Ask(ctx, b, o.Params()) // it has forgotten it
			if err != nil {
				continue
			}
		}
		if err := b.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) { mailbox.ApplyBrokerObligation(tx, &got.Obligation) }); err != nil && ctx.Err() == nil {
			b.agent.opts.Log.Warn().Err(err).Str("obligation", o.ID).Msg("how an obligation stands could not be stored")
		}
	}
	b.agent.turns.Notify()
}
