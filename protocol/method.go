package protocol

import "encoding/json"

// The methods of the protocol (section 5).
const (
	MethodInitialize     = "initialize"
	MethodSubscribe      = "subscribe"
	MethodUnsubscribe    = "unsubscribe"
	MethodSendMessage    = "sendMessage"
	MethodProcessMessage = "processMessage"
	MethodPing           = "ping"
)

// CloseReplaced is the WebSocket close code for a session whose clientId was
// taken over by a newer one. A client that sees it must not reconnect.
const CloseReplaced = 4001

// BearerSubprotocol prefixes the WebSocket subprotocol in which a browser
// sends its token.
const BearerSubprotocol = "hubbub.bearer."

// InitializeParams opens a session (section 4.1). The subscriptions, an extension, apply from the
// moment when the session has its identity, so a takeover has no gap.
type InitializeParams struct {
	ClientID      PeerID            `json:"clientId"`
	ClientInfo    *Info             `json:"clientInfo,omitempty"`
	Subscriptions []SubscribeParams `json:"subscriptions,omitempty"`
}

// Info names a program and its version.
type Info struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// InitializeResult answers initialize. Subscribed is the number of applied subscriptions. A bus
// without this extension omits it.
type InitializeResult struct {
	ServerID     string       `json:"serverId"`
	ServerInfo   Info         `json:"serverInfo"`
	Capabilities Capabilities `json:"capabilities"`
	Subscribed   int          `json:"subscribed,omitempty"`
}

// Capabilities says what the bus can do. Topics is informational.
type Capabilities struct {
	Subscribe      bool     `json:"subscribe"`
	Publish        bool     `json:"publish"`
	ProcessMessage bool     `json:"processMessage"`
	Topics         []string `json:"topics"`
}

// SubscribeParams requests a pattern. With Observe, the bus sends the same processMessage
// requests, but waits for no answer and may drop some.
type SubscribeParams struct {
	Topic   string `json:"topic"`
	Observe bool   `json:"observe,omitempty"`
}

// SendParams publishes a message to a topic (section 5.3).
type SendParams struct {
	Topic   Topic   `json:"topic"`
	Payload Message `json:"payload"`
	// a repeat of (from, messageId) within ten minutes gets the first outcome, at any bus
	Once bool `json:"once,omitempty"`
}

// A SendResult answers sendMessage after every target has answered, failed or timed out. Failures
// take at most half a frame. If there are too many, the bus first omits their errors, then the
// last failures, and reports how many. If a limit of the sender's credential blocks the message,
// it is not accepted and reaches no peer. The result then has one failure, with the sender and
// OutcomeRate.
type SendResult struct {
	Accepted    bool      `json:"accepted"`
	MessageID   MessageID `json:"messageId"`
	DeliveredTo int       `json:"deliveredTo"` // peers that processed the message
	Failures    []Failure `json:"failures,omitempty"`
	Omitted     int       `json:"omitted,omitempty"` // number of failures omitted from the list
	Addressee   Addressee `json:"addressee,omitempty"`
	Partial     bool      `json:"partial,omitempty"` // the result covers only a part of the cluster
	Missing     []string  `json:"missing,omitempty"` // known buses that the result does not cover
}

// A Failure is a peer that did not process a message, and the reason. Written means that the
// message was on its way when the bus stopped waiting, so the peer may have received it. A
// timeout or offline failure without Written was never sent.
type Failure struct {
	Peer    PeerID  `json:"peer"`
	Status  Outcome `json:"status"`
	Error   string  `json:"error,omitempty"`
	Written bool    `json:"written,omitempty"`
}

// An Outcome says how one delivery ended.
type Outcome string

// The outcomes of a delivery.
const (
	OutcomeOK       Outcome = "ok"       // answered, processed not false
	OutcomeError    Outcome = "error"    // a JSON-RPC error or an unusable result
	OutcomeRejected Outcome = "rejected" // processed:false
	OutcomeTimeout  Outcome = "timeout"  // no answer in time
	OutcomeOffline  Outcome = "offline"  // the connection ended while the bus waited
	OutcomeOverflow Outcome = "overflow" // the peer's queue was full
	OutcomeRate     Outcome = "rate"     // a limit of the sender's credential blocked the message
)

// An Addressee is the outcome of the delivery to the peer that the topic names.
type Addressee string

// The outcomes at the addressee.
const (
	AddresseeOK     Addressee = "ok"
	AddresseeFailed Addressee = "failed"
	AddresseeAbsent Addressee = "absent"
)

// ProcessParams delivers a message to a subscriber (section 5.4). Names, an extension, are
// patterns of names that the sender's credential allows it to announce in addition to its own
// identity. On an open bus, they are all names. Only collab_request has them.
type ProcessParams struct {
	Topic   Topic           `json:"topic"`
	Payload json.RawMessage `json:"payload"`
	Names   []string        `json:"names,omitempty"`
}

// ProcessResult answers processMessage. Processed means that the peer has accepted and stored the
// message, not that it has replied. If it is false, the sender gets Reason and Message.
type ProcessResult struct {
	Processed bool   `json:"processed"`
	Status    string `json:"status,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}
