package rules

import (
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Limits of a stored obligation.
const (
	MaxActs    = 200
	maxMembers = 500
)

// MustBeObligationParams refuses the params of an invalid obligation.
func MustBeObligationParams(p collab.ObligationParams) {
	MustBeGiven("eventId", p.EventID, "author", string(p.Author), "recipient", string(p.Recipient))
	MustBeNames("dischargeDelegate", string(p.Delegate), "rung", p.Escalation)
	MustBeOneOf("blocks", attention.Blocks(p.Blocks), attention.AllBlocks...)
	MustFit("defaultAction", p.DefaultAction, MaxTitle)
	MustFit("title", p.Title, MaxTitle)
	MustBeTexts("a member", p.Members, maxMembers, "an obligation lists at most %d others")
	for _, who := range []protocol.PeerID{p.Author, p.Recipient} {
		if protocol.RoleOf(who) == protocol.RoleUnknown {
			FailInvalid("%s is not an identity such as agent:lead or tg:77", text.Clip(string(who), 80))
		}
	}
	if p.Author == p.Recipient {
		FailInvalid("author and recipient are the same")
	}
}

// Dischargers lists the parties that may discharge an obligation.
func Dischargers(d *collab.EventObligation) string {
	who := []string{string(d.Author)}
	if d.Delegate != "" {
		who = append(who, string(d.Delegate))
	}
	if d.Escalation != "" && protocol.IsPerson(d.Recipient) {
		who = append(who, string(d.Recipient))
	}
	return strings.Join(who, " or ")
}

// AttentionObligation converts an obligation for package attention.
func AttentionObligation(d *collab.EventObligation) attention.ObligationRecord {
	return attention.ObligationRecord{
		Author:     string(d.Author),
		Recipient:  string(d.Recipient),
		Delegate:   string(d.Delegate),
		Escalation: d.Escalation != "",
		CreatedAt:  collab.ParseTime(d.CreatedAt),
	}
}

// ApplyActs derives the state of an obligation from its acts.
func ApplyActs(d *collab.EventObligation) {
	if d.State = collab.ObligationUnknown; d.Author == "" {
		return
	}
	acts := make([]attention.Act, len(d.Acts))
	for i, a := range d.Acts {
		acts[i] = attention.Act{
			Kind:      attention.ActKind(a.Kind),
			Actor:     string(a.Actor),
			Signal:    attention.Signal(a.Signal),
			Recipient: string(a.Recipient),
			At:        collab.ParseTime(a.CreatedAt),
		}
	}
	o := AttentionObligation(d)
	s := o.Status(acts)
	d.State, d.Reason, d.By = string(s.State), s.Reason, s.By
}

// MustBeObligation refuses an invalid obligation. Nil is valid.
func MustBeObligation(o *protocol.Obligation) *protocol.Obligation {
	if o != nil {
		MustBeOneOf("obligation.blocks", attention.Blocks(o.Blocks), attention.AllBlocks...)
		MustFit("obligation.defaultAction", o.DefaultAction, MaxTitle)
		if o.DischargeDelegate != nil {
			MustBeName("obligation.dischargeDelegate.id", o.DischargeDelegate.ID)
		}
	}
	return o
}
