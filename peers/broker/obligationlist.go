package broker

import (
	"hubbub/peers/broker/rules"
	"hubbub/protocol/collab"
)

// list returns the open obligations, oldest first.
func (t obligationHandler) list(p collab.ObligationListParams) collab.Page[collab.Obligation] {
	var work []collab.WorkItem
	var questions []collab.Question
	var decisions []collab.Approval
	for _, r := range t.openRecords(collab.KindWorkItem) {
		work = append(work, r.WorkItem)
	}
	for _, r := range t.openRecords(collab.KindQuestion) {
		questions = append(questions, r.Question())
	}
	for _, id := range t.decisions.openIDs() {
		decisions = append(decisions, t.decisions.get(id).Expire(t.now))
	}
	var declared []collab.EventObligation
	for _, id := range t.obligations.openIDs() {
		declared = append(declared, *t.obligations.get(id))
	}
	for _, q := range questions {
		if d := t.obligations.get(collab.ObligationKey(q.ID,
			q.AskedOfIdentity)); q.Obligation != nil && d != nil && !d.Open() {
			declared = append(declared, *d)
		}
	}
	owedBy, owedTo := t.partyFilter(p.OwedByID), t.partyFilter(p.OwedToID)
	list := rules.Filter(collab.Obligations(work, questions, decisions, declared), func(o collab.Obligation) bool {
		return owedBy(rules.Party{Name: o.OwedByID, ID: o.OwedByIdentity}) &&
			(owedTo(rules.Party{Name: o.OwedToID, ID: o.OwedToIdentity}) || o.DelegateIdentity != "" &&
				owedTo(rules.PartyOf(o.DelegateIdentity)))
	})
	key := func(o collab.Obligation) string { return o.Key() }
	return pageOf(cutAfter(list, key, p.After), key,
		func(o collab.Obligation) collab.Obligation { return o }, p.Limit)
}
