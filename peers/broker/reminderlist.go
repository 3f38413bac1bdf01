package broker

import (
	"slices"
	"strings"

	"hubbub/peers/broker/rules"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// list returns the last reminders about subjects that have not changed since, oldest first.
func (t reminderHandler) list(p collab.ReminderListParams) collab.Page[collab.Reminder] {
	to := t.partyFilter(p.RemindedID)
	list := []collab.Reminder{}
	add := func(kind, id, title, touched string) {
		ref := t.wakes.get(wakeKey(kind, id))
		n := len(ref.Reminded)
		if n == 0 || collab.ParseTime(ref.At).Before(collab.ParseTime(touched)) ||
			!to(t.DisplayParty(ref.Reminded[n-1])) {
			return
		}
		dec := wakeHandler(t).lastDecision(wakeKey(kind, id))
		r := collab.Reminder{
			ID:               id,
			Kind:             kind,
			Title:            text.Clip(title, rules.MaxName),
			Since:            touched,
			RemindedID:       dec.TargetAgentID,
			RemindedIdentity: dec.TargetIdentity,
			RemindedAt:       ref.At,
			Rule:             dec.Rule,
		}
		if i := slices.IndexFunc(dec.Candidates, func(c collab.Candidate) bool { return c.Chosen }); i >= 0 {
			r.Reason = dec.Candidates[i].Reason
		}
		list = append(list, r)
	}
	for _, r := range append(t.openRecords(collab.KindWorkItem), t.openRecords(collab.KindQuestion)...) {
		add(r.Kind, r.ID, r.Title, r.UpdatedAt)
	}
	for _, id := range t.flights.openIDs() {
		if f := t.flights.get(id); t.invocations.get(f.InvocationID) != nil {
			add("flight", f.ID, t.invocations.get(f.InvocationID).Text, f.UpdatedAt)
		}
	}
	for _, d := range (deliveryHandler(t)).open() {
		if rules.IsRemindable(d) && t.wakes.get(wakeKey(kindMessage, d.MessageID)).Seq > 0 {
			m, _ := t.message(d.MessageID)
			add(kindMessage, m.ID, m.Text, m.CreatedAt)
		}
	}
	key := func(r collab.Reminder) string { return strings.Join([]string{r.Since, r.ID, r.Kind}, " ") }
	slices.SortFunc(list, func(a, b collab.Reminder) int { return strings.Compare(key(a), key(b)) })
	return pageOf(cutAfter(list, key, p.After), key,
		func(r collab.Reminder) collab.Reminder { return r }, p.Limit)
}
