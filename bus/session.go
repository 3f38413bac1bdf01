package bus

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
	"hubbub/protocol/wire"
)

// A session is one live connection of a peer. Only its reader, the goroutine in serve,
// reads the stream. The reader acts on each message itself and starts no other
// goroutine.
type session struct {
	server *Server
	stream jsonrpc.Stream
	conn   connection
	client client
	self   subscriber      // represents the session in the index
	id     protocol.PeerID // set once by registry.register; others may read it once lifecycle.ready is set
	stamp  Stamp           // set with id
	batch  *batch          // of the reader; nil while it waits
	dirty  atomic.Bool     // a batch will flush the stream
	order  publishOrder

	mu        sync.Mutex // guards the fields below
	lifecycle lifecycle
	patterns  map[protocol.Pattern]bool // value: observe
	window    window
	pings     pings
}

// A connection says where a session comes from.
type connection struct {
	remote string // address
	opened time.Time
}

// A publishOrder keeps the messages of one sender in order. Only a bus in a cluster needs it.
type publishOrder struct {
	mu        sync.Mutex // held while a message is routed; guards published
	published uint64     // messages
}

// pings are the state of pinging a peer.
type pings struct {
	waiting bool // for an answer
	last    time.Time
}

// serve reads until the stream ends.
func (s *session) serve() {
	s.stream.BeforeWait(s.releaseBatch)
	if p, ok := s.stream.(pingNotifier); ok {
		p.OnPing(func() { // the reader is waiting in Read
			s.client.chargeOverhead(time.Now())
			s.pauseReading()
		})
	}
	err := s.read()
	code, reason := closeCode(err, &s.server.metrics)
	s.acquireBatch()
	s.batch.settle()
	s.end(s.batch, reason)
	s.releaseBatch()
	s.stream.Close(code, reason)
}

// acquireBatch gets a batch for the reader until it waits again. releaseBatch returns it.
func (s *session) acquireBatch() {
	if s.batch == nil {
		s.batch = batches.Get().(*batch)
		s.batch.server, s.batch.at = s.server, time.Now()
	}
}

func (s *session) releaseBatch() {
	if s.batch != nil {
		s.batch.release()
		s.batch = nil
	}
}

func (s *session) read() error {
	for {
		frame, err := s.stream.Read()
		if err != nil {
			return err
		}
		s.acquireBatch()
		s.batch.counts.frames++
		if err := s.handle(frame); err != nil {
			return err
		}
		s.pauseReading()
	}
}

// pauseReading waits if the credential has caused too many refusals and pings. Meanwhile,
// backpressure holds back what the peer writes.
func (s *session) pauseReading() {
	if s.client.pause > 0 {
		s.releaseBatch()
		time.Sleep(s.client.pause)
		s.client.pause = 0
	}
}

// closeCode returns the code and reason for closing a stream whose Read failed with err.
func closeCode(err error, m *metrics) (int, string) {
	var closed *wire.CloseError
	switch {
	case errors.Is(err, jsonrpc.ErrNotUTF8):
		return wire.CloseNotUTF8, err.Error()
	case errors.As(err, &closed):
		if closed.Code == wire.CloseTooLarge {
			m.limit(limitFrame)
		}
		if closed.Code == wire.ClosePolicy && closed.Reason == "slow consumer" {
			m.limit(limitWrite)
		}
		return closed.Code, closed.Reason
	case ended(err):
		return wire.CloseNormal, "the connection ended"
	default:
		return wire.CloseProtocol, "the frame breaks the WebSocket protocol"
	}
}

// ended reports whether err means that the connection has ended, so that a close frame would not
// arrive.
func ended(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.As(err, &network)
}

// handle acts on one frame. It returns an error only if the connection must end.
func (s *session) handle(frame []byte) error {
	if id, ok := processedAnswer(frame); ok {
		s.handleProcessed(id)
		return nil
	}
	s.batch.settle() // earlier answers come first in the log
	m, err := s.batch.parser.Parse(frame)
	if err != nil {
		var refusal *jsonrpc.Error
		if !errors.As(err, &refusal) {
			return err
		}
		if m.Kind == jsonrpc.KindResponse {
			s.handleAnswer(m, err)
			return nil
		}
		if m.Kind == 0 {
			s.handleAnswer(m, err) // an invalid frame with the id of a delivery is an attempt to answer it
		} else {
			s.client.chargeOverhead(s.batch.at)
		}
		s.replyError(s.batch, m.ID, refusal)
		return nil
	}
	if m.Kind == jsonrpc.KindResponse {
		s.handleAnswer(m, nil)
		return nil
	}
	if !s.lifecycle.ready.Load() && (s.id != "" || string(m.Method) != protocol.MethodInitialize) {
		why := "the first request must be initialize"
		if s.id != "" {
			why = errReplaced
		}
		s.refuse(m, jsonrpc.Errorf(protocol.CodeNotInitialized, "%s", why))
		return nil
	}
	s.dispatch(m)
	return nil
}

// dispatch calls the method that a request names.
func (s *session) dispatch(m jsonrpc.Message) {
	if string(m.Method) == protocol.MethodPing {
		if len(m.Params) > 0 && strings.IndexByte("{[n", m.Params[0]) < 0 { // ping takes none
			s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidParams, "params must be an object"))
			return
		}
		s.client.chargeOverhead(s.batch.at)
		s.answer(m, []byte(`{"timestamp":"`+protocol.FormatTime(s.batch.at)+`"}`))
		return
	}
	if err := protocol.CheckRequestID(m.ID); err != nil { // other methods record the id in the log
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInvalidRequest, "%v", err))
		return
	}
	switch string(m.Method) {
	case protocol.MethodSendMessage:
		s.sendMessage(m)
	case protocol.MethodSubscribe:
		s.subscribe(m)
	case protocol.MethodUnsubscribe:
		s.unsubscribe(m)
	case protocol.MethodInitialize:
		s.initialize(m)
	default:
		name := text.Cut(string(m.Method), maxErrorText)
		s.refuse(m, jsonrpc.Errorf(protocol.CodeMethodNotFound, "unknown method %q", name))
	}
}

// answer replies to a request. It ignores notifications.
func (s *session) answer(m jsonrpc.Message, result []byte) {
	if m.Kind == jsonrpc.KindRequest {
		s.reply(s.batch, m.ID, result)
	}
}

// refuse replies to a request with an error. It only counts notifications.
func (s *session) refuse(m jsonrpc.Message, e *jsonrpc.Error) {
	s.client.chargeOverhead(s.batch.at)
	s.server.metrics.refused.Add(1)
	if m.Kind == jsonrpc.KindRequest {
		s.replyError(s.batch, m.ID, e)
	}
}

func (s *session) reply(b *batch, id jsonrpc.ID, result []byte) {
	b.frame = jsonrpc.AppendResult(b.frame[:0], id, result)
	s.stream.Write(b.frame) //nolint:errcheck // an error is the end of the stream, which the reader finds too
	b.touch(s)
}

func (s *session) replyError(b *batch, id jsonrpc.ID, e *jsonrpc.Error) {
	b.frame = jsonrpc.AppendError(b.frame[:0], id, e)
	s.stream.Write(b.frame) //nolint:errcheck // see reply
	b.touch(s)
}

// end removes the session from the bus. The session gets no more deliveries, and its unanswered
// ones fail as offline. Only the first call has an effect.
func (s *session) end(b *batch, reason string) {
	s.mu.Lock()
	if s.lifecycle.ended {
		s.mu.Unlock()
		return
	}
	s.lifecycle.ended, s.lifecycle.endReason = true, reason
	b.at = time.Now() // a delivery that fails here may have been accepted after the old b.at
	calls := s.window.takeAll()
	patterns, tell := s.patterns, s.lifecycle.recorded
	s.patterns, s.lifecycle.recorded = nil, false
	s.client.usage.removeSubscriptions(len(patterns))
	s.mu.Unlock()

	for p := range patterns {
		s.server.index.remove(&s.self, p)
	}
	s.server.unregister(s)
	s.server.sessions.remove(s)
	for _, d := range calls {
		d.finish(b, protocol.OutcomeOffline, nil, "the connection ended while the bus waited")
	}
	if c := s.server.options.Cluster; c != nil && s.lifecycle.ready.Load() {
		c.Left(s.id, s.stamp)
	}
	if tell {
		s.recordDisconnect(b, reason)
	}
}

// evict ends a session from outside its reader. It closes the stream in the
// background, since the close handshake waits for the peer. b is the caller's batch.
func (s *session) evict(b *batch, code int, reason string) {
	s.end(b, reason)
	s.server.shutdown.background.Go(func() { s.stream.Close(code, reason) })
}

// The optional methods of a stream. A stream in memory has none of them.
type (
	// A pinger can ask its peer for a sign of life.
	pinger interface {
		Ping(context.Context) error
		HasUnread() bool // reports whether the session has input to read
	}
	// A pingNotifier calls a function for each ping of its peer.
	pingNotifier interface{ OnPing(func()) }
	// A slowReporter reports whether its peer reads slowly.
	slowReporter interface{ Slow() bool }
	// An inputReporter reports whether Read has input that it has not returned.
	inputReporter interface{ HasBuffered() bool }
	// A hangUpReporter reports whether its peer has closed the connection.
	hangUpReporter interface{ HungUp() bool }
)

var (
	_ pinger         = (*wire.WebSocket)(nil)
	_ pingNotifier   = (*wire.WebSocket)(nil)
	_ slowReporter   = (*wire.WebSocket)(nil)
	_ inputReporter  = (*wire.WebSocket)(nil)
	_ hangUpReporter = (*wire.WebSocket)(nil)
)
