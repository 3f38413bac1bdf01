package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A state is what the events so far amount to. It has one owner, the writer, and
// changes only by apply, so that it is the same live and after a restart (load
// skips what cannot matter).
type state struct {
	seq int64
	partyState
	conversations map[string]*collab.Conversation
	posts         map[string][]int64 // events of a conversation's messages
	messages      map[string]messageRef
	records       map[string]*record // work items and questions
	order         []string           // their ids, oldest first
	wakes         map[string]wakeRef // by id of the record or flight
	bindings      map[[2]string]*collab.Binding
	created       map[string]string // digests of the requests that created records, by the event's target
	flightState
	deliveryState
	claimState
}

// A partyState is who is known.
type partyState struct {
	endpoints map[string]*endpoint
	actsAs    map[protocol.PeerID]string // the name that an identity announced last
	people    map[protocol.PeerID]bool   // those who ever asked for something
	agents    map[protocol.PeerID]bool   // those who ever announced themselves, and whose names they had
}

// A flightState is the invocations and their flights.
type flightState struct {
	invocations map[string]*collab.Invocation
	flights     map[string]*collab.Flight
}

// A deliveryState is the deliveries and their wakes.
type deliveryState struct {
	deliveries   map[string]*collab.Delivery
	deliveriesTo map[protocol.PeerID][]string // ids by target, oldest first
	openTo       map[protocol.PeerID][]string // those of them that are not terminal
	wokenBy      map[string]int64             // the event that woke a delivery
}

// A claimState is the claims on events.
type claimState struct {
	claims map[string]*collab.Claim
	held   map[string]bool // the claims that somebody holds
	token  int64           // the newest claim's
}

// A messageRef says where a message is in the log; its text stays there.
type messageRef struct {
	seq            int64
	conversationID string
	author         party
}

// A wakeRef says when a record's wake was decided last, and where that stands.
type wakeRef struct {
	seq int64
	at  string
}

func newState() *state {
	return &state{
		partyState: partyState{
			endpoints: map[string]*endpoint{}, actsAs: map[protocol.PeerID]string{},
			people: map[protocol.PeerID]bool{}, agents: map[protocol.PeerID]bool{},
		},
		conversations: map[string]*collab.Conversation{}, posts: map[string][]int64{}, messages: map[string]messageRef{},
		records: map[string]*record{}, wakes: map[string]wakeRef{}, bindings: map[[2]string]*collab.Binding{}, created: map[string]string{},
		flightState:   flightState{map[string]*collab.Invocation{}, map[string]*collab.Flight{}},
		deliveryState: deliveryState{map[string]*collab.Delivery{}, map[protocol.PeerID][]string{}, map[protocol.PeerID][]string{}, map[string]int64{}},
		claimState:    claimState{claims: map[string]*collab.Claim{}, held: map[string]bool{}},
	}
}

// A fold takes one event into the state.
type fold func(s *state, e collab.Event) error

// folds says what each type of event does to the state.
var folds = func() map[string]fold {
	m := map[string]fold{collab.EventMessagePosted.Name: (*state).foldMessage}
	on(m, (*state).foldConversation, collab.EventConversation)
	for _, kind := range []string{
		collab.EventQuestionCreated.Name, collab.EventQuestionAnswered.Name, collab.EventQuestionUpdated.Name,
		collab.EventWorkCreated.Name, collab.EventWorkUpdated.Name,
	} {
		m[kind] = (*state).foldRecord
	}
	on(m, func(s *state, e collab.Event, w collab.WakeDecided) { s.wakes[w.RecordID] = wakeRef{e.Seq, e.At} }, collab.EventWakeDecided)
	on(m, func(s *state, _ collab.Event, d collab.Delivery) { s.putDelivery(d) }, collab.EventDelivery, collab.EventDeliveryChanged)
	on(m, (*state).foldWoken, collab.EventWoken)
	on(m, (*state).foldEndpoint, collab.EventOnline, collab.EventHeartbeat, collab.EventOffline)
	on(m, func(s *state, _ collab.Event, e collab.Endpoint) { delete(s.endpoints, e.EndpointID) }, collab.EventAgentRetired)
	on(m, (*state).foldInvocation, collab.EventInvocation)
	on(m, (*state).foldFlight, collab.EventFlight)
	on(m, (*state).foldBinding, collab.EventBinding)
	on(m, (*state).foldClaim, collab.EventClaimGranted, collab.EventClaimContended, collab.EventClaimOffered, collab.EventClaimAnswered)
	return m
}()

// on registers a function on the decoded payload as the fold of some types of event.
func on[P any](m map[string]fold, do func(s *state, e collab.Event, p P), kinds ...collab.EventType[P]) {
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

// apply takes one event into the state. Its outcome depends on the state and the
// event alone.
func (s *state) apply(e collab.Event) error {
	if e.Seq != s.seq+1 {
		return fmt.Errorf("event %d follows event %d: the log has a gap", e.Seq, s.seq)
	}
	return s.fold(e)
}

// fold is apply without the check that the event follows the last one.
func (s *state) fold(e collab.Event) error {
	fold := folds[e.Type]
	if fold == nil {
		return fmt.Errorf("event %d has the unknown type %q: use the newer program that wrote it", e.Seq, e.Type)
	}
	if source := protocol.PeerID(e.Source); isPerson(source) {
		s.people[principal(source)] = true
	}
	err := fold(s, e)
	if err == nil {
		err = s.foldMetadata(e)
	}
	if err != nil {
		return fmt.Errorf("event %d (%s) cannot be read: %w", e.Seq, e.Type, err)
	}
	s.seq = e.Seq
	return nil
}

// foldMetadata remembers which request created the record that an event is about.
func (s *state) foldMetadata(e collab.Event) error {
	if e.Metadata == nil || e.Type == collab.EventMessagePosted.Name {
		return nil
	}
	var meta struct{ Digest string }
	err := json.Unmarshal(e.Metadata, &meta)
	if meta.Digest != "" {
		s.created[e.Target] = meta.Digest
	}
	return err
}

func (s *state) foldMessage(e collab.Event) error {
	m, meta, err := readMessage(e)
	if err != nil {
		return err
	}
	s.identifySource(e, m.AuthorID, &m.AuthorIdentity)
	s.messages[m.ID] = messageRef{e.Seq, m.ConversationID, party{m.AuthorID, m.AuthorIdentity}}
	s.created["message:"+m.ID] = meta.Digest
	s.posts[m.ConversationID] = append(s.posts[m.ConversationID], e.Seq)
	if m.WorkItemID != "" && meta.Wake.Outcome == collab.OutcomeWoken {
		s.wakes[m.WorkItemID] = wakeRef{e.Seq, e.At}
	}
	return nil
}

func readMessage(e collab.Event) (m collab.Message, meta collab.PostMetadata, err error) {
	err = errors.Join(json.Unmarshal(e.Payload, &m), json.Unmarshal(e.Metadata, &meta))
	return m, meta, err
}

// foldRecord takes a work item or a question.
func (s *state) foldRecord(e collab.Event) error {
	r := &record{}
	if err := json.Unmarshal(e.Payload, r); err != nil {
		return err
	}
	before := s.records[r.ID]
	if before == nil {
		s.order = append(s.order, r.ID)
		s.identifySource(e, r.CreatedByID, &r.CreatedByIdentity)
		before = r
	}
	for i, f := range r.parties() {
		if was := before.parties()[i]; *f.id == "" && *f.name == *was.name {
			*f.id = *was.id
		}
		s.identify(*f.name, f.id)
	}
	s.records[r.ID] = r
	return nil
}

func (s *state) foldConversation(e collab.Event, c collab.Conversation) {
	s.identifySource(e, c.CreatedByID, &c.CreatedByIdentity)
	s.identify(c.MasterID, &c.MasterIdentity)
	for i := len(c.MemberIdentities); i < len(c.MemberIDs); i++ {
		c.MemberIdentities = append(c.MemberIdentities, "")
		s.identify(c.MemberIDs[i], &c.MemberIdentities[i])
	}
	s.conversations[c.ID] = &c
}

func (s *state) foldInvocation(e collab.Event, i collab.Invocation) {
	s.identifySource(e, i.RequestedByID, &i.RequestedByIdentity)
	s.identify(i.TargetAgentID, &i.TargetIdentity)
	s.invocations[i.ID] = &i
}

func (s *state) foldFlight(_ collab.Event, f collab.Flight) {
	s.identify(f.RequestedByID, &f.RequestedByIdentity)
	s.identify(f.TargetAgentID, &f.TargetIdentity)
	s.flights[f.ID] = &f
}

func (s *state) foldBinding(_ collab.Event, b collab.Binding) {
	s.identify(b.AgentID, &b.Identity)
	s.bindings[[2]string{b.Surface, b.ExternalID}] = &b
}

// foldWoken marks a delivery as woken.
func (s *state) foldWoken(e collab.Event, w collab.Wake) {
	d := *s.deliveries[w.DeliveryID] // which was requested before
	d.Wake, d.EndpointID, d.UpdatedAt = wakeWoken, w.EndpointID, e.At
	s.putDelivery(d)
	s.wokenBy[d.ID] = e.Seq
}

// foldEndpoint takes an endpoint. One of a released version under a name that is not its
// own was vouched for by nobody: it is forgotten, so that it must be announced anew.
func (s *state) foldEndpoint(e collab.Event, announced collab.Endpoint) {
	ep := &endpoint{announced, e.Seq}
	if ep.AgentIdentity == "" && ep.Identity == agentID(ep.LogicalAgentID) {
		ep.AgentIdentity = ep.Identity
	}
	if ep.AgentIdentity == "" {
		delete(s.endpoints, ep.EndpointID)
		return
	}
	if old := s.endpoints[ep.EndpointID]; e.Type == collab.EventOffline.Name && old != nil {
		ep.seq = old.seq // falling silent is no sign of life
	}
	s.endpoints[ep.EndpointID] = ep
	if e.Type == collab.EventOnline.Name {
		s.actsAs[ep.Identity] = ep.LogicalAgentID
		s.agents[ep.Identity], s.agents[ep.AgentIdentity] = true, true
	}
}

// lastHeartbeat folds the last heartbeat of an endpoint after all other events were.
func (s *state) lastHeartbeat(e collab.Event) error {
	heard := endpoint{seq: e.Seq}
	if err := json.Unmarshal(e.Payload, &heard); err != nil {
		return fmt.Errorf("event %d (%s) cannot be read: %w", e.Seq, e.Type, err)
	}
	now := s.endpoints[heard.EndpointID]
	heard.AgentIdentity = now.AgentIdentity
	switch {
	case e.Seq < now.seq: // it was announced anew since
	case now.Status == collab.StatusOnline:
		s.endpoints[heard.EndpointID] = &heard
	default:
		now.seq = e.Seq
	}
	return nil
}

func (s *state) foldClaim(_ collab.Event, c collab.Claim) {
	s.claims[c.EventID] = &c
	s.token = max(s.token, c.Token)
	if delete(s.held, c.EventID); c.State == collab.ClaimHeld {
		s.held[c.EventID] = true
	}
}

// stamp formats a time for a record.
func stamp(t time.Time) string { return protocol.FormatTime(t) }
