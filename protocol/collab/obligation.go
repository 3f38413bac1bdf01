package collab

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"hubbub/protocol"
)

// KindDecision is the kind of an obligation to decide. Other obligations have the kind of their
// record.
const KindDecision = "decision"

// An Obligation means that one party waits for another: for the answer to a question, for the
// next move on a work item, or for a decision. It is derived from the records.
type Obligation struct {
	ID             string          `json:"id"`   // of the record
	Kind           string          `json:"kind"` // KindQuestion, KindWorkItem, KindDecision or KindObligation
	Title          string          `json:"title"`
	State          string          `json:"state"`
	OwedByID       string          `json:"owedById"`
	OwedByIdentity protocol.PeerID `json:"owedByIdentity,omitempty"`
	OwedToID       string          `json:"owedToId"` // the waiting party
	OwedToIdentity protocol.PeerID `json:"owedToIdentity,omitempty"`
	Since          string          `json:"since"`

	// Only with KindObligation.
	// halted, degraded or none: the state of the waiting party
	Blocks           string          `json:"blocks,omitempty"`
	DefaultAction    string          `json:"defaultAction,omitempty"`
	DelegateIdentity protocol.PeerID `json:"delegateIdentity,omitempty"` // may also discharge it
}

// Key returns a key of the obligation, by which lists are sorted. Several people may owe one decision.
func (o *Obligation) Key() string {
	return strings.Join([]string{
		strconv.Itoa(o.severity()),
		o.Since,
		o.ID,
		cmp.Or(string(o.OwedByIdentity), o.OwedByID),
	}, " ")
}

// ObligationListParams select obligations by both parties.
type ObligationListParams struct {
	OwedByID string `json:"owedById,omitempty"`
	OwedToID string `json:"owedToId,omitempty"`
	PageParams
}

// Obligations returns the obligations of open records. Those that halt a party come first, then
// the oldest. declared are the obligations that events declare, some of which may be closed.
func Obligations(work []WorkItem, questions []Question, decisions []Approval, declared []EventObligation) []Obligation {
	var list []Obligation
	for i := range work {
		list = append(list, work[i].obligations()...)
	}
	for i := range questions {
		// otherwise its declared obligation is listed
		if !slices.ContainsFunc(declared, func(d EventObligation) bool { return d.EventID == questions[i].ID }) {
			list = append(list, questions[i].obligations()...)
		}
	}
	for i := range decisions {
		list = append(list, decisions[i].obligations()...)
	}
	for i := range declared {
		list = append(list, declared[i].obligations()...)
	}
	slices.SortFunc(list, func(a, b Obligation) int { return strings.Compare(a.Key(), b.Key()) })
	return list
}

// obligations returns the next move if the requester, the creator or the owner waits for it.
func (w *WorkItem) obligations() []Obligation {
	if w.Terminal() || w.NextMoveOwnerID == "" {
		return nil
	}
	o := Obligation{
		ID:             w.ID,
		Kind:           KindWorkItem,
		Title:          w.Title,
		State:          string(w.State),
		Since:          w.UpdatedAt,
		OwedByID:       w.NextMoveOwnerID,
		OwedByIdentity: w.NextMoveOwnerIdentity,
	}
	for _, waits := range []struct {
		name string
		id   protocol.PeerID
	}{{w.RequestedByID, w.RequestedByIdentity}, {w.CreatedByID, w.CreatedByIdentity}, {w.OwnerID, w.OwnerIdentity}} {
		if waits.name != "" && (waits.name != o.OwedByID || waits.id != o.OwedByIdentity) {
			o.OwedToID, o.OwedToIdentity = waits.name, waits.id
			return []Obligation{o}
		}
	}
	return nil
}

func (q *Question) obligations() []Obligation {
	if q.State != QuestionOpen {
		return nil
	}
	o := Obligation{
		ID:             q.ID,
		Kind:           KindQuestion,
		Title:          q.Title,
		State:          string(q.State),
		Since:          q.CreatedAt,
		OwedByID:       q.AskedOfID,
		OwedByIdentity: q.AskedOfIdentity,
		OwedToID:       q.AskedByID,
		OwedToIdentity: q.AskedByIdentity,
	}
	if o.OwedToID == "" {
		o.OwedToID, o.OwedToIdentity = q.CreatedByID, q.CreatedByIdentity
	}
	return []Obligation{o}
}

// obligations returns the decision, once for each identity that may decide. It omits the
// arguments, which only these identities may see.
func (a *Approval) obligations() (list []Obligation) {
	if a.State != ApprovalPending {
		return nil
	}
	o := Obligation{
		ID:             a.ID,
		Kind:           KindDecision,
		Title:          "may " + a.AskedByID + " run " + a.Tool + "?",
		State:          string(a.State),
		Since:          a.CreatedAt,
		OwedByID:       "people at the command line",
		OwedToID:       a.AskedByID,
		OwedToIdentity: a.AskedByIdentity,
	}
	for _, who := range a.MayDecide {
		o.OwedByID, o.OwedByIdentity = who, protocol.PeerID(who)
		list = append(list, o)
	}
	if len(list) == 0 {
		return []Obligation{o}
	}
	return list
}
