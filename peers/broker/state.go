package broker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A state is the result of the events so far. Its one owner is the writer. It changes only by
// apply, so that it is the same after a restart. Closed entities are only in the database.
type state struct {
	seq        int64 // of the last event
	first      int64 // of the oldest kept event
	heartbeats int64 // counts signs of life of endpoints
	rules.Parties
	parties       *table[partyRow] // rows of the partyState
	conversations *table[*collab.Conversation]
	messages      *table[messageRef]    // by conversation
	records       *table[*rules.Record] // work items and questions, by kind
	wakes         *table[wakeRef]       // by wakeKey of the record, flight or message
	bindings      *table[*collab.Binding]
	created       *table[string] // digests of the requests that created records, by the event's target
	flightState
	deliveryState
	claimState
	tables *tables // nil if there is no database
}

// A partyRow is an endpoint, or the facts about an identity.
type partyRow struct {
	Endpoint *collab.Endpoint `json:",omitempty"`
	ID       protocol.PeerID  `json:",omitempty"`
	ActsAs   string           `json:",omitempty"`
	Person   bool             `json:",omitempty"`
	Agent    bool             `json:",omitempty"`
}

// A flightState has the invocations and their flights.
type flightState struct {
	invocations *table[*collab.Invocation]
	flights     *table[*collab.Flight]
}

// A deliveryState has the deliveries and their wakes.
type deliveryState struct {
	deliveries   *table[*collab.Delivery]     // by target
	openByTarget map[protocol.PeerID][]string // ids of open deliveries by target, oldest first
	openByRecord map[string][]string          // ids of open deliveries by work item or question
	wokenBy      *table[int64]                // the event that woke a delivery
}

// A claimState has the claims, decisions and obligations.
type claimState struct {
	claims   *table[*collab.Claim]
	counters *table[int64] // one of them is the newest claim's token

	decisions   *table[*collab.Approval]
	obligations *table[*collab.EventObligation] // by event and recipient
}

const claimToken = "claim token"

// A messageRef locates a message in the log, which has its text.
type messageRef struct {
	Seq            int64
	ConversationID string
	AuthorID       string
	AuthorIdentity protocol.PeerID
	Digest         string // of the request that posted it
}

func (m messageRef) author() rules.Party { return rules.Party{Name: m.AuthorID, ID: m.AuthorIdentity} }

// A wakeRef locates the last wake decision about a record.
type wakeRef struct {
	Seq      int64
	At       string
	Reminded []protocol.PeerID `json:",omitempty"` // see collab.WakeDecided
}

// newState makes a state without events. Its tables are in memory if from is nil.
func newState(from *tables) *state {
	return &state{
		first:  1,
		tables: from,
		Parties: rules.Parties{
			Endpoints: map[string]*rules.Endpoint{},
			ActsAs:    map[protocol.PeerID]string{},
			People:    map[protocol.PeerID]bool{},
			Agents:    map[protocol.PeerID]bool{},
		},
		parties:       newTable[partyRow]("party", from),
		conversations: newTable[*collab.Conversation]("conversation", from),
		messages:      newTable[messageRef]("message", from),
		records:       newTable[*rules.Record]("record", from),
		wakes:         newTable[wakeRef]("wake", from),
		bindings:      newTable[*collab.Binding]("binding", from),
		created:       newTable[string]("created", from),
		flightState: flightState{
			newTable[*collab.Invocation]("invocation", from),
			newTable[*collab.Flight]("flight", from),
		},
		deliveryState: deliveryState{
			newTable[*collab.Delivery]("delivery", from),
			map[protocol.PeerID][]string{},
			map[string][]string{},
			newTable[int64]("woken", from),
		},
		claimState: claimState{
			newTable[*collab.Claim]("claim", from),
			newTable[int64]("counter", from),
			newTable[*collab.Approval]("decision", from),
			newTable[*collab.EventObligation]("obligation", from),
		},
	}
}

// loadOpen loads the open entities. The timeout of an online endpoint starts again.
func (s *state) loadOpen(now time.Time) {
	var heard []*rules.Endpoint
	for _, row := range s.parties.loadOpen() {
		if row.Endpoint != nil {
			e := &rules.Endpoint{Endpoint: *row.Endpoint}
			s.Endpoints[e.EndpointID], heard = e, append(heard, e)
			continue
		}
		if row.ActsAs != "" {
			s.ActsAs[row.ID] = row.ActsAs
		}
		if row.Person {
			s.People[row.ID] = true
		}
		if row.Agent {
			s.Agents[row.ID] = true
		}
	}
	slices.SortFunc(heard, func(a, b *rules.Endpoint) int { return cmp.Compare(a.LastHeartbeatAt, b.LastHeartbeatAt) })
	for _, e := range heard {
		s.touch(e, now)
	}
	for _, d := range s.deliveries.loadOpen() {
		s.indexOpen(d, true)
	}
	s.records.loadOpen()
	s.flights.loadOpen()
	s.claims.loadOpen()
	s.counters.loadOpen()
	s.decisions.loadOpen()
	s.obligations.loadOpen()
}

// touch notes a sign of life of an endpoint.
func (s *state) touch(e *rules.Endpoint, now time.Time) {
	s.heartbeats++
	if e.Seq = s.heartbeats; e.Status == collab.StatusOnline {
		e.LastHeartbeatAt = formatTime(now)
	}
}

// keepIdentity stores the facts about an identity.
func (s *state) keepIdentity(id protocol.PeerID) {
	s.parties.put(string(id), partyRow{
		ID:     id,
		ActsAs: s.ActsAs[id],
		Person: s.People[id],
		Agent:  s.Agents[id],
	}, "", true, s.seq)
}

// An applyFunc applies one event to the state.
type applyFunc func(s *state, e collab.Event) error

// applyFuncs has the applyFunc of each type of event.
var applyFuncs = func() map[string]applyFunc {
	m := map[string]applyFunc{collab.EventMessagePosted.Name: (*state).applyMessage}
	registerApply(m, (*state).applyConversation, collab.EventConversation)
	for _, kind := range []string{
		collab.EventQuestionCreated.Name, collab.EventQuestionAnswered.Name, collab.EventQuestionUpdated.Name,
		collab.EventWorkCreated.Name, collab.EventWorkUpdated.Name,
	} {
		m[kind] = (*state).applyRecord
	}
	registerApply(m, func(s *state, e collab.Event, w collab.WakeDecided) {
		s.wakes.put(wakeKey(w.RecordKind, w.RecordID), wakeRef{e.Seq, e.At, w.Reminded}, "", false, e.Seq)
	}, collab.EventWakeDecided)
	registerApply(m, func(s *state, e collab.Event, d collab.Delivery) {
		s.putDelivery(d, e.Seq)
	}, collab.EventDelivery, collab.EventDeliveryChanged)
	registerApply(m, (*state).applyWoken, collab.EventWoken)
	registerApply(m, (*state).applyEndpoint, collab.EventOnline, collab.EventOffline)
	registerApply(m, func(s *state, e collab.Event, gone collab.Endpoint) {
		s.dropEndpoint(gone.EndpointID, e.Seq)
	}, collab.EventAgentRetired)
	registerApply(m, (*state).applyInvocation, collab.EventInvocation)
	registerApply(m, (*state).applyFlight, collab.EventFlight)
	registerApply(m, (*state).applyBinding, collab.EventBinding)
	registerApply(m, (*state).applyClaim, collab.EventClaimGranted, collab.EventClaimContended,
		collab.EventClaimOffered,
		collab.EventClaimAnswered)
	registerApply(m, func(s *state, e collab.Event, a collab.Approval) {
		s.decisions.put(a.ID, &a, "", a.Open(), e.Seq)
	}, collab.EventDecisionAsked, collab.EventDecisionChanged)
	registerApply(m, func(s *state, e collab.Event, d collab.EventObligation) {
		s.obligations.put(collab.ObligationKey(d.EventID, d.Recipient), &d, "", d.Open(), e.Seq)
	}, collab.EventObligationOpened, collab.EventObligationChanged)
	return m
}()

// registerApply registers a function on the decoded payload for some types of events.
func registerApply[P any](m map[string]applyFunc, do func(*state, collab.Event, P), kinds ...collab.EventType[P]) {
	for _, kind := range kinds {
		m[kind.Name] = func(s *state, e collab.Event) error {
			var p P
			if err := json.Unmarshal(e.Payload, &p); err != nil {
				return err
			}
			do(s, e, p)
			return nil
		}
	}
}

// apply applies one event to the state. The outcome depends only on the state and the event.
func (s *state) apply(e collab.Event) error {
	if e.Seq != s.seq+1 {
		return fmt.Errorf("event %d follows event %d: the log has a gap", e.Seq, s.seq)
	}
	fold := applyFuncs[e.Type]
	if fold == nil {
		return fmt.Errorf("event %d has the unknown type %q: use the newer program that wrote it", e.Seq, e.Type)
	}
	if source := rules.Principal(protocol.PeerID(e.Source)); protocol.IsPerson(source) && !s.People[source] {
		s.People[source] = true
		s.keepIdentity(source)
	}
	err := fold(s, e)
	if err == nil {
		err = s.applyMetadata(e)
	}
	if err != nil {
		return fmt.Errorf("event %d (%s) cannot be read: %w", e.Seq, e.Type, err)
	}
	s.seq = e.Seq
	return nil
}

// applyMetadata stores the request that created the record of an event.
func (s *state) applyMetadata(e collab.Event) error {
	if e.Metadata == nil || e.Type == collab.EventMessagePosted.Name {
		return nil
	}
	var meta struct{ Digest string }
	err := json.Unmarshal(e.Metadata, &meta)
	if meta.Digest != "" {
		s.created.put(e.Target, meta.Digest, "", false, e.Seq)
	}
	return err
}

func (s *state) applyMessage(e collab.Event) error {
	m, meta, err := readMessage(e)
	if err != nil {
		return err
	}
	ref := messageRef{e.Seq, m.ConversationID, m.AuthorID, m.AuthorIdentity, meta.Digest}
	s.messages.put(m.ID, ref, m.ConversationID, false, e.Seq)
	if m.WorkItemID != "" && meta.Wake.Outcome == collab.OutcomeWoken {
		s.wakes.put(m.WorkItemID, wakeRef{Seq: e.Seq, At: e.At}, "", false, e.Seq)
	}
	return nil
}

func readMessage(e collab.Event) (m collab.Message, meta collab.PostMetadata, err error) {
	err = errors.Join(json.Unmarshal(e.Payload, &m), json.Unmarshal(e.Metadata, &meta))
	return m, meta, err
}

// applyRecord stores a work item or a question.
func (s *state) applyRecord(e collab.Event) error {
	r := &rules.Record{}
	if err := json.Unmarshal(e.Payload, r); err != nil {
		return err
	}
	s.records.put(r.ID, r, r.Kind, !r.Terminal(), e.Seq)
	return nil
}

func (s *state) applyConversation(e collab.Event, c collab.Conversation) {
	s.conversations.put(c.ID, &c, "", true, e.Seq)
}

func (s *state) applyInvocation(e collab.Event, i collab.Invocation) {
	s.invocations.put(i.ID, &i, "", true, e.Seq)
}

func (s *state) applyFlight(e collab.Event, f collab.Flight) {
	s.flights.put(f.ID, &f, "", !f.Terminal(), e.Seq)
	if i := s.invocations.get(f.InvocationID); i != nil && f.Terminal() {
		s.invocations.put(i.ID, i, "", false, e.Seq)
	}
}

func (s *state) applyBinding(e collab.Event, b collab.Binding) {
	s.bindings.put(bindingKey(b.Surface, b.ExternalID), &b, "", true, e.Seq)
}

// applyWoken marks a delivery as woken.
func (s *state) applyWoken(e collab.Event, w collab.Wake) {
	d := *s.deliveries.get(w.DeliveryID) // an earlier event requested it
	d.Wake, d.EndpointID, d.UpdatedAt = collab.WakeWoken, w.EndpointID, e.At
	s.putDelivery(d, e.Seq)
	s.wokenBy.put(d.ID, e.Seq, "", false, e.Seq)
}

// applyEndpoint stores an endpoint.
func (s *state) applyEndpoint(e collab.Event, announced collab.Endpoint) {
	ep := &rules.Endpoint{Endpoint: announced}
	if old := s.Endpoints[ep.EndpointID]; e.Type == collab.EventOffline.Name && old != nil {
		ep.Seq = old.Seq // going offline is not a sign of life
	} else {
		s.heartbeats++
		ep.Seq = s.heartbeats
	}
	s.Endpoints[ep.EndpointID] = ep
	s.parties.put("endpoint:"+ep.EndpointID, partyRow{Endpoint: &ep.Endpoint}, "", true, e.Seq)
	if e.Type == collab.EventOnline.Name {
		s.ActsAs[ep.Identity] = ep.LogicalAgentID
		s.Agents[ep.Identity], s.Agents[ep.AgentIdentity] = true, true
		s.keepIdentity(ep.Identity)
		s.keepIdentity(ep.AgentIdentity)
	}
}

func (s *state) dropEndpoint(id string, seq int64) {
	delete(s.Endpoints, id)
	s.parties.put("endpoint:"+id, partyRow{}, "", false, seq)
}

func (s *state) applyClaim(e collab.Event, c collab.Claim) {
	s.claims.put(c.EventID, &c, "", c.State == collab.ClaimHeld, e.Seq)
	if c.Token > s.counters.get(claimToken) {
		s.counters.put(claimToken, c.Token, "", true, e.Seq)
	}
}

// formatTime formats a time for a record.
func formatTime(t time.Time) string { return protocol.FormatTime(t) }
