package collab

import (
	"cmp"
	"slices"

	"hubbub/protocol"
)

// KindObligation is the kind of an obligation that an event declares.
const KindObligation = "obligation"

// An EventObligation is what the author of an event expects from one recipient, as the event
// declares it (C2A, draft 2026-08-11). Its state follows from its acts. The state is also stored,
// for readers that do not evaluate acts.
type EventObligation struct {
	ObligationParams
	State     string `json:"state"` // open, paused, escalated or discharged; unknown if only acts are known
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"` // the actor whose act led to the state
	Acts      []Act  `json:"acts"`
	UpdatedAt string `json:"updatedAt"`
}

// The states of an obligation that the broker itself sets. Package attention derives the others.
const (
	ObligationUnknown    = "unknown"
	ObligationDischarged = "discharged"
)

// ObligationParams declare the obligation of one event to one recipient. Parties are identities.
type ObligationParams struct {
	EventID       string          `json:"eventId"`
	Author        protocol.PeerID `json:"author"`
	Recipient     protocol.PeerID `json:"recipient"`
	Delegate      protocol.PeerID `json:"dischargeDelegate,omitempty"`
	Blocks        string          `json:"blocks"`
	DefaultAction string          `json:"defaultAction,omitempty"`
	Title         string          `json:"title,omitempty"`
	Escalation    string          `json:"rung,omitempty"`    // the obligation that this one escalates, if any
	Members       []string        `json:"members,omitempty"` // eventIds of the included obligations
	CreatedAt     string          `json:"createdAt,omitempty"`
}

// ObligationKey returns the key of an obligation.
func ObligationKey(eventID string, recipient protocol.PeerID) string {
	return eventID + " " + string(recipient)
}

// An Act is an action about an event with an obligation.
type Act struct {
	ReactionID string          `json:"reactionId"`
	Kind       string          `json:"kind"` // signal, removed, edited, renewed or deleted
	Actor      protocol.PeerID `json:"actor"`
	Signal     string          `json:"signal,omitempty"`
	Recipient  protocol.PeerID `json:"recipient,omitempty"`
	CreatedAt  string          `json:"createdAt"`
}

// ActParams report an act. An actor other than the caller is a person in the caller's chat.
type ActParams struct {
	ReactionID    string          `json:"reactionId,omitempty"`
	TargetEventID string          `json:"targetEventId"`
	Kind          string          `json:"kind,omitempty"`
	Actor         protocol.PeerID `json:"actor,omitempty"`
	Signal        string          `json:"signal,omitempty"`
	Recipient     protocol.PeerID `json:"recipient,omitempty"`
}

// DischargeParams discharge an obligation.
type DischargeParams struct {
	EventID   string          `json:"eventId"`
	Recipient protocol.PeerID `json:"recipient"`
}

// An ObligationResult is an obligation.
type ObligationResult struct {
	Obligation EventObligation `json:"obligation"`
}

// Open reports whether the author still waits.
func (d *EventObligation) Open() bool {
	return d.State != ObligationDischarged && d.State != ObligationUnknown
}

func (d *EventObligation) obligations() []Obligation {
	if !d.Open() {
		return nil
	}
	return []Obligation{{
		ID:               d.EventID,
		Kind:             KindObligation,
		Title:            cmp.Or(d.Title, "an answer"),
		State:            d.State,
		Since:            d.CreatedAt,
		Blocks:           d.Blocks,
		DefaultAction:    d.DefaultAction,
		OwedByID:         d.Recipient.Name(),
		OwedByIdentity:   d.Recipient,
		OwedToID:         d.Author.Name(),
		OwedToIdentity:   d.Author,
		DelegateIdentity: d.Delegate,
	}}
}

// severity orders obligations: those that halt a party come first, and those that no event
// declares are in the middle.
func (o *Obligation) severity() int {
	return slices.Index([]string{"halted", "degraded", "none"}, cmp.Or(o.Blocks, "degraded"))
}
