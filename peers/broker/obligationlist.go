package broker

import "hubbub/protocol/collab"

// list returns the open obligations, oldest first.
func (t obligationHandler) list(p collab.ObligationListParams) collab.Page[collab.Obligation] {
	var work []collab.WorkItem
	var questions []collab.Question
	var decisions []collab.Approval
	for _, r := range t.openRecords(collab.KindWorkItem) {
		work = append(work, r.workItem())
	}
	for _, r := range t.openRecords(collab.KindQuestion) {
		questions = append(questions, r.question())
	}
	for _, id := range t.decisions.openIDs() {
		decisions = append(decisions, t.decisions.get(id).Expire(t.now))
	}
	var duties []collab.EventObligation
	for _, id := range t.obligations.openIDs() {
		duties = append(duties, *t.obligations.get(id))
	}
	for _, q := range questions {
		if d := t.obligations.get(collab.ObligationKey(q.ID,
			q.AskedOfIdentity)); q.Obligation != nil && d != nil && !d.Open() {
			duties = append(duties, *d)
		}
	}
	owedBy, owedTo := t.partyFilter(p.OwedByID), t.partyFilter(p.OwedToID)
	list := filter(collab.Obligations(work, questions, decisions, duties), func(o collab.Obligation) bool {
		return owedBy(party{o.OwedByID, o.OwedByIdentity}) &&
			(owedTo(party{o.OwedToID, o.OwedToIdentity}) || o.DelegateIdentity != "" &&
				owedTo(partyOf(o.DelegateIdentity)))
	})
	return pageOf(list, func(o collab.Obligation) string { return o.Key() },
		func(o collab.Obligation) collab.Obligation { return o }, p.PageParams)
}
