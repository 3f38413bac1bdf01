package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Bounds of an obligation in a message.
const (
	maxRecipients = 16
	maxDefault    = 4 << 10 // bytes of a default action
)

// checkObliging returns a problem with the obligation in a chat message, or "".
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
			return fmt.Sprintf("obligation.defaultAction has %d bytes; the limit is %d", len(o.DefaultAction),
				maxDefault)
		case o.DischargeDelegate != nil:
			parties = append(parties, *o.DischargeDelegate)
		}
	}
	switch {
	case len(c.Recipients) > maxRecipients:
		return fmt.Sprintf("at most %d recipients are allowed; an obligating event should have one", maxRecipients)
	case len(c.ReactionID)+len(c.TargetEventID) > maxID:
		return fmt.Sprintf("an id has more than %d bytes", maxID)
	case !text.IsCleanName(c.ReactionID + c.TargetEventID):
		return "an id must be " + text.NameRule
	case c.Event == protocol.EventReaction && c.Actor != nil && c.Author != nil && c.Author.ID != "" &&
		bareID(c.Actor.ID) != bareID(c.Author.ID):
		return fmt.Sprintf("the author %s and the actor %s of the reaction must be the same",
			text.Clip(c.Author.ID, 80), text.Clip(c.Actor.ID, 80))
	}
	for _, p := range parties {
		if p.ID == "" || len(p.ID) > maxID || !text.IsCleanName(p.ID) {
			return "a recipient, actor or delegate has an id that is empty, too long, or has invisible characters"
		}
	}
	return ""
}

// bareID returns an id without the family of an identity.
func bareID(id string) string { return id[strings.IndexByte(id, ':')+1:] }

// handleReaction stores the reaction of an agent. An agent may only react for itself.
func (a *Agent) handleReaction(ctx context.Context, d *peer.Delivery, r *protocol.Reaction) error {
	switch _, err := attention.ParseSignal(r.Signal); {
	case err != nil:
		return peer.Reject(err.Error())
	case r.Actor.ID != string(d.Message.From):
		return peer.Reject(fmt.Sprintf("%s may react for itself only, not for %s", d.Message.From,
			text.Clip(r.Actor.ID, 80)))
	case r.TargetEventID == "" || len(r.TargetEventID)+len(r.ReactionID) > maxID ||
		!text.IsCleanName(r.TargetEventID+r.ReactionID):
		return peer.Reject("a reaction needs a targetEventId, and its ids must be short and without invisible " +
			"characters")
	}
	act := obligations.Act{ID: r.ReactionID, Target: r.TargetEventID,
		Act: attention.Act{Actor: r.Actor.ID, Signal: attention.Signal(r.Signal)}}
	if r.Recipient != nil {
		act.Recipient = r.Recipient.ID
	}
	err := a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { obligations.RecordAct(tx, act) })
	a.turns.Notify()
	return err
}

// syncObligations synchronizes open obligations with the broker, which may know acts that this
// agent missed, and lack acts from the time without it.
func (b *broker) syncObligations(ctx context.Context) {
	v := b.agent.mailbox.View(ctx)
	for _, o := range append(obligations.ListOpen(v, string(b.agent.id), ""),
		obligations.ListOpen(v, "", string(b.agent.id))...) {
		if o.Sync != obligations.Synced { // it is sent anyway, or nobody else knows it
			continue
		}
		got, err := collab.ObligationGet.Ask(ctx, b,
			collab.DischargeParams{EventID: o.ID, Recipient: protocol.PeerID(o.Recipient)})
		if err != nil {
			if refused, ok := errors.AsType[*collab.Error](err); !ok || refused.Code != collab.CodeNotFound {
				b.agent.opts.Log.Debug().Err(err).Str("obligation", o.ID).Msg("obligation not received from the broker")
				continue
			}
			got, err = collab.ObligationOpen.Ask(ctx, b, o.Params()) // the broker has pruned it
			if err != nil {
				continue
			}
		}
		if err := b.agent.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
			obligations.ApplyBroker(tx,
				&got.Obligation)
		}); err != nil && ctx.Err() == nil {
			b.agent.opts.Log.Warn().Err(err).Str("obligation", o.ID).Msg("obligation of the broker not stored")
		}
	}
	b.agent.turns.Notify()
}
