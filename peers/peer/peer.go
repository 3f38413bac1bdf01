package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/defaults"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/notify"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Peer. Nil is valid.
type Options struct {
	Buses       []string               // WebSocket URLs, tried in order; default ws://127.0.0.1:7892
	Token       string                 // credential; empty if the bus is open
	TokenFunc   func() (string, error) // called for every connection; overrides Token
	TLS         *tls.Config            // for wss; default: the system's roots, or those of SSL_CERT_FILE
	Info        protocol.Info          // name and version of the program
	Log         *zerolog.Logger        // default: no log
	Concurrency int                    `positive:"64"`   // number of deliveries that are handled at once
	Queue       int                    `positive:"1024"` // deliveries that may wait
	StopTimeout time.Duration          `positive:"5s"`   // for running handlers when Run ends
	// called in its own goroutine when connected and subscribed; ctx ends with the connection
	OnConnect    func(ctx context.Context)
	OnDisconnect func(err error) // called after a connection has ended, before the next attempt
	// called every second of Run, unless a handler has run for more than a minute
	Heartbeat func()
	Dial      DialFunc // default: WebSocket to Buses, with Token and TLS
}

// A Delivery is one message that the bus delivered.
type Delivery struct {
	Topic   protocol.Topic
	Message protocol.Message
	Raw     json.RawMessage // the payload, byte for byte
	Names   []string        // identities that the sender may announce; see protocol.ProcessParams

	next func() // see Next; nil outside a handler
}

// Next lets the next delivery of the same sender be handled before the handler of d returns. Call
// it when nothing that follows in the handler depends on the order, such as a wait for the disk.
func (d *Delivery) Next() {
	if d.next != nil {
		d.next()
	}
}

// Decode unmarshals the message's content.
func (d *Delivery) Decode(into any) error { return json.Unmarshal(d.Message.Content, into) }

// A Handler handles one delivery. Nil answers "processed": the message is safe with this peer. An
// error of Reject answers processed:false with its reason. Any other error, or a panic, answers a
// JSON-RPC error. The sender reads the answer in its SendResult.
//
// The context does not end with the connection. It ends Options.StopTimeout after the context of
// Run. The handler must then return, because Run waits for it.
type Handler func(ctx context.Context, d *Delivery) error

// A DialFunc opens a stream to a bus.
type DialFunc func(ctx context.Context) (jsonrpc.Stream, error)

// A Peer is one identity on the bus. Its methods may be called from any goroutine, except Handle
// and HandleAny, which must be called before Run.
type Peer struct {
	id       protocol.PeerID
	options  Options
	handlers map[protocol.MessageType]Handler
	fallback Handler
	work     *queue
	presence presenceState

	finishing sync.Once                 // guards the end of the handlers' work
	stopping  atomic.Pointer[time.Time] // when RunWith ended the context of its work; nil before

	mu       sync.Mutex                // guards the fields below
	patterns map[protocol.Pattern]bool // value: observe
	order    []protocol.Pattern        // in the order of Subscribe
	link     *link                     // the connection in use, or nil
	changed  notify.Broadcast          // link or stopped changed
	stopped  bool
	failure  error // of the last attempt to connect, or of Run
}

// New makes a peer of the given identity. It does no I/O.
func New(id protocol.PeerID, opts *Options) *Peer {
	o := opts.withDefaults()
	return &Peer{
		id: id, options: o, handlers: map[protocol.MessageType]Handler{},
		work: newQueue(o.Concurrency, o.Queue), patterns: map[protocol.Pattern]bool{},
	}
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	if len(out.Buses) == 0 {
		out.Buses = []string{"ws://127.0.0.1:7892"}
	}
	if out.TokenFunc == nil {
		token := out.Token
		out.TokenFunc = func() (string, error) { return token, nil }
	}
	defaults.Log(&out.Log)
	return out
}

// ID returns the identity.
func (p *Peer) ID() protocol.PeerID { return p.id }

// NewMessage makes a message from this peer with a new id and the current time.
func (p *Peer) NewMessage(t protocol.MessageType, content any) protocol.Message {
	return protocol.NewMessage(t, p.id, content)
}

// Handle sets the handler of one message type. Messages of other types go to the handler of
// HandleAny. Without it, they are answered "processed" and dropped.
func (p *Peer) Handle(t protocol.MessageType, h Handler) { p.handlers[t] = h }

// HandleAny sets the handler of all message types that have no handler of their own.
func (p *Peer) HandleAny(h Handler) { p.fallback = h }

// Subscribe adds patterns for this connection and all later ones. If the peer is connected,
// Subscribe waits for the bus's answers, and does not keep a pattern that the bus refuses.
func (p *Peer) Subscribe(ctx context.Context, patterns ...protocol.Pattern) error {
	return p.add(ctx, patterns, false)
}

// Observe is Subscribe for a peer that only watches. Senders do not wait for it. The bus may drop
// messages while this peer is slow, and records nothing about them.
func (p *Peer) Observe(ctx context.Context, patterns ...protocol.Pattern) error {
	return p.add(ctx, patterns, true)
}

func (p *Peer) add(ctx context.Context, patterns []protocol.Pattern, observe bool) error {
	for _, pattern := range patterns {
		l := p.addPattern(pattern, observe)
		if l == nil {
			continue
		}
		err := l.subscribe(ctx, pattern, observe)
		var refused *jsonrpc.Error
		if errors.As(err, &refused) {
			p.removePattern(pattern)
			return fmt.Errorf("subscribing to %q: %w", pattern, err)
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// If the connection has ended, the next one subscribes to the pattern.
	}
	return nil
}

// addPattern adds a pattern to the set. It returns the connection that must subscribe to the
// pattern, or nil.
func (p *Peer) addPattern(pattern protocol.Pattern, observe bool) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.patterns[pattern]; !ok {
		p.order = append(p.order, pattern)
	}
	p.patterns[pattern] = observe
	return p.link
}

// removePattern removes a pattern from the set. It returns the connection in use, or nil.
func (p *Peer) removePattern(pattern protocol.Pattern) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.patterns, pattern)
	p.order = slices.DeleteFunc(p.order, func(o protocol.Pattern) bool { return o == pattern })
	return p.link
}

// Unsubscribe removes a pattern, also for later connections. If the peer is connected, it waits for
// the bus's answer.
func (p *Peer) Unsubscribe(ctx context.Context, pattern protocol.Pattern) error {
	l := p.removePattern(pattern)
	if l == nil {
		return nil
	}
	err := l.unsubscribe(ctx, pattern)
	if errors.Is(err, ErrInterrupted) {
		return nil
	}
	return err
}

// Ready waits until the peer is connected and subscribed. It returns ErrNotConnected if
// ctx ends first, and ErrStopped if Run has ended.
func (p *Peer) Ready(ctx context.Context) error {
	_, err := p.wait(ctx)
	return err
}

// current returns the connection in use, or nil.
func (p *Peer) current() *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.link
}

// wait waits for a connection and returns it.
func (p *Peer) wait(ctx context.Context) (*link, error) {
	for {
		changed := p.changed.C()
		p.mu.Lock()
		l, stopped := p.link, p.stopped
		p.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case stopped:
			return nil, p.withCause(ErrStopped)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, p.withCause(fmt.Errorf("%w: %w", ErrNotConnected, context.Cause(ctx)))
		}
	}
}

// withCause adds the reason why there is no connection to an error, if it is known.
func (p *Peer) withCause(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, p.failure)
}

// setFailure stores the reason why there is no connection.
func (p *Peer) setFailure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
}

// wantedPatterns returns the patterns that every connection subscribes to (value: observe).
func (p *Peer) wantedPatterns() map[protocol.Pattern]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := make(map[protocol.Pattern]bool, len(p.patterns))
	maps.Copy(wanted, p.patterns)
	return wanted
}

// A subscribeStep is one change towards the wanted subscriptions of a connection.
type subscribeStep struct {
	pattern protocol.Pattern
	observe bool
	drop    bool // the pattern is no longer wanted
}

// useOnceSubscribed makes l the connection in use and returns nil if its subscriptions (held)
// equal the wanted patterns. Otherwise it returns the next step. It compares them under the lock,
// because patterns may change while a connection is opened.
func (p *Peer) useOnceSubscribed(l *link, held map[protocol.Pattern]bool) *subscribeStep {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pattern := range p.order {
		observe := p.patterns[pattern]
		if now, ok := held[pattern]; !ok || now != observe {
			return &subscribeStep{pattern: pattern, observe: observe}
		}
	}
	for pattern := range held {
		if _, ok := p.patterns[pattern]; !ok {
			return &subscribeStep{pattern: pattern, drop: true}
		}
	}
	p.link, p.failure = l, nil
	p.changed.Notify()
	return nil
}

// clearLink records that there is no connection.
func (p *Peer) clearLink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = nil
	p.changed.Notify()
}
