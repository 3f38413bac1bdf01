package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/protocol"
)

const (
	maxOpen     = 20_000 // messages under way with spans
	maxFinished = 20_000 // messages whose trace is remembered for their answers
	maxTurns    = 10_000 // turns under way
)

// A spanMaker makes spans from rows. It is not safe for concurrent use.
type spanMaker struct {
	passes activitylog.Assembler
	open   map[*activitylog.Publication]*sending
	traces map[string]traced // of finished and open messages, by messageId
	turns  chain.Turns[int64]
}

// traced is what the answers to a message inherit.
type traced struct {
	own    parent // its trace and span; empty if it was not sampled
	stated parent // its traceparent
}

// A sending is a sampled message on its way through the bus.
type sending struct {
	trace      parent // the trace, and the span above
	id         string
	typ, actor string
	start      int64
	spans      []span
}

// A parent is a trace and a span in it.
type parent struct{ trace, span string }

// A span is a span of OTLP, as JSON.
type span struct {
	TraceID  string      `json:"traceId"`
	SpanID   string      `json:"spanId"`
	ParentID string      `json:"parentSpanId,omitempty"`
	Name     string      `json:"name"`
	Kind     int         `json:"kind"`
	Start    string      `json:"startTimeUnixNano"`
	End      string      `json:"endTimeUnixNano"`
	Attrs    []attribute `json:"attributes"`
	Status   status      `json:"status"`
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

type value struct {
	String string `json:"stringValue"`
}

type status struct {
	Code    int    `json:"code"` // 1 ok, 2 error
	Message string `json:"message,omitempty"`
}

const (
	kindInternal = 1
	kindProducer = 4
	kindConsumer = 5
)

func newSpanMaker() *spanMaker {
	return &spanMaker{
		passes: activitylog.Assembler{MaxPending: maxOpen}, open: map[*activitylog.Publication]*sending{},
		traces: map[string]traced{}, turns: chain.Turns[int64]{},
	}
}

// add adds a row and returns the spans that it completes.
func (m *spanMaker) add(r *activitylog.Row) []span {
	e := r.Entry(0)
	p, d := m.passes.Add(&e)
	if r.Event == activitylog.SendStart {
		p.Payload = nil // it may be large
		return m.begin(p, r)
	}
	s := m.open[p]
	switch {
	case s == nil:
	case r.Event == activitylog.ProcessFinish && !d.Start.IsZero():
		s.spans = append(s.spans, s.deliver(d, r))
	case r.Event == activitylog.SendFinish:
		delete(m.open, p)
		return append(s.spans, s.finish(r))
	}
	return nil
}

// begin begins the span of a message. If the message reports the end of a turn, begin returns the
// turn's span.
func (m *spanMaker) begin(p *activitylog.Publication, r *activitylog.Row) []span {
	var message struct {
		Type, InReplyTo, TraceParent string
		Content                      json.RawMessage
	}
	_ = json.Unmarshal(r.Payload, &message) // other payloads have no trace
	stated, sampled := parseParent(message.TraceParent)
	answered, known := m.traces[message.InReplyTo]
	above := chooseParent(stated, answered)
	if above.trace == "" {
		sampled = sampled && (!known || answered.own.trace != "")
		above.trace = idOf(16, r.MessageID)
	}
	if len(m.traces) >= maxFinished {
		clear(m.traces)
	}
	if !sampled {
		m.traces[r.MessageID] = traced{stated: stated}
		return nil
	}
	if len(m.open) >= maxOpen {
		clear(m.open)
	}
	s := &sending{trace: above, id: idOf(8, "send", r.MessageID, r.Topic, r.RPCID), typ: message.Type, actor: r.Actor,
		start: r.At}
	m.open[p] = s
	m.traces[r.MessageID] = traced{parent{above.trace, s.id}, stated}
	if message.Type != string(protocol.TypeAgentEvent) {
		return nil
	}
	return m.turn(above, r, message.Content)
}

// chooseParent returns the parent of a message. Peers copy the traceparent from the message that
// they answer. So a traceparent equal to that message's is less precise than inReplyTo.
func chooseParent(stated parent, answered traced) parent {
	if stated.trace == "" || answered.own.trace != "" && stated == answered.stated {
		return answered.own
	}
	return stated
}

// turn returns the span of a turn when its agent reports the end.
func (m *spanMaker) turn(above parent, r *activitylog.Row, content []byte) []span {
	var c protocol.TurnRecord
	if json.Unmarshal(content, &c) != nil || c.Event != protocol.RecordTurn || c.TurnID == "" {
		return nil
	}
	if len(m.turns) >= maxTurns {
		clear(m.turns)
	}
	start, ended := m.turns.Follow(r.Actor, &c, r.At)
	if !ended {
		return nil
	}
	s := span{
		TraceID: above.trace, SpanID: idOf(8, "turn", r.Actor, c.TurnID, r.MessageID), ParentID: above.span,
		Name: "turn", Kind: kindInternal,
		Start: nanos(start), End: nanos(r.At), Status: status{Code: 1},
		Attrs: attributes("hubbub.peer", r.Actor, "hubbub.turn", c.TurnID, "hubbub.state", c.State,
			"gen_ai.request.model", c.Model),
	}
	if c.State != "finished" {
		s.Status = status{Code: 2, Message: strings.TrimSuffix(c.State+": "+c.Reason, ": ")}
	}
	return []span{s}
}

func (s *sending) deliver(d *activitylog.Delivery, r *activitylog.Row) span {
	return span{
		TraceID: s.trace.trace, SpanID: idOf(8, "deliver", r.Actor, r.RPCID, r.MessageID, r.Topic), ParentID: s.id,
		Name: "deliver " + s.typ, Kind: kindConsumer,
		Start: nanos(d.Start.UnixMicro()), End: nanos(r.At), Status: statusOf(r),
		Attrs: attributes("messaging.system", "hubbub", "messaging.operation.name", "deliver",
			"messaging.destination.name", r.Topic,
			"messaging.message.id", r.MessageID, "hubbub.peer", r.Actor, "hubbub.outcome", r.Status),
	}
}

func (s *sending) finish(r *activitylog.Row) span {
	return span{
		TraceID: s.trace.trace, SpanID: s.id, ParentID: s.trace.span, Name: "send " + s.typ, Kind: kindProducer,
		Start: nanos(s.start), End: nanos(r.At), Status: statusOf(r),
		Attrs: attributes("messaging.system", "hubbub", "messaging.operation.name", "send",
			"messaging.destination.name", r.Topic,
			"messaging.message.id", r.MessageID, "hubbub.type", s.typ, "hubbub.from", s.actor, "hubbub.status",
			r.Status),
	}
}

func statusOf(r *activitylog.Row) status {
	switch r.Status {
	case activitylog.StatusOK, activitylog.StatusNoSubscriber:
		return status{Code: 1}
	}
	return status{Code: 2, Message: strings.TrimSuffix(r.Status+": "+r.Error, ": ")}
}

func attributes(pairs ...string) []attribute {
	list := make([]attribute, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		list = append(list, attribute{pairs[i], value{strings.ToValidUTF8(pairs[i+1], "\ufffd")}})
	}
	return list
}

func nanos(micros int64) string { return strconv.FormatInt(micros*1000, 10) }

// idOf returns an id of n bytes, derived from unique values.
func idOf(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:n])
}

// parseParent parses a W3C traceparent. It treats an invalid one as missing.
func parseParent(text string) (p parent, sampled bool) {
	parts := strings.Split(text, "-")
	if len(parts) < 4 || !isID(parts[1], 32) || !isID(parts[2], 16) || len(parts[3]) != 2 {
		return parent{}, true
	}
	flags, err := strconv.ParseUint(parts[3], 16, 8)
	if err != nil {
		return parent{}, true
	}
	return parent{parts[1], parts[2]}, flags&1 == 1
}

// isID reports whether s consists of n lowercase hex digits that are not all zero.
func isID(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}
