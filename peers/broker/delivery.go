package broker

import (
	"slices"
	"time"
)

// A DeliveryStatus is how far a delivery has come.
type DeliveryStatus string

// The states of a delivery.
const (
	DeliveryPending      DeliveryStatus = "pending"
	DeliveryLeased       DeliveryStatus = "leased"
	DeliveryAcknowledged DeliveryStatus = "acknowledged"
	DeliveryFailed       DeliveryStatus = "failed" // refused maxAttempts times
	DeliveryCancelled    DeliveryStatus = "cancelled"
)

// The reasons of a delivery.
const (
	ReasonDirect     = "direct_message"
	ReasonMention    = "mention"
	ReasonThread     = "thread_reply"
	ReasonInvocation = "invocation"
	ReasonVisibility = "conversation_visibility"
)

// The policies of a delivery.
const (
	PolicyMustAck    = "must_ack"    // for the one who is responsible
	PolicyDurable    = "durable"     // for others that were named: it waits until they take it
	PolicyBestEffort = "best_effort" // for those concerned: dropped when nobody takes it for --stale-after
)

// The states of a delivery's wake.
const (
	wakeNone   = ""       // nobody is to be woken
	wakeWanted = "wanted" // to be woken when the agent announces itself
	wakeWoken  = "woken"
	wakeMissed = "missed" // the agent was absent or rejected it: the same wake is sent again when it announces itself
)

// A Delivery is the broker's intent to bring something to an agent.
type Delivery struct {
	ID             string         `json:"id"`
	TargetAgentID  string         `json:"targetAgentId"`
	EndpointID     string         `json:"endpointId,omitempty"`
	Reason         string         `json:"reason"`
	Policy         string         `json:"policy"`
	Status         DeliveryStatus `json:"status"`
	Wake           string         `json:"wake,omitempty"` // wanted, woken or missed; absent where nobody is to be woken
	MessageID      string         `json:"messageId,omitempty"`
	ConversationID string         `json:"conversationId,omitempty"`
	WorkItemID     string         `json:"workItemId,omitempty"`
	QuestionID     string         `json:"questionId,omitempty"`
	InvocationID   string         `json:"invocationId,omitempty"`
	SenderID       string         `json:"senderId,omitempty"`
	SenderKind     string         `json:"senderKind,omitempty"` // human or agent
	AskedLabel     string         `json:"askedLabel,omitempty"` // the label that meant the target
	LeasedBy       string         `json:"leasedBy,omitempty"`   // an identity
	LeaseUntil     string         `json:"leaseUntil,omitempty"`
	Attempts       int            `json:"attempts"`
	CreatedAt      string         `json:"createdAt"`
	UpdatedAt      string         `json:"updatedAt"`
}

const (
	maxAttempts  = 5
	defaultLease = time.Minute
	maxLease     = 24 * time.Hour
)

// Terminal reports whether nobody will take the delivery any more.
func (d *Delivery) Terminal() bool {
	return d.Status == DeliveryAcknowledged || d.Status == DeliveryFailed || d.Status == DeliveryCancelled
}

// at returns the delivery as it is at a time: a lease that ran out is none.
func (d Delivery) at(now time.Time) Delivery {
	if d.Status == DeliveryLeased && !now.Before(parseTime(d.LeaseUntil)) {
		d.Status, d.LeasedBy, d.LeaseUntil = DeliveryPending, "", ""
	}
	return d
}

type deliveryListParams struct {
	TargetAgentID string         `json:"targetAgentId"`
	Status        DeliveryStatus `json:"status"`
	pageParams
}

// listDeliveries answers with the deliveries to an agent, oldest first.
func (t *turn) listDeliveries(p deliveryListParams) (any, error) {
	agent, err := t.forAgent(p.TargetAgentID)
	if err != nil {
		return nil, err
	}
	var list []Delivery
	for _, id := range t.deliveriesTo[agent] {
		d := t.deliveries[id].at(t.now)
		if p.Status == "" || d.Status == p.Status {
			list = append(list, d)
		}
	}
	return pageOf("deliveries", list, func(d Delivery) string { return d.ID }, p.pageParams)
}

// forAgent refuses a caller that may not act for the agent.
func (t *turn) forAgent(target string) (string, error) {
	agent := bareName(target)
	if agent == "" {
		return "", invalid("targetAgentId is required")
	}
	if !t.caller.speaksFor(agent) {
		return "", refuse(CodeForbidden, "%s may not take the deliveries of %s", t.caller.Identity, agent)
	}
	return agent, nil
}

type deliveryClaimParams struct {
	TargetAgentID string `json:"targetAgentId"`
	LeaseMs       int64  `json:"leaseMs"`
}

// claimDelivery leases the oldest pending delivery to the caller.
func (t *turn) claimDelivery(p deliveryClaimParams) (any, error) {
	agent, err := t.forAgent(p.TargetAgentID)
	if err != nil {
		return nil, err
	}
	lease, err := duration(p.LeaseMs, "leaseMs", defaultLease, maxLease)
	if err != nil {
		return nil, err
	}
	for _, id := range t.openTo[agent] {
		d := t.deliveries[id].at(t.now)
		if d.Status != DeliveryPending {
			continue
		}
		d.Status, d.LeasedBy, d.LeaseUntil = DeliveryLeased, string(t.caller.Identity), stamp(t.now.Add(lease))
		t.changeDelivery(d)
		return t.withMessage(d)
	}
	return map[string]any{"delivery": nil}, nil
}

// withMessage answers with a delivery and the message that it is about.
func (t *turn) withMessage(d Delivery) (any, error) {
	out := map[string]any{"delivery": d}
	if d.MessageID != "" {
		m, _, err := t.message(d.MessageID)
		if err != nil {
			return nil, err
		}
		out["message"] = m
	}
	if d.InvocationID != "" {
		out["invocation"] = t.invocations[d.InvocationID]
	}
	return out, nil
}

func (t *turn) ackDelivery(p idParams) (any, error) {
	d, err := t.ownDelivery(p.ID)
	if err != nil {
		return nil, err
	}
	switch d.Status {
	case DeliveryAcknowledged: // said twice
	case DeliveryFailed, DeliveryCancelled:
		return nil, refuse(CodeBadTransition, "delivery %s is %s", d.ID, d.Status)
	default:
		d.Status, d.LeasedBy, d.LeaseUntil = DeliveryAcknowledged, "", ""
		t.changeDelivery(d)
	}
	return map[string]any{"delivery": *t.deliveries[d.ID]}, nil
}

// nackDelivery gives a leased delivery back; after maxAttempts it has failed.
func (t *turn) nackDelivery(p idParams) (any, error) {
	d, err := t.ownDelivery(p.ID)
	if err != nil {
		return nil, err
	}
	if d.Terminal() {
		return nil, refuse(CodeBadTransition, "delivery %s is %s", d.ID, d.Status)
	}
	d.Attempts++
	d.Status, d.LeasedBy, d.LeaseUntil = DeliveryPending, "", ""
	if d.Attempts >= maxAttempts {
		d.Status = DeliveryFailed
	}
	t.changeDelivery(d)
	return map[string]any{"delivery": d}, nil
}

// ownDelivery returns a delivery that the caller may settle.
func (t *turn) ownDelivery(id string) (Delivery, error) {
	stored := t.deliveries[id]
	if stored == nil {
		return Delivery{}, notFound("delivery", id)
	}
	d := stored.at(t.now)
	if !t.caller.speaksFor(d.TargetAgentID) {
		return d, refuse(CodeForbidden, "delivery %s is for %s", id, d.TargetAgentID)
	}
	if d.Status == DeliveryLeased && d.LeasedBy != string(t.caller.Identity) && !t.caller.Person {
		return d, refuse(CodeConflict, "delivery %s is leased to %s until %s", id, d.LeasedBy, d.LeaseUntil)
	}
	return d, nil
}

func (t *turn) changeDelivery(d Delivery) {
	d.UpdatedAt = stamp(t.now)
	t.emit(EventDeliveryChanged, "agent:"+d.TargetAgentID, d, nil)
}

// putDelivery stores a delivery in the state.
func (s *state) putDelivery(d Delivery) {
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
