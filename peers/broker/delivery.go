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
func listDeliveries(t *tx, p collab.DeliveryListParams) collab.Page[collab.Delivery] {
	agent := t.forAgent(p.TargetAgentID)
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
func (t *tx) forAgent(target string) (agent string) {
	switch agent = bareName(target); {
	case agent == "":
		invalid("targetAgentId is required")
	case !t.caller.speaksFor(agent):
		refuse(collab.CodeForbidden, "%s may not take the deliveries of %s", t.caller.Identity, agent)
	}
	return agent
}

// claimDelivery leases the oldest pending delivery to the caller.
func claimDelivery(t *tx, p collab.DeliveryClaimParams) (out collab.DeliveryResult) {
	agent := t.forAgent(p.TargetAgentID)
	lease := duration(p.LeaseMs, "leaseMs", defaultLease, maxLease)
	for _, id := range t.openTo[agent] {
		d := at(t.deliveries[id], t.now)
		if d.Status != collab.DeliveryPending {
			continue
		}
		d.Status, d.LeasedBy, d.LeaseUntil = collab.DeliveryLeased, string(t.caller.Identity), stamp(t.now.Add(lease))
		out.Delivery, out.Invocation = t.changeDelivery(d, nil), t.invocations[d.InvocationID]
		if d.MessageID != "" {
			m, _ := t.message(d.MessageID)
			out.Message = &m
		}
		break
	}
	return out
}

func ackDelivery(t *tx, p collab.IDParams) collab.DeliveryResult {
	d := t.ownDelivery(p.ID)
	if d.Status == collab.DeliveryAcknowledged { // said twice
		return collab.DeliveryResult{Delivery: t.deliveries[d.ID]}
	}
	return t.settleDelivery(d, collab.DeliveryAcknowledged)
}

// nackDelivery gives a leased delivery back. After maxAttempts the delivery fails.
func nackDelivery(t *tx, p collab.IDParams) collab.DeliveryResult {
	d := t.ownDelivery(p.ID)
	status := collab.DeliveryPending
	if d.Attempts++; d.Attempts >= maxAttempts {
		status = collab.DeliveryFailed
	}
	return t.settleDelivery(d, status)
}

// settleDelivery gives a delivery that is not terminal yet a new status.
func (t *tx) settleDelivery(d collab.Delivery, status collab.DeliveryStatus) collab.DeliveryResult {
	if d.Terminal() {
		refuse(collab.CodeBadTransition, "delivery %s is %s", d.ID, d.Status)
	}
	return collab.DeliveryResult{Delivery: t.changeDelivery(settled(d, status), nil)}
}

// ownDelivery returns a delivery that the caller may settle.
func (t *tx) ownDelivery(id string) collab.Delivery {
	d := at(known(t.deliveries, "delivery", id), t.now)
	switch {
	case !t.caller.speaksFor(d.TargetAgentID):
		refuse(collab.CodeForbidden, "delivery %s is for %s", id, d.TargetAgentID)
	case d.Status == collab.DeliveryLeased && d.LeasedBy != string(t.caller.Identity) && !t.caller.Person:
		refuse(collab.CodeConflict, "delivery %s is leased to %s until %s", id, d.LeasedBy, d.LeaseUntil)
	}
	return d
}

// changeDelivery stores a new version of a delivery, and returns it. The metadata may be nil.
func (t *tx) changeDelivery(d collab.Delivery, metadata any) *collab.Delivery {
	d.UpdatedAt = stamp(t.now)
	emit(t, collab.EventDeliveryChanged, "agent:"+d.TargetAgentID, d, metadata)
	return t.deliveries[d.ID]
}

// putDelivery stores a delivery in the state.
func (s *state) putDelivery(d collab.Delivery) {
	if s.deliveries[d.ID] == nil {
		s.deliveriesTo[d.TargetAgentID] = append(s.deliveriesTo[d.TargetAgentID], d.ID)
		s.openTo[d.TargetAgentID] = append(s.openTo[d.TargetAgentID], d.ID)
	}
	s.deliveries[d.ID] = &d
	if d.Terminal() {
		open := slices.DeleteFunc(s.openTo[d.TargetAgentID], func(id string) bool { return id == d.ID })
		if s.openTo[d.TargetAgentID] = open; len(open) == 0 {
			delete(s.openTo, d.TargetAgentID)
		}
	}
}
