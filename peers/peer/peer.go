package peer

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"github.com/rs/zerolog"
)

// Errors of a peer.
var (
	// ErrReplaced ends Run: a newer session took over this identity.
	ErrReplaced = errors.New("another session took over this identity; two programs must not share one")
	// ErrUnauthorized ends Run: the bus knows no such token.
	ErrUnauthorized = errors.New("the bus refused the token; check --token-file or HUBBUB_TOKEN")
	// ErrRefused ends Run: the credential does not grant the identity or a pattern.
	ErrRefused = errors.New("the bus refused the identity or a subscription")
	// ErrInterrupted is Send's: the connection ended before the answer came.
	ErrInterrupted = errors.New("the connection ended before the bus answered; the message may have been delivered")
	// ErrStopped is Send's: Run has ended.
	ErrStopped = errors.New("the peer has stopped")
)

// Options are the optional settings of a Peer. Nil is valid.
type Options struct {
	Buses       []string                  // WebSocket URLs, tried in turn; default ws://127.0.0.1:7892
	Token       string                    // credential; empty where the bus is open
	TokenFunc   func() (string, error)    // read anew at every connect; wins over Token
	Info        protocol.Info             // name and version of the program
	Log         *zerolog.Logger           // default: no log
	Concurrency int                       // senders whose deliveries run at once; default 64
	Queue       int                       // deliveries that may wait; default 1024
	StopTimeout time.Duration             // for running handlers at the end; default 8s
	OnConnect   func(ctx context.Context) // called after each initialize and subscribe, in its own goroutine; ctx ends with the connection
	OnDrop      func(err error)           // called when a connection ended
	Dial        DialFunc                  // default: WebSocket
}

// A Delivery is one message that the bus delivered.
type Delivery struct {
	Topic   protocol.Topic
	Message protocol.Message
	Raw     json.RawMessage // the payload, byte for byte
}

// Decode unmarshals the message's content.
func (d *Delivery) Decode(into any) error { return json.Unmarshal(d.Message.Content, into) }

// A Handler takes one delivery. Nil answers "processed": the message is safe
// with this peer. An error made by Reject answers processed:false with its
// reason; any other error answers a JSON-RPC error.
type Handler func(ctx context.Context, d *Delivery) error

// Reject makes the error with which a handler refuses a delivery.
func Reject(reason string) error { return rejection(reason) }

type rejection string

func (r rejection) Error() string { return string(r) }

// A DialFunc opens a stream to a bus.
type DialFunc func(ctx context.Context) (jsonrpc.Stream, error)

// A Peer is one identity on the bus. Its methods may be called from any
// goroutine; Handle and HandleAny only before Run.
type Peer struct{}

// New makes a peer of the given identity. It does no I/O.
func New(id protocol.PeerID, opts *Options) *Peer { return &Peer{} }

// ID returns the identity.
func (p *Peer) ID() protocol.PeerID { panic("todo") }

// NewMessage makes a message from this peer with a fresh id and the time now.
func (p *Peer) NewMessage(t protocol.MessageType, content any) protocol.Message {
	return protocol.NewMessage(t, p.ID(), content)
}

// Handle sets the handler of one message type. Types without one go to the
// HandleAny handler, or are answered "processed" and dropped.
func (p *Peer) Handle(t protocol.MessageType, h Handler) { panic("todo") }

// HandleAny sets the handler of every message type that has none of its own.
func (p *Peer) HandleAny(h Handler) { panic("todo") }

// Subscribe adds patterns to the set that every connection subscribes to. Once
// Run is connected it waits for the bus's answer.
func (p *Peer) Subscribe(ctx context.Context, patterns ...protocol.Pattern) error { panic("todo") }

// Unsubscribe removes a pattern.
func (p *Peer) Unsubscribe(ctx context.Context, pattern protocol.Pattern) error { panic("todo") }

// Observe is Subscribe for a pattern whose messages nobody waits for.
func (p *Peer) Observe(ctx context.Context, patterns ...protocol.Pattern) error { panic("todo") }

// Send publishes a message and returns what became of it. It waits for a
// connection and for the bus's answer until ctx ends. Empty MessageID, From and
// Timestamp are filled in. The error is a *jsonrpc.Error when the bus refused
// the message.
func (p *Peer) Send(ctx context.Context, topic protocol.Topic, m protocol.Message) (protocol.SendResult, error) {
	panic("todo")
}

// Ready waits until the peer is connected and subscribed.
func (p *Peer) Ready(ctx context.Context) error { panic("todo") }

// Run connects and serves until ctx ends (nil), or until the bus refuses the
// peer for good (ErrReplaced, ErrUnauthorized, ErrRefused).
func (p *Peer) Run(ctx context.Context) error { panic("todo") }
