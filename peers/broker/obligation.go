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

// Limits of a stored obligation.
const (
	maxActs    = 200
	maxMembers = 500
)

// open stores that the author of an event waits for a recipient. Either of them may report it.
// Later reports of the author update it.
func (t obligationHandler) open(p collab.ObligationParams) collab.ObligationResult {
	p.Author, p.Recipient, p.Delegate = principal(p.Author), principal(p.Recipient), principal(p.Delegate)
	mustBeObligationParams(p)
	if !t.caller.is(p.Author) && !t.caller.is(p.Recipient) {
		fail(collab.CodeForbidden, "%s is neither author nor recipient of %s", t.caller.Name, text.Clip(p.EventID, 80))
	}
	at := collab.ParseTime(p.CreatedAt)
	if at.IsZero() || at.After(t.now) {
		at = t.now
	}
	p.CreatedAt = formatTime(at)
	old := t.obligations.get(collab.ObligationKey(p.EventID, p.Recipient))
	d := collab.EventObligation{ObligationParams: p, Acts: []collab.Act{}}
	switch {
	case old != nil && old.State != collab.ObligationUnknown:
		if !t.caller.is(old.Author) || old.Author != p.Author || slices.Equal(old.Members,
			p.Members) && old.Title == p.Title && old.Blocks == p.Blocks {
			return collab.ObligationResult{Obligation: *old}
		}
		d = *old
		d.Title, d.Blocks, d.Members, d.Delegate = p.Title, p.Blocks, p.Members, p.Delegate
	case old != nil:
		d.Acts = old.Acts
	}
	return collab.ObligationResult{Obligation: t.store(d, collab.EventObligationOpened)}
}

func mustBeObligationParams(p collab.ObligationParams) {
	for _, need := range [][2]string{
		{"eventId", p.EventID},
		{"author", string(p.Author)},
		{"recipient", string(p.Recipient)},
	} {
		mustBeText(need[0], need[1], 2*maxName)
	}
	mustBeNames("dischargeDelegate", string(p.Delegate), "rung", p.Escalation)
	mustBeOneOf("blocks", attention.Blocks(p.Blocks), attention.AllBlocks...)
	mustFit("defaultAction", p.DefaultAction, maxTitle)
	mustFit("title", p.Title, maxTitle)
	mustBeTexts("a member", p.Members, maxMembers, "an obligation lists at most %d others")
	for _, who := range []protocol.PeerID{p.Author, p.Recipient} {
		if protocol.RoleOf(who) == protocol.RoleUnknown {
			failInvalid("%s is not an identity such as agent:lead or tg:77", text.Clip(string(who), 80))
		}
	}
	if p.Author == p.Recipient {
		failInvalid("author and recipient are the same")
	}
}

// react stores an act about an event with an obligation. An act about an unknown event is kept
// until the event is reported.
func (t obligationHandler) react(p collab.ActParams) collab.ObligationResult {
	p.Actor = cmp.Or(principal(p.Actor), t.caller.party().id)
	p.Recipient = principal(p.Recipient)
	p.Kind = cmp.Or(p.Kind, string(attention.ActSignal))
	mustBeText("targetEventId", p.TargetEventID, 2*maxName)
	mustBeNames("reactionId", p.ReactionID, "actor", string(p.Actor), "recipient", string(p.Recipient))
	mustBeOneOf("kind", attention.ActKind(p.Kind), attention.ActSignal, attention.ActRemoved, attention.ActEdited,
		attention.ActRenewed, attention.ActDeleted)
	if p.Kind == string(attention.ActSignal) {
		if _, err := attention.ParseSignal(p.Signal); err != nil {
			failInvalid("%v", err)
		}
	}
	d := t.obligations.get(collab.ObligationKey(p.TargetEventID, cmp.Or(p.Recipient, p.Actor)))
	if d == nil {
		d = &collab.EventObligation{
			State: collab.ObligationUnknown,
			ObligationParams: collab.ObligationParams{EventID: p.TargetEventID,
				Recipient: cmp.Or(p.Recipient, p.Actor)},
		}
	}
	if !t.caller.is(p.Actor) && (!t.caller.is(d.Recipient) && !t.caller.is(d.Author) || !protocol.IsPerson(p.Actor)) {
		fail(collab.CodeForbidden,
			"%s may not speak for %s: an agent only reports people of its own chats, about its own obligations",
			t.caller.Name,
			p.Actor)
	}
	return collab.ObligationResult{Obligation: t.storeAct(*d, p)}
}

// storeAct adds an act to an obligation, once.
func (t obligationHandler) storeAct(d collab.EventObligation, p collab.ActParams) collab.EventObligation {
	p.ReactionID = cmp.Or(p.ReactionID, "rxn_"+strings.Join([]string{p.Kind, string(p.Actor), p.Signal}, ":"))
	if slices.ContainsFunc(d.Acts, func(a collab.Act) bool { return a.ReactionID == p.ReactionID }) {
		return d
	}
	if len(d.Acts) >= maxActs {
		failInvalid("at most %d acts about %s are kept", maxActs, text.Clip(d.EventID, 80))
	}
	d.Acts = append(slices.Clone(d.Acts), collab.Act{
		ReactionID: p.ReactionID,
		Kind:       p.Kind,
		Actor:      p.Actor,
		Signal:     p.Signal,
		Recipient:  p.Recipient,
		CreatedAt:  formatTime(t.now),
	})
	return t.store(d, collab.EventObligationChanged)
}

// discharge closes an obligation for its author or the delegate.
func (t obligationHandler) discharge(p collab.DischargeParams) collab.ObligationResult {
	p.Recipient = principal(p.Recipient)
	mustBeText("eventId", p.EventID, 2*maxName)
	mustBeText("recipient", string(p.Recipient), 2*maxName)
	d := t.mustFind(p)
	if d.State == collab.ObligationDischarged {
		fail(collab.CodeBadTransition, "the obligation of %s was already discharged by %s (%s)",
			text.Clip(p.EventID, 80),
			d.By, d.Reason)
	}
	act := collab.ActParams{
		TargetEventID: p.EventID,
		Kind:          string(attention.ActSignal),
		Actor:         t.caller.party().id,
		Signal:        string(attention.SignalDone),
		Recipient:     p.Recipient,
	}
	for _, id := range []protocol.PeerID{d.Author, d.Delegate} { // the name under which the caller acts
		if t.caller.is(id) {
			act.Actor = id
		}
	}
	o := attentionObligation(&d)
	if effect, _ := o.Effect(attention.Act{
		Actor:     string(act.Actor),
		Signal:    attention.SignalDone,
		Recipient: string(p.Recipient),
	}); effect != attention.EffectDischarge {
		fail(collab.CodeForbidden, "%s may not discharge what %s waits for: that is for %s", t.caller.Name, d.Author,
			dischargers(&d))
	}
	return collab.ObligationResult{Obligation: t.storeAct(d, act)}
}

// dischargers lists the parties that may discharge an obligation.
func dischargers(d *collab.EventObligation) string {
	who := []string{string(d.Author)}
	if d.Delegate != "" {
		who = append(who, string(d.Delegate))
	}
	if d.Escalation != "" && protocol.IsPerson(d.Recipient) {
		who = append(who, string(d.Recipient))
	}
	return strings.Join(who, " or ")
}

func (t obligationHandler) get(p collab.DischargeParams) collab.ObligationResult {
	p.Recipient = principal(p.Recipient)
	return collab.ObligationResult{Obligation: t.mustFind(p)}
}

// mustFind returns an obligation.
func (t obligationHandler) mustFind(p collab.DischargeParams) collab.EventObligation {
	d := t.obligations.get(collab.ObligationKey(p.EventID, p.Recipient))
	if d == nil || d.State == collab.ObligationUnknown {
		fail(collab.CodeNotFound, "nobody waits for %s because of %s", text.Clip(string(p.Recipient), 80),
			text.Clip(p.EventID, 80))
	}
	return *d
}

// attentionObligation converts an obligation for package attention.
func attentionObligation(d *collab.EventObligation) attention.ObligationRecord {
	return attention.ObligationRecord{
		Author:     string(d.Author),
		Recipient:  string(d.Recipient),
		Delegate:   string(d.Delegate),
		Escalation: d.Escalation != "",
		CreatedAt:  collab.ParseTime(d.CreatedAt),
	}
}

// store derives the state of an obligation from its acts, stores it, and notifies both sides.
func (t obligationHandler) store(
	d collab.EventObligation,
	kind collab.EventType[collab.EventObligation],
) collab.EventObligation {
	if d.State = collab.ObligationUnknown; d.Author != "" {
		o, acts := attentionObligation(&d), []attention.Act{}
		for _, a := range d.Acts {
			acts = append(acts, attention.Act{
				Kind:      attention.ActKind(a.Kind),
				Actor:     string(a.Actor),
				Signal:    attention.Signal(a.Signal),
				Recipient: string(a.Recipient),
				At:        collab.ParseTime(a.CreatedAt),
			})
		}
		s := o.Status(acts)
		d.State, d.Reason, d.By = string(s.State), s.Reason, s.By
	}
	d.UpdatedAt = formatTime(t.now)
	e := emit(t.tx, kind, "obligation:"+d.EventID, d, nil)
	for _, who := range []protocol.PeerID{d.Recipient, d.Author} {
		if protocol.RoleOf(who) == protocol.RoleAgent && !t.caller.is(who) {
			t.sends = append(t.sends, sending{to: who, event: e})
		}
	}
	return d
}

// mustBeObligation refuses an invalid obligation. Nil is valid.
func mustBeObligation(o *protocol.Obligation) *protocol.Obligation {
	if o != nil {
		mustBeOneOf("obligation.blocks", attention.Blocks(o.Blocks), attention.AllBlocks...)
		mustFit("obligation.defaultAction", o.DefaultAction, maxTitle)
		if o.DischargeDelegate != nil {
			mustBeName("obligation.dischargeDelegate.id", o.DischargeDelegate.ID)
		}
	}
	return o
}
