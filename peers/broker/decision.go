package broker

import (
	"cmp"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"
)

// Limits of a decision.
const (
	maxArguments = 8 << 10
	maxDeciders  = 100
)

// ask stores a question for a person, and returns the current decision. An agent that lost the
// answer asks again.
func (t decisionHandler) ask(p collab.ApprovalAskParams) collab.ApprovalResult {
	rules.MustBeNames("id", p.ID, "tool", p.Tool, "digest", p.Digest, "chat", p.Chat)
	rules.MustFit("arguments", p.Arguments, maxArguments)
	rules.MustFit("eventId", p.EventID, 2*rules.MaxName)
	rules.MustBeTexts("mayDecide", p.MayDecide, maxDeciders, "a decision has at most %d deciders")
	rules.MustBeGiven("id", p.ID, "tool", p.Tool, "digest", p.Digest)
	for _, who := range p.MayDecide {
		if !protocol.IsPerson(protocol.PeerID(who)) {
			rules.FailInvalid("mayDecide names %s, who is not a person", text.Clip(who, 80))
		}
	}
	p.Arguments = string(redact.New().Arguments([]byte(p.Arguments)))
	p.Default = cmp.Or(p.Default, collab.Deny)
	rules.MustBeOneOf("default", p.Default, collab.Allow, collab.Deny)
	if old := t.decisions.get(p.ID); old != nil {
		t.mustRepeat("decision:"+p.ID, "decision", p.ID)
		return collab.ApprovalResult{Decision: old.Expire(t.now)}
	}
	if until := collab.ParseTime(p.ExpiresAt); !until.After(t.now) || until.After(t.now.Add(maxTTL)) {
		rules.FailInvalid("expiresAt must be within the next %s", maxTTL)
	}
	by := t.caller.Party()
	a := collab.Approval{
		ID:              p.ID,
		ApprovalParams:  p.ApprovalParams,
		AskedByID:       by.Name,
		AskedByIdentity: by.ID,
		CreatedAt:       formatTime(t.now),
		ApprovalOutcome: collab.ApprovalOutcome{State: collab.ApprovalPending},
	}
	emit(t.tx, collab.EventDecisionAsked, "decision:"+a.ID, a, map[string]string{"digest": t.digest})
	return collab.ApprovalResult{Decision: a}
}

// decide takes the verdict from a person: the caller, or somebody in the chat of the asking
// agent.
func (t decisionHandler) decide(p collab.ApprovalDecideParams) collab.ApprovalResult {
	a := t.mustFind(p.ID)
	by := string(rules.Principal(t.caller.Identity))
	if p.By != "" && p.By != by {
		t.mustSpeakFor(protocol.PeerID(p.By), a.AskedByIdentity)
		by = p.By
	}
	return t.store(a)(a.Decide(p.Verdict, p.Scope, by, t.now))
}

// mustSpeakFor fails unless the caller asked for the decision and so may pass on what a
// person says about it.
func (t decisionHandler) mustSpeakFor(who, asker protocol.PeerID) {
	if !t.caller.Is(asker) {
		rules.Fail(collab.CodeForbidden, "%s may not speak for %s: only the agent that asked passes on what people say",
			t.caller.Name, text.Clip(string(who), 80))
	}
	if !protocol.IsPerson(who) {
		rules.Fail(collab.CodeForbidden, "%s is not a person", text.Clip(string(who), 80))
	}
}

// cancel withdraws a decision for the asking agent.
func (t decisionHandler) cancel(p collab.ApprovalDecideParams) collab.ApprovalResult {
	a := t.mustFind(p.ID)
	if !t.caller.ActsFor(a.AskedByIdentity) {
		rules.Fail(collab.CodeForbidden, "decision %s is for %s to withdraw", a.ID, a.AskedByID)
	}
	return t.store(a)(a.Cancel(string(rules.Principal(t.caller.Identity)), text.Clip(p.Reason, rules.MaxName), t.now))
}

// revoke ends an approval of further calls.
func (t decisionHandler) revoke(p collab.ApprovalDecideParams) collab.ApprovalResult {
	a := t.mustFind(p.ID)
	by := string(rules.Principal(t.caller.Identity))
	if !t.caller.Is(a.AskedByIdentity) && !a.MayBeDecidedBy(by) {
		rules.Fail(collab.CodeForbidden, "%s may not revoke decision %s", t.caller.Name, a.ID)
	}
	return t.store(a)(a.Revoke(by, text.Clip(p.Reason, rules.MaxName), t.now))
}

func (t decisionHandler) get(p collab.IDParams) collab.ApprovalResult {
	return collab.ApprovalResult{Decision: t.mustFind(p.ID).Expire(t.now)}
}

func (t decisionHandler) list(p collab.ApprovalListParams) collab.Page[collab.Approval] {
	if p.State != "" {
		rules.MustBeOneOf("state", p.State, collab.ApprovalPending, collab.ApprovalAllowed, collab.ApprovalDenied,
			collab.ApprovalExpired, collab.ApprovalCancelled, collab.ApprovalRevoked)
	}
	list := rules.Filter(listAfter(t.decisions, "", p.After), func(a *collab.Approval) bool {
		return p.State == "" || a.Expire(t.now).State == p.State
	})
	return pageOf(list, func(a *collab.Approval) string { return a.ID },
		func(a *collab.Approval) collab.Approval { return a.Expire(t.now) }, p.Limit)
}

// mustFind returns a decision.
func (t decisionHandler) mustFind(id string) collab.Approval {
	return *mustFind(t.decisions, "decision", text.Clip(id, 80))
}

// store returns a function that stores a new version of a decision and notifies the asking agent.
func (t decisionHandler) store(old collab.Approval) func(collab.Approval, error) collab.ApprovalResult {
	return func(a collab.Approval, err error) collab.ApprovalResult {
		rules.Must(err)
		if a.State != old.State {
			e := emit(t.tx, collab.EventDecisionChanged, "decision:"+a.ID, a, nil)
			t.sends = append(t.sends, sending{to: a.AskedByIdentity, event: e})
		}
		return collab.ApprovalResult{Decision: a}
	}
}

// expireAll applies the default to expired decisions.
func (t decisionHandler) expireAll() {
	for _, id := range t.decisions.openIDs() {
		a := *t.decisions.get(id)
		t.store(a)(a.Expire(t.now), nil)
	}
}
