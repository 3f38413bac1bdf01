package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"hubbub/activitylog"
)

const (
	maxOpen     = 20_000 // messages under way that are followed
	maxFinished = 20_000 // messages whose trace is remembered for those that answer them
	maxTurns    = 10_000 // turns under way that are followed
)

// An assembler makes spans of rows. It is not safe for concurrent use.
type assembler struct {
	open   map[string]*pass  // by message and topic
	traces map[string]traced // of finished and open messages, by messageId
	turns  map[string]int64  // when each began, by agent and turnId
}

// traced is what a message hands on to those that answer it.
type traced struct {
	own    parent // its trace, and its span in it; empty where it was not sampled
	stated parent // what its traceparent said
}

// A pass is one message on its way through the bus.
type pass struct {
	trace      parent // trace, and the span above
	id         string
	start      activitylog.Row
	typ        string
	deliveries map[string]activitylog.Row // process_start, by target and rpc id
	spans      []span
}

// A parent is a trace and a span in it.
type parent struct{ trace, span string }

// A span is one of OTLP, as JSON.
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

func newAssembler() *assembler {
	return &assembler{open: map[string]*pass{}, traces: map[string]traced{}, turns: map[string]int64{}}
}

// add takes a row and returns the spans that it completes.
func (a *assembler) add(r *activitylog.Row) []span {
	key := r.MessageID + "\x00" + r.Topic
	switch r.Event {
	case activitylog.SendStart:
		return a.begin(key, r)
	case activitylog.ProcessStart:
		if p := a.open[key]; p != nil {
			p.deliveries[r.Actor+"\x00"+r.RPCID] = *r
		}
	case activitylog.ProcessFinish:
		if p := a.open[key]; p != nil {
			p.deliver(r)
		}
	case activitylog.SendFinish:
		if p := a.open[key]; p != nil {
			delete(a.open, key)
			return append(p.spans, p.finish(r))
		}
	}
	return nil
}

// begin follows a message from its send_start on. A message that tells the end of
// a turn completes the turn's span.
func (a *assembler) begin(key string, r *activitylog.Row) []span {
	var m struct {
		Type, InReplyTo, TraceParent string
		Content                      json.RawMessage
	}
	_ = json.Unmarshal(r.Payload, &m) // what is no message has no trace of its own
	stated, sampled := parseParent(m.TraceParent)
	answered, known := a.traces[m.InReplyTo]
	above := chooseParent(stated, answered)
	if above.trace == "" {
		sampled = sampled && (!known || answered.own.trace != "")
		above.trace = idOf(16, r.MessageID)
	}
	if len(a.traces) >= maxFinished {
		clear(a.traces)
	}
	if !sampled {
		a.traces[r.MessageID] = traced{stated: stated}
		return nil
	}
	if len(a.open) >= maxOpen {
		clear(a.open)
	}
	p := &pass{trace: above, id: idOf(8, "send", key, r.RPCID), start: *r, typ: m.Type, deliveries: map[string]activitylog.Row{}}
	p.start.Payload = nil // it may be large
	a.open[key] = p
	a.traces[r.MessageID] = traced{parent{above.trace, p.id}, stated}
	if m.Type != "agent_event" {
		return nil
	}
	return a.turn(above, r, m.Content)
}

// chooseParent says below what a message belongs. Peers hand the traceparent on as
// it came: one that equals that of the message answered says less than inReplyTo.
func chooseParent(stated parent, answered traced) parent {
	if stated.trace == "" || answered.own.trace != "" && stated == answered.stated {
		return answered.own
	}
	return stated
}

// turn makes the span of a turn from what its agent tells of it: that it started,
// and that it ended.
func (a *assembler) turn(above parent, r *activitylog.Row, content []byte) []span {
	var c struct{ Event, TurnID, State, Reason, Model string }
	if json.Unmarshal(content, &c) != nil || c.Event != activitylog.RecordTurn || c.TurnID == "" {
		return nil
	}
	key := r.Actor + "\x00" + c.TurnID
	start, begun := a.turns[key]
	switch {
	case c.State == "accepted": // it goes on
		return nil
	case c.State == "started":
		if len(a.turns) >= maxTurns {
			clear(a.turns)
		}
		a.turns[key] = r.At
		return nil
	case !begun:
		return nil
	}
	delete(a.turns, key)
	s := span{
		TraceID: above.trace, SpanID: idOf(8, "turn", key, r.MessageID), ParentID: above.span, Name: "turn", Kind: kindInternal,
		Start: nanos(start), End: nanos(r.At), Status: status{Code: 1},
		Attrs: attributes("hubbub.peer", r.Actor, "hubbub.turn", c.TurnID, "hubbub.state", c.State, "gen_ai.request.model", c.Model),
	}
	if c.State != "finished" {
		s.Status = status{Code: 2, Message: strings.TrimSuffix(c.State+": "+c.Reason, ": ")}
	}
	return []span{s}
}

func (p *pass) deliver(r *activitylog.Row) {
	key := r.Actor + "\x00" + r.RPCID
	start, ok := p.deliveries[key]
	if !ok {
		return
	}
	delete(p.deliveries, key)
	p.spans = append(p.spans, span{
		TraceID: p.trace.trace, SpanID: idOf(8, "deliver", key, r.MessageID, r.Topic), ParentID: p.id, Name: "deliver " + p.typ, Kind: kindConsumer,
		Start: nanos(start.At), End: nanos(r.At), Status: statusOf(r),
		Attrs: attributes("messaging.system", "hubbub", "messaging.operation.name", "deliver", "messaging.destination.name", r.Topic,
			"messaging.message.id", r.MessageID, "hubbub.peer", r.Actor, "hubbub.outcome", r.Status),
	})
}

func (p *pass) finish(r *activitylog.Row) span {
	return span{
		TraceID: p.trace.trace, SpanID: p.id, ParentID: p.trace.span, Name: "send " + p.typ, Kind: kindProducer,
		Start: nanos(p.start.At), End: nanos(r.At), Status: statusOf(r),
		Attrs: attributes("messaging.system", "hubbub", "messaging.operation.name", "send", "messaging.destination.name", r.Topic,
			"messaging.message.id", r.MessageID, "hubbub.type", p.typ, "hubbub.from", p.start.Actor, "hubbub.status", r.Status),
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

// idOf makes an id of n bytes from what is unique.
func idOf(n int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:n])
}

// parseParent reads a W3C traceparent. One that cannot be read counts as none.
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

// isID reports whether a text is so many lowercase hex digits, and not all zero.
func isID(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == "" && strings.Trim(s, "0") != ""
}
