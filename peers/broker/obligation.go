package broker

import (
	"cmp"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// open stores that the author of an event waits for a recipient. Either of them may report it.
// Later reports of the author update it.
func (t obligationHandler) open(p collab.ObligationParams) collab.ObligationResult {
	for _, id := range []*protocol.PeerID{&p.Author, &p.Recipient, &p.Delegate} {
		*id = rules.Principal(*id)
	}
	rules.MustBeObligationParams(p)
	if !t.caller.Is(p.Author) && !t.caller.Is(p.Recipient) {
		rules.Fail(collab.CodeForbidden, "%s is neither author nor recipient of %s", t.caller.Name, text.Clip(p.EventID, 80))
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
		if !t.caller.Is(old.Author) || old.Author != p.Author || slices.Equal(old.Members,
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

// react stores an act about an event with an obligation. An act about an unknown event is kept
// until the event is reported.
func (t obligationHandler) react(p collab.ActParams) collab.ObligationResult {
	p.Actor = cmp.Or(rules.Principal(p.Actor), t.caller.Party().ID)
	p.Recipient = rules.Principal(p.Recipient)
	p.Kind = cmp.Or(p.Kind, string(attention.ActSignal))
	rules.MustBeGiven("targetEventId", p.TargetEventID)
	rules.MustBeNames("reactionId", p.ReactionID, "actor", string(p.Actor), "recipient", string(p.Recipient))
	rules.MustBeOneOf("kind", attention.ActKind(p.Kind), attention.ActSignal, attention.ActRemoved, attention.ActEdited,
		attention.ActRenewed, attention.ActDeleted)
	if p.Kind == string(attention.ActSignal) {
		if _, err := attention.ParseSignal(p.Signal); err != nil {
			rules.FailInvalid("%v", err)
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
	if !t.caller.Is(p.Actor) && (!t.caller.Is(d.Recipient) && !t.caller.Is(d.Author) || !protocol.IsPerson(p.Actor)) {
		rules.Fail(collab.CodeForbidden,
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
	if len(d.Acts) >= rules.MaxActs {
		rules.FailInvalid("at most %d acts about %s are kept", rules.MaxActs, text.Clip(d.EventID, 80))
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
	p.Recipient = rules.Principal(p.Recipient)
	rules.MustBeGiven("eventId", p.EventID, "recipient", string(p.Recipient))
	d := t.mustFind(p)
	if d.State == collab.ObligationDischarged {
		rules.Fail(collab.CodeBadTransition, "the obligation of %s was already discharged by %s (%s)",
			text.Clip(p.EventID, 80),
			d.By, d.Reason)
	}
	act := collab.ActParams{
		TargetEventID: p.EventID,
		Kind:          string(attention.ActSignal),
		Actor:         t.caller.Party().ID,
		Signal:        string(attention.SignalDone),
		Recipient:     p.Recipient,
	}
	for _, id := range []protocol.PeerID{d.Author, d.Delegate} { // the name under which the caller acts
		if t.caller.Is(id) {
			act.Actor = id
		}
	}
	o := rules.AttentionObligation(&d)
	if effect, _ := o.Effect(attention.Act{
		Actor:     string(act.Actor),
		Signal:    attention.SignalDone,
		Recipient: string(p.Recipient),
	}); effect != attention.EffectDischarge {
		rules.Fail(collab.CodeForbidden, "%s may not discharge what %s waits for: that is for %s", t.caller.Name, d.Author,
			rules.Dischargers(&d))
	}
	return collab.ObligationResult{Obligation: t.storeAct(d, act)}
}

func (t obligationHandler) get(p collab.DischargeParams) collab.ObligationResult {
	p.Recipient = rules.Principal(p.Recipient)
	return collab.ObligationResult{Obligation: t.mustFind(p)}
}

// mustFind returns an obligation.
func (t obligationHandler) mustFind(p collab.DischargeParams) collab.EventObligation {
	d := t.obligations.get(collab.ObligationKey(p.EventID, p.Recipient))
	if d == nil || d.State == collab.ObligationUnknown {
		rules.Fail(collab.CodeNotFound, "nobody waits for %s because of %s", text.Clip(string(p.Recipient), 80),
			text.Clip(p.EventID, 80))
	}
	return *d
}

// store stores an obligation with the state that its acts make, and notifies both sides.
func (t obligationHandler) store(
	d collab.EventObligation,
	kind collab.EventType[collab.EventObligation],
) collab.EventObligation {
	rules.ApplyActs(&d)
	d.UpdatedAt = formatTime(t.now)
	e := emit(t.tx, kind, "obligation:"+d.EventID, d, nil)
	for _, who := range []protocol.PeerID{d.Recipient, d.Author} {
		if protocol.RoleOf(who) == protocol.RoleAgent && !t.caller.Is(who) {
			t.sends = append(t.sends, sending{to: who, event: e})
		}
	}
	return d
}
