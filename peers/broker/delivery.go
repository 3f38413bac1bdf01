package broker

import (
	"slices"
	"time"

	"hubbub/protocol/collab"
)

// The states of a delivery's wake; empty if nobody is to be woken.
const (
	wakeWanted = "wanted" // to be woken when the agent announces itself
	wakeWoken  = "woken"
	wakeMissed = "missed" // the agent was absent or rejected it: the same wake is sent again when it announces itself
)

const (
	maxAttempts  = 5
	defaultLease = time.Minute
	maxLease     = 24 * time.Hour
)

// at returns a delivery as it stands at a time, without a lease that ran out.
func at(d *collab.Delivery, now time.Time) collab.Delivery {
	c := *d
	if c.Status == collab.DeliveryLeased && !now.Before(collab.ParseTime(c.LeaseUntil)) {
		c.Status, c.LeasedBy, c.LeaseUntil = collab.DeliveryPending, "", ""
	}
	return c
}

// settled returns a delivery with a new status and without a lease.
func settled(d collab.Delivery, status collab.DeliveryStatus) collab.Delivery {
	d.Status, d.LeasedBy, d.LeaseUntil = status, "", ""
	return d
}

// listDeliveries answers with the deliveries to an agent, oldest first.
func listDeliveries(t *tx, p collab.DeliveryListParams) (page collab.Page[collab.Delivery], err error) {
	agent, err := t.forAgent(p.TargetAgentID)
	if err != nil {
		return page, err
	}
	var list []collab.Delivery
	for _, id := range t.deliveriesTo[agent] {
		if d := at(t.deliveries[id], t.now); p.Status == "" || d.Status == p.Status {
			list = append(list, d)
		}
	}
	same := func(d collab.Delivery) collab.Delivery { return d }
	return pageOf(list, func(d collab.Delivery) string { return d.ID }, same, p.PageParams)
}

// forAgent refuses a caller that may not act for the agent.
func (t *tx) forAgent(target string) (string, error) {
	agent := bareName(target)
	if agent == "" {
		return "", invalid("targetAgentId is required")
	}
	if !t.caller.speaksFor(agent) {
		return "", collab.Refuse(collab.CodeForbidden, "%s may not take the deliveries of %s", t.caller.Identity, agent)
	}
	return agent, nil
}

// claimDelivery leases the oldest pending delivery to the caller.
func claimDelivery(t *tx, p collab.DeliveryClaimParams) (out collab.DeliveryResult, err error) {
	agent, err := t.forAgent(p.TargetAgentID)
	if err != nil {
		return out, err
	}
	lease, err := duration(p.LeaseMs, "leaseMs", defaultLease, maxLease)
	if err != nil {
		return out, err
	}
	for _, id := range t.openTo[agent] {
		d := at(t.deliveries[id], t.now)
		if d.Status != collab.DeliveryPending {
			continue
		}
		d.Status, d.LeasedBy, d.LeaseUntil = collab.DeliveryLeased, string(t.caller.Identity), stamp(t.now.Add(lease))
		t.changeDelivery(d)
		out.Delivery, out.Invocation = &d, t.invocations[d.InvocationID]
		if d.MessageID != "" {
			m, _, err := t.message(d.MessageID)
			out.Message = &m
			return out, err
		}
		break
	}
	return out, nil
}

func ackDelivery(t *tx, p collab.IDParams) (out collab.DeliveryResult, err error) {
	d, err := t.ownDelivery(p.ID)
	switch {
	case err != nil:
		return out, err
	case d.Status == collab.DeliveryAcknowledged: // said twice
	case d.Terminal():
		return out, collab.Refuse(collab.CodeBadTransition, "delivery %s is %s", d.ID, d.Status)
	default:
		t.changeDelivery(settled(d, collab.DeliveryAcknowledged))
	}
	return collab.DeliveryResult{Delivery: t.deliveries[d.ID]}, nil
}

// nackDelivery gives a leased delivery back. After maxAttempts the delivery fails.
func nackDelivery(t *tx, p collab.IDParams) (out collab.DeliveryResult, err error) {
	d, err := t.ownDelivery(p.ID)
	switch {
	case err != nil:
		return out, err
	case d.Terminal():
		return out, collab.Refuse(collab.CodeBadTransition, "delivery %s is %s", d.ID, d.Status)
	}
	d = settled(d, collab.DeliveryPending)
	if d.Attempts++; d.Attempts >= maxAttempts {
		d.Status = collab.DeliveryFailed
	}
	t.changeDelivery(d)
	return collab.DeliveryResult{Delivery: &d}, nil
}

// ownDelivery returns a delivery that the caller may settle.
func (t *tx) ownDelivery(id string) (collab.Delivery, error) {
	stored := t.deliveries[id]
	if stored == nil {
		return collab.Delivery{}, notFound("delivery", id)
	}
	d := at(stored, t.now)
	if !t.caller.speaksFor(d.TargetAgentID) {
		return d, collab.Refuse(collab.CodeForbidden, "delivery %s is for %s", id, d.TargetAgentID)
	}
	if d.Status == collab.DeliveryLeased && d.LeasedBy != string(t.caller.Identity) && !t.caller.Person {
		return d, collab.Refuse(collab.CodeConflict, "delivery %s is leased to %s until %s", id, d.LeasedBy, d.LeaseUntil)
	}
	return d, nil
}

func (t *tx) changeDelivery(d collab.Delivery) {
	d.UpdatedAt = stamp(t.now)
	emit(t, collab.EventDeliveryChanged, "agent:"+d.TargetAgentID, d, nil)
}

// putDelivery stores a delivery in the state.
func (s *state) putDelivery(d collab.Delivery) {
	if s.deliveries[d.ID] == nil {
		s.deliveriesTo[d.TargetAgentID] = append(s.deliveriesTo[d.TargetAgentID], d.ID)
		s.openTo[d.TargetAgentID] = append(s.openTo[d.TargetAgentID], d.ID)
	}
	s.deliveries[d.ID] = &d
	if d.Terminal() {
		open := s.openTo[d.TargetAgentID]
		if i := slices.Index(open, d.ID); i >= 0 {
			open = slices.Delete(open, i, i+1)
		}
		if len(open) == 0 {
			delete(s.openTo, d.TargetAgentID)
			return
		}
		s.openTo[d.TargetAgentID] = open
	}
}
