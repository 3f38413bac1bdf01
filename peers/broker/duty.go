package broker

import (
	"cmp"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Limits of what is kept of an obligation.
const (
	maxActs    = 200
	maxMembers = 500
)

// openDuty keeps that the author of an event waits for a recipient. Both may tell it; what the
// author tells anew of what it lists stands.
func openDuty(t *tx, p collab.ObligationParams) collab.ObligationResult {
	p.Author, p.Recipient, p.Delegate = principal(p.Author), principal(p.Recipient), principal(p.Delegate)
	checkDuty(p)
	if !t.caller.is(p.Author) && !t.caller.is(p.Recipient) {
		refuse(collab.CodeForbidden, "%s is neither author nor recipient of %s", t.caller.Name, text.Clip(p.EventID, 80))
	}
	at := collab.ParseTime(p.CreatedAt)
	if at.IsZero() || at.After(t.now) {
		at = t.now
	}
	p.CreatedAt = stamp(at)
	old := t.duties.get(collab.ObligationKey(p.EventID, p.Recipient))
	d := collab.EventObligation{ObligationParams: p, Acts: []collab.Act{}}
	switch {
	case old != nil && old.State != collab.ObligationUnknown:
		if !t.caller.is(old.Author) || old.Author != p.Author || slices.Equal(old.Members, p.Members) && old.Title == p.Title && old.Blocks == p.Blocks {
			return collab.ObligationResult{Obligation: *old}
		}
		d = *old
		d.Title, d.Blocks, d.Members, d.Delegate = p.Title, p.Blocks, p.Members, p.Delegate
	case old != nil:
		d.Acts = old.Acts
	}
	return collab.ObligationResult{Obligation: keepDuty(t, d, collab.EventObligationOpened)}
}

func checkDuty(p collab.ObligationParams) {
	for _, need := range [][2]string{{"eventId", p.EventID}, {"author", string(p.Author)}, {"recipient", string(p.Recipient)}} {
		checkText(need[0], need[1], 2*maxName)
	}
	checkNames("dischargeDelegate", string(p.Delegate), "rung", p.Escalation)
	checkOneOf("blocks", attention.Blocks(p.Blocks), attention.AllBlocks...)
	checkLength("defaultAction", p.DefaultAction, maxTitle)
	checkLength("title", p.Title, maxTitle)
	checkEach("a member", p.Members, maxMembers, "an obligation lists at most %d others")
	for _, who := range []protocol.PeerID{p.Author, p.Recipient} {
		if protocol.RoleOf(who) == protocol.RoleUnknown {
			invalid("%s is no identity: use one such as agent:lead or tg:77", text.Clip(string(who), 80))
		}
	}
	if p.Author == p.Recipient {
		invalid("nobody obliges themselves")
	}
}

// react keeps an act about an obligating event. One about an event that nobody told of is held
// until somebody does.
func react(t *tx, p collab.ActParams) collab.ObligationResult {
	p.Actor = cmp.Or(principal(p.Actor), t.caller.party().id)
	p.Recipient = principal(p.Recipient)
	p.Kind = cmp.Or(p.Kind, string(attention.ActSignal))
	checkText("targetEventId", p.TargetEventID, 2*maxName)
	checkNames("reactionId", p.ReactionID, "actor", string(p.Actor), "recipient", string(p.Recipient))
	checkOneOf("kind", attention.ActKind(p.Kind), attention.ActSignal, attention.ActRemoved, attention.ActEdited, attention.ActRenewed, attention.ActDeleted)
	if p.Kind == string(attention.ActSignal) {
		if _, err := attention.ParseSignal(p.Signal); err != nil {
			invalid("%v", err)
		}
	}
	d := t.duties.get(collab.ObligationKey(p.TargetEventID, cmp.Or(p.Recipient, p.Actor)))
	if d == nil {
		d = &collab.EventObligation{State: collab.ObligationUnknown, ObligationParams: collab.ObligationParams{EventID: p.TargetEventID, Recipient: cmp.Or(p.Recipient, p.Actor)}}
	}
	if !t.caller.is(p.Actor) && (!t.caller.is(d.Recipient) && !t.caller.is(d.Author) || !protocol.IsPerson(p.Actor)) {
		refuse(collab.CodeForbidden, "%s may not speak for %s: an agent passes on what people of its own chats say about what is owed to or by it", t.caller.Name, p.Actor)
	}
	return collab.ObligationResult{Obligation: addAct(t, *d, p)}
}

// addAct adds an act to an obligation, once.
func addAct(t *tx, d collab.EventObligation, p collab.ActParams) collab.EventObligation {
	p.ReactionID = cmp.Or(p.ReactionID, "rxn_"+strings.Join([]string{p.Kind, string(p.Actor), p.Signal}, ":"))
	if slices.ContainsFunc(d.Acts, func(a collab.Act) bool { return a.ReactionID == p.ReactionID }) {
		return d
	}
	if len(d.Acts) >= maxActs {
		invalid("%d acts about %s are kept, and no more", maxActs, text.Clip(d.EventID, 80))
	}
	d.Acts = append(slices.Clone(d.Acts), collab.Act{
		ReactionID: p.ReactionID, Kind: p.Kind, Actor: p.Actor, Signal: p.Signal, Recipient: p.Recipient, CreatedAt: stamp(t.now),
	})
	return keepDuty(t, d, collab.EventObligationChanged)
}

// discharge closes an obligation for who waits, or who may in their place.
func discharge(t *tx, p collab.DischargeParams) collab.ObligationResult {
	p.Recipient = principal(p.Recipient)
	checkText("eventId", p.EventID, 2*maxName)
	checkText("recipient", string(p.Recipient), 2*maxName)
	d := findDuty(t, p)
	if d.State == collab.ObligationDischarged {
		refuse(collab.CodeBadTransition, "the obligation of %s is discharged already, by %s (%s)", text.Clip(p.EventID, 80), d.By, d.Reason)
	}
	act := collab.ActParams{TargetEventID: p.EventID, Kind: string(attention.ActSignal), Actor: t.caller.party().id, Signal: string(attention.SignalDone), Recipient: p.Recipient}
	for _, id := range []protocol.PeerID{d.Author, d.Delegate} { // under whose name the caller acts
		if t.caller.is(id) {
			act.Actor = id
		}
	}
	o := owedOf(&d)
	if effect, _ := o.Effect(attention.Act{Actor: string(act.Actor), Signal: attention.SignalDone, Recipient: string(p.Recipient)}); effect != attention.EffectDischarge {
		refuse(collab.CodeForbidden, "%s may not discharge what %s waits for: that is for %s", t.caller.Name, d.Author, closers(&d))
	}
	return collab.ObligationResult{Obligation: addAct(t, d, act)}
}

// closers says who may discharge an obligation.
func closers(d *collab.EventObligation) string {
	who := []string{string(d.Author)}
	if d.Delegate != "" {
		who = append(who, string(d.Delegate))
	}
	if d.Escalation != "" && protocol.IsPerson(d.Recipient) {
		who = append(who, string(d.Recipient))
	}
	return strings.Join(who, " or ")
}

func getDuty(t *tx, p collab.DischargeParams) collab.ObligationResult {
	p.Recipient = principal(p.Recipient)
	return collab.ObligationResult{Obligation: findDuty(t, p)}
}

// findDuty returns an obligation, and refuses one that there is not.
func findDuty(t *tx, p collab.DischargeParams) collab.EventObligation {
	d := t.duties.get(collab.ObligationKey(p.EventID, p.Recipient))
	if d == nil || d.State == collab.ObligationUnknown {
		refuse(collab.CodeNotFound, "nobody waits for %s on account of %s", text.Clip(string(p.Recipient), 80), text.Clip(p.EventID, 80))
	}
	return *d
}

// owedOf returns an obligation as attention judges it.
func owedOf(d *collab.EventObligation) attention.ObligationRecord {
	return attention.ObligationRecord{
		Author: string(d.Author), Recipient: string(d.Recipient), Delegate: string(d.Delegate), Escalation: d.Escalation != "", CreatedAt: collab.ParseTime(d.CreatedAt),
	}
}

// keepDuty stores an obligation as its acts leave it, and tells both sides.
func keepDuty(t *tx, d collab.EventObligation, kind collab.EventType[collab.EventObligation]) collab.EventObligation {
	if d.State = collab.ObligationUnknown; d.Author != "" {
		o, acts := owedOf(&d), []attention.Act{}
		for _, a := range d.Acts {
			acts = append(acts, attention.Act{
				Kind: attention.ActKind(a.Kind), Actor: string(a.Actor), Signal: attention.Signal(a.Signal), Recipient: string(a.Recipient), At: collab.ParseTime(a.CreatedAt),
			})
		}
		s := o.Status(acts)
		d.State, d.Reason, d.By = string(s.State), s.Reason, s.By
	}
	d.UpdatedAt = stamp(t.now)
	e := emit(t, kind, "obligation:"+d.EventID, d, nil)
	for _, who := range []protocol.PeerID{d.Recipient, d.Author} {
		if protocol.RoleOf(who) == protocol.RoleAgent && !t.caller.is(who) {
			t.sends = append(t.sends, sending{to: who, event: e})
		}
	}
	return d
}

// checkObligation refuses an object that obliges to nothing that is known. nil stays nil.
func checkObligation(o *protocol.Obligation) *protocol.Obligation {
	if o != nil {
		checkOneOf("obligation.blocks", attention.Blocks(o.Blocks), attention.AllBlocks...)
		checkLength("obligation.defaultAction", o.DefaultAction, maxTitle)
		if o.DischargeDelegate != nil {
			checkName("obligation.dischargeDelegate.id", o.DischargeDelegate.ID)
		}
	}
	return o
}
