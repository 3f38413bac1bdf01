package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
	"hubbub/protocol/wire"
)

// A link is one connection.
type link struct {
	stream jsonrpc.Stream
	conn   *jsonrpc.Conn
	ended  chan struct{} // closed when the reader has returned
	err    error         // why the reader returned; valid once ended is closed
}

const (
	backoffMin       = 50 * time.Millisecond
	backoffMax       = 10 * time.Second
	steadyAfter      = time.Second // a connection that lasted this long counts as good
	handshakeTimeout = 10 * time.Second
	keepAliveEvery   = 20 * time.Second
	pulseEvery       = time.Second
	handlerLimit     = time.Minute // a handler that runs longer is hung: its sender gave up after half of that
)

// Run connects and serves until ctx ends (nil), or until the bus refuses the peer permanently
// (ErrReplaced, ErrUnauthorized, ErrRefused). Call it once.
func (p *Peer) Run(ctx context.Context) (err error) {
	handlers, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer p.work.workers.Wait()
	if p.options.Heartbeat != nil {
		var pulsing sync.WaitGroup
		defer pulsing.Wait()
		pulsing.Go(func() { p.heartbeatLoop(handlers) })
	}
	defer cancel()
	defer p.finishWork(ctx)
	defer func() { p.stop(err) }()
	delay := backoffMin
	for attempt := 0; ; attempt++ {
		bus, began := p.options.Buses[attempt%len(p.options.Buses)], time.Now()
		connected, err := p.session(ctx, handlers, bus)
		switch {
		case ctx.Err() != nil:
			return nil
		case isFinal(err):
			return err
		case connected:
			delay = afterDrop(delay, time.Since(began))
			if p.options.OnDisconnect != nil {
				p.options.OnDisconnect(err)
			}
		}
		p.setFailure(err)
		p.options.Log.Warn().Err(err).Str("bus", bus).Msg("bus not connected; trying again")
		if (attempt+1)%len(p.options.Buses) != 0 && !connected {
			continue // try the next bus at once
		}
		if !retry.Sleep(ctx, delay/2+rand.N(delay)) {
			return nil
		}
		delay = min(2*delay, backoffMax)
	}
}

// afterDrop returns the delay before the next attempt after a connection has ended. A proxy or a
// crashing bus may drop connections immediately; the peer must not reconnect many times a second.
func afterDrop(delay, lasted time.Duration) time.Duration {
	if lasted >= steadyAfter {
		return backoffMin
	}
	return min(delay, steadyAfter)
}

// heartbeatLoop calls Options.Heartbeat while the peer is alive, until ctx ends.
func (p *Peer) heartbeatLoop(ctx context.Context) {
	ticker := time.NewTicker(pulseEvery)
	defer ticker.Stop()
	for {
		select {
		case at := <-ticker.C:
			p.current() // blocks if a goroutine holds p.mu forever
			if !p.work.isHung(at.Add(-handlerLimit)) {
				p.options.Heartbeat()
			}
		case <-ctx.Done():
			return
		}
	}
}

// stop notifies everyone who waits for a connection that Run has ended, and why.
func (p *Peer) stop(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped, p.link = true, nil
	if err != nil {
		p.failure = err
	}
	p.changed.Notify()
}

// isFinal reports whether an error makes further attempts useless.
func isFinal(err error) bool {
	return errors.Is(err, ErrReplaced) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrRefused)
}

// session runs one connection until it ends. It returns true if the bus accepted the peer.
func (p *Peer) session(ctx, handlers context.Context, bus string) (connected bool, err error) {
	stream, err := p.dial(ctx, bus)
	if err != nil {
		return false, err
	}
	l := &link{stream: stream, ended: make(chan struct{})}
	l.conn = jsonrpc.NewConn(stream, func(c *jsonrpc.Conn, m jsonrpc.Message) { p.receive(handlers, l, m) })
	go func() { // ends with the stream; waited for below
		l.err = l.conn.Run()
		close(l.ended)
	}()
	if err := p.open(ctx, l); err != nil {
		p.clearLink() // open may have failed after it made l the connection in use
		stream.Close(wire.CloseNormal, "")
		<-l.ended
		return false, p.explain(err, l.err)
	}
	p.options.Log.Info().Str("bus", bus).Str("peer", string(p.id)).Msg("connected")
	p.serve(ctx, l)
	<-l.ended
	return true, p.explain(ErrInterrupted, l.err)
}

func (p *Peer) dial(ctx context.Context, bus string) (jsonrpc.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	if p.options.Dial != nil {
		return p.options.Dial(ctx)
	}
	token, err := p.options.TokenFunc()
	if err != nil {
		return nil, err
	}
	stream, err := wire.Dial(ctx, bus, &wire.DialOptions{Token: token, TLS: p.options.TLS})
	var refused *wire.StatusError
	if errors.As(err, &refused) {
		switch refused.Code {
		case http.StatusUnauthorized:
			return nil, fmt.Errorf("%w: %w", ErrUnauthorized, err)
		case http.StatusForbidden:
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
	}
	if err != nil {
		return nil, err
	}
	return stream, nil
}

// open initializes the session, subscribes, and makes the connection the one in use.
func (p *Peer) open(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	held, err := p.initialize(ctx, l)
	if err != nil {
		return fmt.Errorf("initializing as %s: %w", p.id, err)
	}
	for {
		step := p.useOnceSubscribed(l, held)
		switch {
		case step == nil:
			return p.observePresence(ctx, l)
		case step.drop:
			if err := l.unsubscribe(ctx, step.pattern); err != nil {
				return fmt.Errorf("unsubscribing from %q: %w", step.pattern, err)
			}
			delete(held, step.pattern)
		default:
			if err := l.subscribe(ctx, step.pattern, step.observe); err != nil {
				return fmt.Errorf("subscribing to %q: %w", step.pattern, err)
			}
			held[step.pattern] = step.observe
		}
	}
}

// initialize sends the peer's identity and patterns in one step, so a peer that takes over its
// identity misses nothing. It returns the patterns that the connection is subscribed to (value:
// observe). A bus without this extension has none at first.
func (p *Peer) initialize(ctx context.Context, l *link) (map[protocol.Pattern]bool, error) {
	params := protocol.InitializeParams{ClientID: p.id}
	if p.options.Info.Name != "" {
		params.ClientInfo = &p.options.Info
	}
	wanted := p.wantedPatterns()
	for pattern, observe := range wanted {
		params.Subscriptions = append(params.Subscriptions,
			protocol.SubscribeParams{Topic: string(pattern), Observe: observe})
	}
	raw, err := l.call(ctx, protocol.MethodInitialize, params)
	if err != nil {
		return nil, err
	}
	var result protocol.InitializeResult
	if err := json.Unmarshal(raw, &result); err != nil || result.Subscribed != len(wanted) {
		clear(wanted)
	}
	return wanted, nil
}

// explain returns the error to report: the bus's refusal, or the reason why the stream ended.
func (p *Peer) explain(err, streamErr error) error {
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &refused) && refused.Code == protocol.CodeInvalidParams:
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case wire.CloseCode(streamErr) == protocol.CloseReplaced,
		refused != nil && refused.Code == protocol.CodeNotInitialized: // during the grace of a replaced session
		return ErrReplaced
	case streamErr != nil && errors.Is(err, ErrInterrupted):
		return fmt.Errorf("the connection ended: %w", streamErr)
	default:
		return err
	}
}

// serve waits until the connection or ctx ends, and then stops cleanly.
func (p *Peer) serve(ctx context.Context, l *link) {
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan struct{}, 2)
	started := 1
	go func() { p.keepAlive(alive, l); done <- struct{}{} }()
	if p.options.OnConnect != nil {
		started++
		go func() { p.options.OnConnect(alive); done <- struct{}{} }()
	}
	select {
	case <-l.ended:
	case <-ctx.Done():
		p.finishWork(ctx)
		l.stream.Close(wire.CloseNormal, "the peer is stopping")
	}
	p.clearLink()
	l.stream.Close(wire.CloseNormal, "")
	cancel()
	for range started {
		<-done
	}
}

// finishWork waits for running handlers until StopTimeout after the stop began. Only the first
// call waits.
func (p *Peer) finishWork(ctx context.Context) {
	p.finishing.Do(func() {
		from := time.Now()
		if told := p.stopping.Load(); told != nil {
			from = *told
		}
		limit, cancel := context.WithDeadline(context.WithoutCancel(ctx), from.Add(p.options.StopTimeout))
		defer cancel()
		p.work.close(limit)
	})
}

// keepAlive pings the bus, and ends the connection if the bus does not answer. A refusal is an
// answer: the bus refuses the pings of a session that was replaced, and closes it later.
func (p *Peer) keepAlive(ctx context.Context, l *link) {
	for retry.Sleep(ctx, keepAliveEvery) {
		limit, cancel := context.WithTimeout(ctx, keepAliveEvery)
		_, err := l.call(limit, protocol.MethodPing, struct{}{})
		cancel()
		var refused *jsonrpc.Error
		if err != nil && !errors.As(err, &refused) && ctx.Err() == nil {
			l.stream.Close(wire.ClosePolicy, "the bus does not answer")
			return
		}
	}
}

// receive handles one request from the bus, in the reader's goroutine.
func (p *Peer) receive(ctx context.Context, l *link, m jsonrpc.Message) {
	if string(m.Method) != protocol.MethodProcessMessage {
		if m.Kind == jsonrpc.KindRequest {
			l.conn.ReplyError(m.ID, jsonrpc.Errorf(jsonrpc.CodeMethodNotFound, "unknown method %.64q", m.Method))
		}
		return
	}
	d, err := parseDelivery(m.Params)
	id := append(jsonrpc.ID(nil), m.ID...)
	if err != nil {
		l.conn.ReplyError(id, jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "%v", err))
		return
	}
	if d.Topic == protocol.TopicPresence {
		p.handlePresence(l, d)
		return // nobody waits for the answer
	}
	err = p.work.add(string(d.Message.From), func(next func()) {
		d.next = next
		p.process(ctx, l, id, d)
	})
	if err != nil {
		l.conn.ReplyError(id, jsonrpc.Errorf(jsonrpc.CodeInternal, "%s %v", p.id, err))
	}
}

func parseDelivery(params []byte) (*Delivery, error) {
	var in protocol.ProcessParams
	if err := json.Unmarshal(params, &in); err != nil {
		return nil, fmt.Errorf("processMessage: %w", err)
	}
	d := &Delivery{Topic: in.Topic, Raw: in.Payload, Names: in.Names}
	if err := json.Unmarshal(in.Payload, &d.Message); err != nil {
		return nil, fmt.Errorf("the payload of processMessage: %w", err)
	}
	return d, nil
}

// process runs the handler of one delivery and answers the bus. It does nothing if the connection
// has ended, because the bus has then notified the sender.
func (p *Peer) process(ctx context.Context, l *link, id jsonrpc.ID, d *Delivery) {
	select {
	case <-l.ended:
		return
	default:
	}
	err := errExited
	defer func() { p.answer(l, id, d, err) }()
	err = p.handle(ctx, d)
}

// answer sends the bus the result of a delivery's handler.
func (p *Peer) answer(l *link, id jsonrpc.ID, d *Delivery, err error) {
	var rejected rejection
	switch {
	case err == nil:
		l.reply(id, `{"processed":true,"status":"ok"}`)
	case errors.As(err, &rejected):
		//nolint:errcheck // a string can always be marshalled
		quoted, _ := json.Marshal(text.Cut(string(rejected), maxReason))
		l.reply(id, `{"processed":false,"status":"rejected","message":`+string(quoted)+`}`)
	default:
		p.options.Log.Warn().Err(err).Str("message_id", string(d.Message.MessageID)).Str("type",
			string(d.Message.Type)).Msg("message not handled; the sender is notified")
		if id != nil {
			l.conn.ReplyError(id, jsonrpc.Errorf(jsonrpc.CodeInternal, "%s", text.Cut(err.Error(), maxReason)))
		}
	}
}

// maxReason limits the text in a handler's answer, in bytes.
const maxReason = 1000

func (l *link) reply(id jsonrpc.ID, result string) {
	if len(id) > 0 {
		l.conn.Reply(id, []byte(result))
	}
}

// handle runs the handler and converts a panic to an error.
func (p *Peer) handle(ctx context.Context, d *Delivery) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the handler of %s panicked: %v", d.Message.Type, r)
		}
	}()
	h := p.handlers[d.Message.Type]
	if h == nil {
		h = p.fallback
	}
	if h == nil {
		return nil
	}
	return h(ctx, d)
}
