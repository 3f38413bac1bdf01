package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/defaults"
	"hubbub/protocol/jsonrpc"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Peer. Nil is valid.
type Options struct {
	Buses       []string                  // WebSocket URLs, tried in turn; default ws://127.0.0.1:7892
	Token       string                    // credential; empty where the bus is open
	TokenFunc   func() (string, error)    // read anew at every connect; wins over Token
	TLS         *tls.Config               // for wss; default: the roots of the system (and of SSL_CERT_FILE)
	Info        protocol.Info             // name and version of the program
	Log         *zerolog.Logger           // default: no log
	Concurrency int                       // senders whose deliveries are handled at once; default 64
	Queue       int                       // deliveries that may wait; default 1024
	StopTimeout time.Duration             // for running handlers at the end; default 5s
	OnConnect   func(ctx context.Context) // called after each initialize and subscribe, in its own goroutine; ctx ends with the connection
	OnDrop      func(err error)           // called when a connection ended, before the next is tried
	Pulse       func()                    // called every second of Run while no handler hangs: none has run for over a minute
	Dial        DialFunc                  // default: WebSocket to Buses, with Token and TLS
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
// reason; any other error, or a panic, answers a JSON-RPC error. The sender
// reads either in its SendResult.
//
// The context goes on when the connection ends and when Run's ends; it ends
// Options.StopTimeout after that. A handler must then return, since Run waits
// for it.
type Handler func(ctx context.Context, d *Delivery) error

// A DialFunc opens a stream to a bus.
type DialFunc func(ctx context.Context) (jsonrpc.Stream, error)

// A Peer is one identity on the bus. Its methods may be called from any
// goroutine; Handle and HandleAny only before Run.
type Peer struct {
	id       protocol.PeerID
	options  Options
	handlers map[protocol.MessageType]Handler
	fallback Handler
	work     *queue

	finishing sync.Once                 // of work
	stopping  atomic.Pointer[time.Time] // when the work beside Run was told to end; nil before

	mu       sync.Mutex                // guards the fields below
	patterns map[protocol.Pattern]bool // value: observe
	order    []protocol.Pattern        // as they were added
	link     *link                     // the connection in use; nil while there is none
	changed  chan struct{}             // closed when link or stopped change
	stopped  bool
	failure  error // of the last try to connect, or of Run
}

// New makes a peer of the given identity. It does no I/O.
func New(id protocol.PeerID, opts *Options) *Peer {
	o := opts.withDefaults()
	return &Peer{
		id: id, options: o, handlers: map[protocol.MessageType]Handler{},
		work: newQueue(o.Concurrency, o.Queue), patterns: map[protocol.Pattern]bool{}, changed: make(chan struct{}),
	}
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	if len(out.Buses) == 0 {
		out.Buses = []string{"ws://127.0.0.1:7892"}
	}
	defaults.Positive(&out.Concurrency, 64)
	defaults.Positive(&out.Queue, 1024)
	defaults.Positive(&out.StopTimeout, 5*time.Second)
	if out.TokenFunc == nil {
		token := out.Token
		out.TokenFunc = func() (string, error) { return token, nil }
	}
	defaults.Log(&out.Log)
	return out
}

// ID returns the identity.
func (p *Peer) ID() protocol.PeerID { return p.id }

// NewMessage makes a message from this peer with a fresh id and the time now.
func (p *Peer) NewMessage(t protocol.MessageType, content any) protocol.Message {
	return protocol.NewMessage(t, p.id, content)
}

// Handle sets the handler of one message type. Types without one go to the
// HandleAny handler, or are answered "processed" and dropped.
func (p *Peer) Handle(t protocol.MessageType, h Handler) { p.handlers[t] = h }

// HandleAny sets the handler of every message type that has none of its own.
func (p *Peer) HandleAny(h Handler) { p.fallback = h }

// Subscribe adds patterns to the set that every connection subscribes to. Once
// Run is connected it waits for the bus's answer; a pattern that the bus
// refuses is not kept.
func (p *Peer) Subscribe(ctx context.Context, patterns ...protocol.Pattern) error {
	return p.add(ctx, patterns, false)
}

// Observe is Subscribe for patterns whose messages nobody waits for. The bus
// may drop some of them when this peer is slow, and records none of it.
func (p *Peer) Observe(ctx context.Context, patterns ...protocol.Pattern) error {
	return p.add(ctx, patterns, true)
}

func (p *Peer) add(ctx context.Context, patterns []protocol.Pattern, observe bool) error {
	for _, pattern := range patterns {
		l := p.keep(pattern, observe)
		if l == nil {
			continue
		}
		err := l.subscribe(ctx, pattern, observe)
		var refused *jsonrpc.Error
		if errors.As(err, &refused) {
			p.drop(pattern)
			return fmt.Errorf("subscribing to %q: %w", pattern, err)
		}
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A connection that ended subscribes again when it is back.
	}
	return nil
}

// keep adds a pattern and returns the connection that must be told; nil where
// the next one will be.
func (p *Peer) keep(pattern protocol.Pattern, observe bool) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.patterns[pattern]; !ok {
		p.order = append(p.order, pattern)
	}
	p.patterns[pattern] = observe
	return p.link
}

// drop removes a pattern, and returns what keep does.
func (p *Peer) drop(pattern protocol.Pattern) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.patterns, pattern)
	p.order = slices.DeleteFunc(p.order, func(o protocol.Pattern) bool { return o == pattern })
	return p.link
}

// Unsubscribe removes a pattern.
func (p *Peer) Unsubscribe(ctx context.Context, pattern protocol.Pattern) error {
	l := p.drop(pattern)
	if l == nil {
		return nil
	}
	err := l.unsubscribe(ctx, pattern)
	if errors.Is(err, ErrInterrupted) {
		return nil
	}
	return err
}

// Ready waits until the peer is connected and subscribed. Its errors are
// ErrNotConnected where ctx ends first, and ErrStopped.
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

// wait returns the connection in use, once there is one.
func (p *Peer) wait(ctx context.Context) (*link, error) {
	for {
		p.mu.Lock()
		l, stopped, changed := p.link, p.stopped, p.changed
		p.mu.Unlock()
		switch {
		case l != nil:
			return l, nil
		case stopped:
			return nil, p.because(ErrStopped)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, p.because(fmt.Errorf("%w: %w", ErrNotConnected, context.Cause(ctx)))
		}
	}
}

// because adds to an error why there is no connection, if that is known.
func (p *Peer) because(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, p.failure)
}

// failed keeps why there is no connection, for whoever waits for one.
func (p *Peer) failed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = err
}

// A subscribeStep is what a connection has yet to do for its subscriptions to be
// those that are wanted.
type subscribeStep struct {
	pattern protocol.Pattern
	observe bool
	drop    bool // it is wanted no more
}

// useOnceSubscribed makes a connection the one in use and returns nil if the
// patterns that it holds are those that are wanted. Otherwise it returns the next
// step towards that. It looks under the lock, since patterns come and go while a
// connection is opened.
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
	p.announceLocked()
	return nil
}

// unuse says that there is no connection.
func (p *Peer) unuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.link = nil
	p.announceLocked()
}

func (p *Peer) announceLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}
