package c2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/subprocess"
	"hubbub/peers/proc"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
)

const (
	maxOutbound = 256     // lines waiting for the program to read them
	maxLine     = 1 << 20 // bytes in a line from the program
)

var errNoRedelivery = errors.New("the program did not accept the event, and takes no event twice (its capability " +
	"delivery.redelivery is false)")

var errNotReading = errors.New("the program does not read its input")

// A session is one run of the program.
type session struct {
	h       *Harness
	host    harness.Host
	process *subprocess.Process
	out     chan []byte
	calls   chan *frame
	started chan error // receives the outcome of initialize
	initID  string
	agreed  *negotiated // set when initialize is answered, before the session becomes current

	mu      sync.Mutex
	open    map[string]*frame // requests of the program without an answer, by ID as written
	dropped int               // number of unreadable lines
}

// serve talks to the program until ctx or the program ends.
func (h *Harness) serve(ctx context.Context, process *subprocess.Process, host harness.Host) error {
	s := &session{
		h: h, host: host, process: process, open: map[string]*frame{},
		out: make(chan []byte, maxOutbound), calls: make(chan *frame, maxOutbound), started: make(chan error, 1),
	}
	h.mu.Lock()
	s.initID = h.requestIDLocked("initialize")
	h.withdrawn = harness.NewCache[string, bool](1024)
	h.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { s.writeLoop(ctx) })
	wg.Go(func() { s.readLoop() })
	wg.Go(func() { s.callLoop(ctx) })
	err := s.run(ctx)
	process.Fail(err)
	process.Stop()
	wg.Wait()
	return err
}

// run initializes the program and sends deliveries until it ends.
func (s *session) run(ctx context.Context) error {
	if err := s.initialize(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		var timer <-chan time.Time
		if next := s.deliver(ctx); !next.IsZero() {
			timer = time.After(time.Until(next))
		}
		select {
		case <-timer:
		case <-s.h.due.C():
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// initialize sends initialize and waits for its answer.
func (s *session) initialize(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.h.opts.InitTimeout,
		fmt.Errorf("%s did not answer initialize within %s", s.h.argv[0], s.h.opts.InitTimeout))
	defer cancel()
	s.request(
		s.initID,
		"initialize",
		map[string]any{
			"protocolVersion": s.h.opts.Version,
			"clientInfo":      s.h.opts.Info,
			"capabilities":    ourCapabilities,
		},
	)
	select {
	case err := <-s.started:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handleInitialize handles the answer to initialize, before any later line is read: the program
// may call tools immediately.
func (s *session) handleInitialize(f *frame) error {
	if s.agreed != nil {
		return nil // a second answer
	}
	if f.Error != nil {
		return fmt.Errorf("%s refused initialize: %s (%d)", s.h.argv[0], redact(f.Error.Message), f.Error.Code)
	}
	agreed, err := negotiate(s.h.opts.Version, f.Result)
	if err != nil {
		return fmt.Errorf("%s: %w", s.h.argv[0], err)
	}
	s.agreed = agreed
	s.h.supervisor.SetCurrent(s)
	return nil
}

// deliver sends the deliveries that are due, in order, and returns when the next one is due.
func (s *session) deliver(ctx context.Context) time.Time {
	s.h.mu.Lock()
	due, next := s.h.dueLocked(s, time.Now())
	s.h.mu.Unlock()
	for _, d := range due {
		if ctx.Err() != nil {
			return time.Time{}
		}
		if again := s.deliverOne(d); next.IsZero() || again.Before(next) {
			next = again
		}
	}
	return next
}

// deliverOne sends the next attempt of a delivery and returns when it is due again.
func (s *session) deliverOne(d *delivery) time.Time {
	again := time.Now().Add(s.h.opts.AnswerTimeout)
	if !s.agreed.supportsMode(d.turn.Event.Mode) {
		s.h.settle(d, harness.ErrModeUnsupported)
		return again
	}
	if d.turn.Attempted != nil {
		if err := d.turn.Attempted(d.next); err != nil {
			s.h.settle(d, fmt.Errorf("storing the attempt: %w", err))
			return again
		}
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	switch {
	case d.settled:
		return again
	case (len(d.ids) > 0 || d.turn.Event.Interrupted) && !s.agreed.has("delivery", "redelivery"):
		s.h.settleLocked(d, errNoRedelivery)
		return again
	}
	d.attempt = d.next
	d.next++
	d.lastID = s.h.requestIDLocked("deliver")
	d.ids = append(d.ids, d.lastID)
	d.ids = d.ids[max(0, len(d.ids)-64):] // answers to older attempts are not recognized
	d.sentTo, d.due = s, again
	s.h.tokens.Add(d.lastID, d.turn.ID)
	s.request(d.lastID, "chat/deliver", deliverParams(d.turn, s.agreed, d.attempt))
	return again
}

// sendCancelled tells the program to stop working on a request, if both sides support that.
func (s *session) sendCancelled(requestID, reason string) {
	if s.agreed.has("utilities", "cancellation") {
		params := marshal(map[string]any{"requestId": requestID, "reason": reason})
		s.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":%s}`, params))
	}
}

// send queues a frame. It ends a program that lets the queue fill up.
func (s *session) send(line []byte) {
	select {
	case s.out <- line:
	default:
		s.process.Fail(errNotReading)
	}
}

// request sends a request.
func (s *session) request(id, method string, params any) {
	s.send(jsonrpc.AppendRequestText(nil, strconv.Quote(id), method, string(marshal(params))))
}

// answer answers a request.
func (s *session) answer(id json.RawMessage, result any) {
	s.send(jsonrpc.AppendResult(nil, jsonrpc.ID(id), marshal(result)))
}

// refuse answers a request with an error. A nil ID is written as null.
func (s *session) refuse(id json.RawMessage, code int, message string) {
	s.send(jsonrpc.AppendError(nil, jsonrpc.ID(id), jsonrpc.Errorf(code, "%s", message)))
}

func (s *session) writeLoop(ctx context.Context) {
	for {
		select {
		case line := <-s.out:
			if _, err := s.process.Stdin.Write(append(line, '\n')); err != nil {
				return // run notices that the program has ended
			}
		case <-ctx.Done():
			return
		}
	}
}

// readLoop reads the program's output to its end.
func (s *session) readLoop() {
	lines := &proc.LineWriter{Max: maxLine, OnLine: s.handleLine}
	if _, err := io.Copy(lines, s.process.Stdout); err != nil {
		s.h.opts.Log.Debug().Err(err).Msg("output of the harness program not read to the end")
	}
	lines.Flush()
	close(s.calls)
}

// handleLine handles one line from the program.
func (s *session) handleLine(line []byte, cut bool) {
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return
	}
	if cut {
		s.dropLine(line, fmt.Errorf("the line is too long: the maximum is %d bytes", maxLine))
		return
	}
	f, err := parseFrame(line)
	if err != nil {
		s.dropLine(line, err)
		return
	}
	s.dispatch(f)
}

// dropLine counts an unreadable line, and logs the first and every hundredth. If the line was
// meant as a message, dropLine answers it with the ID null, as JSON-RPC requires: otherwise the
// caller would wait forever. A complete object that does not name JSON-RPC is a log line and gets
// no answer, since the program might log the answer, and so on forever.
func (s *session) dropLine(line []byte, err error) {
	var object struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
	}
	code := jsonrpc.CodeInvalidRequest
	broken := json.Unmarshal(line, &object) != nil
	if broken {
		code = jsonrpc.CodeParse
	}
	// A program that writes many such lines may not be reading, so these answers leave half of
	// the queue free.
	if bytes.HasPrefix(line, []byte("{")) && (broken || len(object.JSONRPC) > 0) && len(s.out) < maxOutbound/2 {
		s.refuse(nil, code, err.Error())
	}
	s.dropped++
	if s.dropped%100 == 1 {
		s.h.opts.Log.Warn().
			Err(err).
			Int("lines", s.dropped).
			Msg("line of the harness program dropped; its stdout must contain only JSON-RPC")
	}
}

// dispatch routes one frame. It never blocks.
func (s *session) dispatch(f *frame) {
	switch {
	case f.Method == nil:
		s.handleAnswer(f)
	case f.hasID():
		f.stale = s.h.isStale(f.event())
		f.turn, f.revision = s.h.revisionOf(f.event())
		s.mu.Lock()
		s.open[string(f.ID)] = f
		s.mu.Unlock()
		select {
		case s.calls <- f:
		default:
			s.forgetCall(f)
			s.refuse(f.ID, codeBusy, "too many concurrent calls; call again when one is answered")
		}
	default:
		s.handleNotification(*f.Method, f.Params)
	}
}

// handleAnswer handles an answer to one of our requests. An error answer to a delivery counts as
// no answer.
func (s *session) handleAnswer(f *frame) {
	var id string
	if json.Unmarshal(f.ID, &id) != nil {
		return
	}
	if id == s.initID {
		select {
		case s.started <- s.handleInitialize(f):
		default:
		}
		return
	}
	if f.Error != nil {
		s.h.opts.Log.Warn().
			Str("request", id).
			Str("error", redact(f.Error.Message)).
			Msg("delivery refused by the harness program; sending it again")
		return
	}
	var result struct {
		Accepted *bool `json:"accepted"`
	}
	if json.Unmarshal(f.Result, &result) != nil || result.Accepted != nil && !*result.Accepted {
		return
	}
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.acceptLocked(id)
}

// redact shortens a text from the program and redacts keys.
func redact(message string) string { return text.Clip(harness.Redact(message), 300) }

// Error codes in addition to those of JSON-RPC.
const (
	codeNotInitialized = -32001
	codeBusy           = -32000
)

// A frame is one line from the program: a request, a notification or an answer. It is parsed more
// leniently than a frame of the bus: the JSON-RPC version is optional, and the last value of a
// repeated key counts.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`

	stale          bool   // for a tool call: its event had been withdrawn when the call came
	turn, revision string // for a tool call: the text that the program had when the call came

	// for a tool call; guarded by the mutex of its session
	withdrawn bool
	cancel    context.CancelCauseFunc // nil while the call waits
}

// event returns the event that a tool call names, or "".
func (f *frame) event() string {
	var params struct {
		Arguments struct {
			EventID   string `json:"eventId"`
			InReplyTo string `json:"inReplyTo"`
		} `json:"arguments"`
	}
	json.Unmarshal(f.Params, &params) //nolint:errcheck // unreadable arguments name none, and are refused later
	return cmp.Or(params.Arguments.EventID, params.Arguments.InReplyTo)
}

// parseFrame parses a line. The error says why it is not a JSON-RPC message.
func parseFrame(line []byte) (*frame, error) {
	var f frame
	if err := json.Unmarshal(line, &f); err != nil {
		return nil, fmt.Errorf("not a JSON-RPC object: %w", err)
	}
	if f.Method == nil && len(f.ID) == 0 {
		return nil, errors.New("neither a method nor an id")
	}
	return &f, nil
}

// hasID reports whether a frame has an ID, as requests and answers do.
func (f *frame) hasID() bool { return len(f.ID) > 0 && string(f.ID) != "null" }

// marshal encodes a value as one line of JSON.
func marshal(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("a C2A frame cannot be marshaled: " + err.Error())
	}
	return raw
}
