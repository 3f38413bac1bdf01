package bus

import "hubbub/protocol"

// A Cluster joins this bus with others. Package bus/cluster implements it over NATS. Its methods
// are called on the hot path and must not block.
type Cluster interface {
	// Attach gives the cluster its bus. It is called first.
	Attach(Local)
	// Joined is called when a session has taken an identity, and Left when a session has ended.
	// If another session takes over the identity, only Joined is called.
	Joined(m Member)
	Left(peer protocol.PeerID, stamp Stamp)
	// Subscribed and Unsubscribed are called when a session's patterns change.
	Subscribed(peer protocol.PeerID, pattern protocol.Pattern, observe bool)
	Unsubscribed(peer protocol.PeerID, pattern protocol.Pattern)
	// Forward sends a message to another bus. It calls Complete or Fail once, unless
	// f.Peers is empty.
	Forward(f *Forward)
	// CheckDuplicate asks the other buses whether this bus may deliver a message that was sent
	// with once. It calls done once with their replies. A bus that is out of reach does not
	// reply.
	CheckDuplicate(key DedupKey, done func([]DedupReply, error))
	// ShareOutcome sends the outcome of a message that was sent with once to the other buses.
	ShareOutcome(key DedupKey, answer []byte)
	// FailPending calls Fail on each forward without an outcome and on all later ones,
	// and ends all pending calls of CheckDuplicate. The bus calls it when it stops.
	FailPending(reason string)
	// Missing returns the names of the buses that are out of reach. It returns nil if there are
	// none, and an empty slice if some may be missing that this bus does not know.
	Missing() []string
	// Status returns what /readyz shows about the cluster.
	Status() any
}

// A Stamp orders the sessions of one identity: the greater stamp is newer.
type Stamp struct {
	At  int64  `json:"at"`  // unix nanoseconds of initialize, raised above every stamp that the bus has seen
	Bus string `json:"bus"` // of the session
}

// Newer reports whether s is newer than o.
func (s Stamp) Newer(o Stamp) bool { return s.At > o.At || s.At == o.At && s.Bus > o.Bus }

// Local is how a Cluster uses its bus.
type Local interface {
	// Members returns the sessions of this bus and their patterns.
	Members() []Member
	// RemoteJoined records that another bus has a session of an identity, and takes the identity
	// from every older session, here and elsewhere, in one step. If a session of this bus is
	// newer, it returns that session and true. It ignores a session older than a known one of
	// another bus.
	RemoteJoined(bus string, m Member) (newer Member, ok bool)
	// AddRemotePattern adds or changes a pattern of a peer of another bus, and
	// RemoveRemotePattern removes it. Both do nothing unless that bus has the identity.
	AddRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern, observe bool)
	RemoveRemotePattern(bus string, peer protocol.PeerID, pattern protocol.Pattern)
	// RemoveRemotePeer removes the session of a peer, and RemoveBus a whole bus.
	RemoveRemotePeer(bus string, peer protocol.PeerID, stamp Stamp)
	RemoveBus(bus string)
	// SetBusMissing sets whether a bus is out of reach. Its peers stay known, and count as
	// offline in the results of messages to them.
	SetBusMissing(bus string, missing bool)
	// RetainRemotePeers removes the peers of a bus whose sessions are not in the map.
	RetainRemotePeers(bus string, sessions map[protocol.PeerID]Stamp)
	// Deliver delivers a message that another bus accepted to the named sessions of this
	// bus. It does not wait for the outcome: it calls done once with it.
	Deliver(m AcceptedMessage, to []protocol.PeerID, done func(Result))
	// AnswerDuplicateCheck replies to the CheckDuplicate of another bus, and StoreOutcome
	// stores what another bus sent with ShareOutcome.
	AnswerDuplicateCheck(asker BusInstance, key DedupKey) DedupReply
	StoreOutcome(key DedupKey, answer []byte)
}

// A Member is one session, in the form that buses exchange.
type Member struct {
	Peer     protocol.PeerID           `json:"peer"`
	Stamp    Stamp                     `json:"stamp"`
	Patterns map[protocol.Pattern]bool `json:"patterns,omitempty"` // value: observe
}

// An AcceptedMessage was checked and accepted by this bus or another one.
type AcceptedMessage struct {
	Topic     string
	MessageID string
	From      string
	Names     []string // that the sender may announce; see protocol.ProcessParams
	Payload   []byte
}

// A Result is the outcome of a message at one bus.
type Result struct {
	Targets     int                `json:"targets"`
	DeliveredTo int                `json:"deliveredTo"`
	Failures    []protocol.Failure `json:"failures,omitempty"`
	Addressee   protocol.Addressee `json:"addressee,omitempty"`
	Absent      []protocol.PeerID  `json:"gone,omitempty"` // named peers that are not at this bus
}
