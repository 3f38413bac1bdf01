package collab

import (
	"cmp"
	"slices"

	"hubbub/protocol"
)

// KindObligation is the kind of an obligation that an event itself declares.
const KindObligation = "obligation"

// A EventObligation is what the author of an event waits for from one recipient, as the event declares it
// (C2A, draft 2026-08-11). How it stands follows from its acts; state says so for who reads alone.
type EventObligation struct {
	ObligationParams
	State     string `json:"state"` // open, paused, escalated or discharged; unknown: only acts came so far
	Reason    string `json:"reason,omitempty"`
	By        string `json:"by,omitempty"` // whose act brought it there
	Acts      []Act  `json:"acts"`
	UpdatedAt string `json:"updatedAt"`
}

// The states of a duty that the broker itself knows; those between are attention's.
const (
	ObligationUnknown    = "unknown"
	ObligationDischarged = "discharged"
)

// ObligationParams tell an obligation: of one event, and one recipient. Parties are identities.
type ObligationParams struct {
	EventID       string          `json:"eventId"`
	Author        protocol.PeerID `json:"author"`
	Recipient     protocol.PeerID `json:"recipient"`
	Delegate      protocol.PeerID `json:"dischargeDelegate,omitempty"`
	Blocks        string          `json:"blocks"`
	DefaultAction string          `json:"defaultAction,omitempty"`
	Title         string          `json:"title,omitempty"`
	Escalation    string          `json:"rung,omitempty"`    // of whose ladder it is a step, if it is one
	Members       []string        `json:"members,omitempty"` // eventIds of the obligations that it lists
	CreatedAt     string          `json:"createdAt,omitempty"`
}

// ObligationKey is the key of an obligation.
func ObligationKey(eventID string, recipient protocol.PeerID) string {
	return eventID + " " + string(recipient)
}

// An Act is what somebody did about an obligating event.
type Act struct {
	ReactionID string          `json:"reactionId"`
	Kind       string          `json:"kind"` // signal, removed, edited, renewed or deleted
	Actor      protocol.PeerID `json:"actor"`
	Signal     string          `json:"signal,omitempty"`
	Recipient  protocol.PeerID `json:"recipient,omitempty"`
	CreatedAt  string          `json:"createdAt"`
}

// ActParams tell an act. An actor that is not the caller is a person, of whose words the caller's chat told.
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

// A ObligationResult is an obligation.
type ObligationResult struct {
	Obligation EventObligation `json:"obligation"`
}

// Open reports whether somebody still waits.
func (d *EventObligation) Open() bool {
	return d.State != ObligationDischarged && d.State != ObligationUnknown
}

func (d *EventObligation) obligations() []Obligation {
	if !d.Open() {
		return nil
	}
	return []Obligation{{
		ID: d.EventID, Kind: KindObligation, Title: cmp.Or(d.Title, "an answer"), State: d.State, Since: d.CreatedAt, Blocks: d.Blocks, DefaultAction: d.DefaultAction,
		OwedByID: d.Recipient.Name(), OwedByIdentity: d.Recipient, OwedToID: d.Author.Name(), OwedToIdentity: d.Author, DelegateIdentity: d.Delegate,
	}}
}

// severity is how pressing an obligation is: who is halted comes first. What no event declares
// stands between.
func (o *Obligation) severity() int {
	return slices.Index([]string{"halted", "degraded", "none"}, cmp.Or(o.Blocks, "degraded"))
}
