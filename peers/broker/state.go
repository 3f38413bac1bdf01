package broker

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/protocol"
)

// A state is what the events so far amount to. It has one owner, the writer,
// and changes only by apply: live and after a restart it comes about in the
// same way (load passes over what cannot matter).
type state struct {
	seq           int64
	endpoints     map[string]*Endpoint
	actsAs        map[protocol.PeerID]string // the name that an identity announced last
	people        map[string]bool            // names that acted through a person's identity
	conversations map[string]*Conversation
	posts         map[string][]int64 // events of a conversation's messages
	messages      map[string]messageRef
	work          map[string]*WorkItem
	workOrder     []string
	questions     map[string]*Question
	questionOrder []string
	wakes         map[string]wakeRef // by id of the work item, question or flight
	invocations   map[string]*Invocation
	flights       map[string]*Flight
	deliveries    map[string]*Delivery
	deliveriesTo  map[string][]string // ids by target, oldest first
	openTo        map[string][]string // those of them that are not terminal
	wokenBy       map[string]int64    // the event that woke a delivery
	bindings      map[[2]string]*Binding
	claims        map[string]*Claim
	held          map[string]bool   // the claims that somebody holds
	token         int64             // the newest claim's
	created       map[string]string // digests of the requests that created records, by the event's target
}

// A messageRef says where a message is in the log; its text stays there.
type messageRef struct {
	seq            int64
	conversationID string
	authorID       string
	digest         string
}

// A wakeRef says when a record's wake was decided last, and where that stands.
type wakeRef struct {
	seq int64
	at  string
}

func newState() *state {
	return &state{
		endpoints: map[string]*Endpoint{}, actsAs: map[protocol.PeerID]string{}, people: map[string]bool{},
		conversations: map[string]*Conversation{}, posts: map[string][]int64{}, messages: map[string]messageRef{},
		work: map[string]*WorkItem{}, questions: map[string]*Question{}, wakes: map[string]wakeRef{},
		invocations: map[string]*Invocation{}, flights: map[string]*Flight{},
		deliveries: map[string]*Delivery{}, deliveriesTo: map[string][]string{}, openTo: map[string][]string{},
		wokenBy: map[string]int64{}, bindings: map[[2]string]*Binding{}, claims: map[string]*Claim{}, held: map[string]bool{},
		created: map[string]string{},
	}
}

// folds says what each type of event does to the state.
var folds = map[string]func(s *state, e Event) error{
	EventMessagePosted:    (*state).foldMessage,
	EventConversation:     (*state).foldConversation,
	EventQuestionCreated:  (*state).foldQuestion,
	EventQuestionAnswered: (*state).foldQuestion,
	EventQuestionUpdated:  (*state).foldQuestion,
	EventWorkCreated:      (*state).foldWork,
	EventWorkUpdated:      (*state).foldWork,
	EventWakeDecided: folded(func(s *state, e Event, w WakeDecided) {
		s.wakes[w.RecordID] = wakeRef{e.Seq, e.At}
	}),
	EventDelivery:        folded(func(s *state, _ Event, d Delivery) { s.putDelivery(d) }),
	EventDeliveryChanged: folded(func(s *state, _ Event, d Delivery) { s.putDelivery(d) }),
	EventWoken:           folded((*state).foldWoken),
	EventOnline:          folded((*state).foldEndpoint),
	EventHeartbeat:       folded((*state).foldEndpoint),
	EventOffline:         folded((*state).foldEndpoint),
	EventAgentRetired:    folded(func(s *state, _ Event, e Endpoint) { delete(s.endpoints, e.EndpointID) }),
	EventInvocation:      folded(func(s *state, _ Event, i Invocation) { s.invocations[i.ID] = &i }),
	EventFlight:          folded(func(s *state, _ Event, f Flight) { s.flights[f.ID] = &f }),
	EventBinding:         folded(func(s *state, _ Event, b Binding) { s.bindings[[2]string{b.Surface, b.ExternalID}] = &b }),
	EventClaimGranted:    folded((*state).foldClaim),
	EventClaimContended:  folded((*state).foldClaim),
	EventClaimOffered:    folded((*state).foldClaim),
	EventClaimAnswered:   folded((*state).foldClaim),
}

// folded makes a fold of a function on the decoded payload.
func folded[P any](fold func(s *state, e Event, p P)) func(*state, Event) error {
	return func(s *state, e Event) error {
		var p P
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			return err
		}
		fold(s, e, p)
		return nil
	}
}

// apply takes one event into the state. Its outcome depends on the state and the
// event alone.
func (s *state) apply(e Event) error {
	if e.Seq != s.seq+1 {
		return fmt.Errorf("event %d follows event %d: the log has a gap", e.Seq, s.seq)
	}
	return s.fold(e)
}

// fold is apply for an event that need not follow the last one.
func (s *state) fold(e Event) error {
	fold := folds[e.Type]
	if fold == nil {
		return fmt.Errorf("event %d has the unknown type %q: use the newer program that wrote it", e.Seq, e.Type)
	}
	if err := fold(s, e); err != nil {
		return fmt.Errorf("event %d (%s) cannot be read: %w", e.Seq, e.Type, err)
	}
	if source := protocol.PeerID(e.Source); isPerson(source) {
		s.people[bareName(e.Source)] = true
	}
	s.seq = e.Seq
	return nil
}

func (s *state) foldMessage(e Event) error {
	var m Message
	var meta postMetadata
	if err := json.Unmarshal(e.Payload, &m); err != nil {
		return err
	}
	if err := json.Unmarshal(e.Metadata, &meta); err != nil {
		return err
	}
	s.messages[m.ID] = messageRef{e.Seq, m.ConversationID, m.AuthorID, meta.Digest}
	s.posts[m.ConversationID] = append(s.posts[m.ConversationID], e.Seq)
	if m.WorkItemID != "" && meta.Wake.Outcome == OutcomeWoken {
		s.wakes[m.WorkItemID] = wakeRef{e.Seq, e.At}
	}
	return nil
}

func (s *state) foldConversation(e Event) error {
	var c Conversation
	if err := json.Unmarshal(e.Payload, &c); err != nil {
		return err
	}
	s.conversations[c.ID] = &c
	return s.foldDigest(e)
}

func (s *state) foldWork(e Event) error {
	var w WorkItem
	if err := json.Unmarshal(e.Payload, &w); err != nil {
		return err
	}
	if s.work[w.ID] == nil {
		s.workOrder = append(s.workOrder, w.ID)
	}
	s.work[w.ID] = &w
	return s.foldDigest(e)
}

func (s *state) foldQuestion(e Event) error {
	var q Question
	if err := json.Unmarshal(e.Payload, &q); err != nil {
		return err
	}
	if s.questions[q.ID] == nil {
		s.questionOrder = append(s.questionOrder, q.ID)
	}
	s.questions[q.ID] = &q
	return s.foldDigest(e)
}

// foldDigest remembers what request created the record that an event is about.
func (s *state) foldDigest(e Event) error {
	var meta stepMetadata
	if err := json.Unmarshal(e.Metadata, &meta); err != nil {
		return err
	}
	if meta.Digest != "" {
		s.created[e.Target] = meta.Digest
	}
	return nil
}

// foldWoken marks a delivery as woken, and its flight as waking.
func (s *state) foldWoken(e Event, w Wake) {
	d := *s.deliveries[w.DeliveryID]
	d.Wake, d.EndpointID, d.UpdatedAt = wakeWoken, w.EndpointID, e.At
	s.putDelivery(d)
	s.wokenBy[d.ID] = e.Seq
}

func (s *state) foldEndpoint(e Event, ep Endpoint) {
	ep.seq = e.Seq
	if e.Type == EventOffline {
		ep.seq = s.endpoints[ep.EndpointID].seq // falling silent is no sign of life
	}
	s.endpoints[ep.EndpointID] = &ep
	if e.Type == EventOnline {
		s.actsAs[ep.Identity] = ep.LogicalAgentID
	}
}

// lastHeartbeat takes in the last heartbeat of an endpoint after everything else
// was folded.
func (s *state) lastHeartbeat(e Event) error {
	var heard Endpoint
	if err := json.Unmarshal(e.Payload, &heard); err != nil {
		return fmt.Errorf("event %d (%s) cannot be read: %w", e.Seq, e.Type, err)
	}
	now := s.endpoints[heard.EndpointID]
	switch {
	case e.Seq < now.seq: // it was announced anew since
	case now.Status == StatusOnline:
		heard.seq = e.Seq
		s.endpoints[heard.EndpointID] = &heard
	default:
		now.seq = e.Seq
	}
	return nil
}

func (s *state) foldClaim(_ Event, c Claim) {
	s.claims[c.EventID] = &c
	s.token = max(s.token, c.Token)
	if delete(s.held, c.EventID); c.State == ClaimHeld {
		s.held[c.EventID] = true
	}
}

// stamp writes a time as records have it.
func stamp(t time.Time) string { return protocol.FormatTime(t) }

// parseTime reads a time that stamp wrote.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// clip shortens a text for a log line or an error.
func clip(s string, length int) string {
	if len(s) <= length {
		return s
	}
	return strings.ToValidUTF8(s[:length], "") + "…"
}
