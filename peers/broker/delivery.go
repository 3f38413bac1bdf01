package broker

import (
	"cmp"
	"slices"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

const (
	maxAttempts  = 5
	defaultLease = time.Minute
	maxLease     = 24 * time.Hour
)

// list returns the deliveries to an agent, oldest first.
func (t deliveryHandler) list(p collab.DeliveryListParams) collab.Page[collab.Delivery] {
	if p.Status != "" {
		rules.MustBeOneOf("status", p.Status, collab.DeliveryPending, collab.DeliveryLeased,
			collab.DeliveryAcknowledged, collab.DeliveryFailed, collab.DeliveryCancelled)
	}
	var list []collab.Delivery
	wanted, id := t.deliveriesFor(p.TargetAgentID)
	for _, d := range listAfter(t.deliveries, string(id), p.After) {
		if d := rules.CurrentDelivery(d, t.now); wanted(&d) && (p.Status == "" || d.Status == p.Status) {
			list = append(list, d)
		}
	}
	same := func(d collab.Delivery) collab.Delivery { return d }
	return pageOf(list, func(d collab.Delivery) string { return d.ID }, same, p.Limit)
}

// deliveriesFor returns a filter for the deliveries to a target, a name or an identity, for which
// the caller may act. The id is that of an identity, else "". It fails for a name under which the
// caller never acts.
func (v *view) deliveriesFor(target string) (wanted func(d *collab.Delivery) bool, id protocol.PeerID) {
	p := rules.PartyOf(protocol.PeerID(target))
	bare := p.Name == target
	switch {
	case p.Name == "":
		rules.FailInvalid("targetAgentId is required")
	case v.caller.Person, v.caller.Is(p.ID), bare && v.caller.Is(protocol.AgentID(p.Name)):
	default:
		rules.Fail(collab.CodeForbidden, "%s may not take the deliveries of %s", v.caller.Identity, target)
	}
	if !bare {
		return func(d *collab.Delivery) bool { return d.TargetIdentity == p.ID && v.caller.ActsFor(p.ID) }, p.ID
	}
	return func(d *collab.Delivery) bool { return d.TargetAgentID == p.Name && v.caller.ActsFor(d.TargetIdentity) }, ""
}

// open returns the deliveries that are not terminal, the oldest first.
func (t deliveryHandler) open() (list []collab.Delivery) {
	for _, id := range t.deliveries.openIDs() {
		list = append(list, rules.CurrentDelivery(t.deliveries.get(id), t.now))
	}
	slices.SortStableFunc(list, func(a, b collab.Delivery) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	return list
}

// claim leases the oldest pending delivery to the caller.
func (t deliveryHandler) claim(p collab.DeliveryClaimParams) (out collab.DeliveryResult) {
	lease := rules.MustBeDuration(p.LeaseMs, "leaseMs", defaultLease, maxLease)
	wanted, _ := t.deliveriesFor(p.TargetAgentID)
	for _, d := range t.open() {
		_, kept := t.messages.find(d.MessageID)
		if !wanted(&d) || d.Status != collab.DeliveryPending || d.MessageID != "" && !kept {
			continue
		}
		d.Status, d.LeasedBy, d.LeaseUntil = collab.DeliveryLeased, string(t.caller.Identity),
			formatTime(t.now.Add(lease))
		out.Delivery, out.Invocation = t.change(d, nil), t.invocations.get(d.InvocationID)
		if d.MessageID != "" {
			m, _ := t.message(d.MessageID)
			out.Message = &m
		}
		break
	}
	return out
}

func (t deliveryHandler) ack(p collab.IDParams) collab.DeliveryResult {
	d := t.mustFindOwn(p.ID)
	if d.Status == collab.DeliveryAcknowledged { // a repetition
		return collab.DeliveryResult{Delivery: t.deliveries.get(d.ID)}
	}
	return t.finish(d, collab.DeliveryAcknowledged)
}

// nack gives a leased delivery back. It fails the delivery after maxAttempts.
func (t deliveryHandler) nack(p collab.IDParams) collab.DeliveryResult {
	d := t.mustFindOwn(p.ID)
	status := collab.DeliveryPending
	if d.Attempts++; d.Attempts >= maxAttempts {
		status = collab.DeliveryFailed
	}
	return t.finish(d, status)
}

// finish gives an open delivery a new status.
func (t deliveryHandler) finish(d collab.Delivery, status collab.DeliveryStatus) collab.DeliveryResult {
	if d.Terminal() {
		rules.Fail(collab.CodeBadTransition, "delivery %s is %s", d.ID, d.Status)
	}
	return collab.DeliveryResult{Delivery: t.change(rules.WithStatus(d, status), nil)}
}

// mustFindOwn returns a delivery that the caller may finish.
func (t deliveryHandler) mustFindOwn(id string) collab.Delivery {
	d := rules.CurrentDelivery(mustFind(t.deliveries, "delivery", id), t.now)
	switch {
	case !t.caller.ActsFor(d.TargetIdentity):
		rules.Fail(collab.CodeForbidden, "delivery %s is for %s", id, d.TargetAgentID)
	case d.Status == collab.DeliveryLeased && d.LeasedBy != string(t.caller.Identity) && !t.caller.Person:
		rules.Fail(collab.CodeConflict, "delivery %s is leased to %s until %s", id, d.LeasedBy, d.LeaseUntil)
	}
	return d
}

// change stores and returns a new version of a delivery. The metadata may be nil.
func (t deliveryHandler) change(d collab.Delivery, metadata any) *collab.Delivery {
	d.UpdatedAt = formatTime(t.now)
	emit(t.tx, collab.EventDeliveryChanged, "agent:"+d.TargetAgentID, d, metadata)
	return t.deliveries.get(d.ID)
}

// putDelivery stores a delivery in the state.
func (s *state) putDelivery(d collab.Delivery, seq int64) {
	old := s.deliveries.get(d.ID)
	if s.deliveries.put(d.ID, &d, string(d.TargetIdentity), !d.Terminal(), seq); old == nil || d.Terminal() {
		s.indexOpen(&d, !d.Terminal())
	}
}

// indexOpen adds a delivery to the indexes of open ones, or removes it.
func (s *state) indexOpen(d *collab.Delivery, open bool) {
	indexID(s.openByTarget, d.TargetIdentity, d.ID, open)
	if about := cmp.Or(d.WorkItemID, d.QuestionID); about != "" {
		indexID(s.openByRecord, about, d.ID, open)
	}
}

// indexID adds an id under a key, or removes it.
func indexID[K comparable](ids map[K][]string, key K, id string, add bool) {
	if add {
		ids[key] = append(ids[key], id)
		return
	}
	left := slices.DeleteFunc(ids[key], func(one string) bool { return one == id })
	if ids[key] = left; len(left) == 0 {
		delete(ids, key)
	}
}
