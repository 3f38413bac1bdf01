package chain

import (
	"cmp"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// clues are the members of a message that determine its place in a chain.
type clues struct {
	id      string
	typ     protocol.MessageType
	from    string
	topic   string
	at      time.Time
	trace   string   // trace id of its traceparent
	answers []string // ids or sourceIds of the messages that it answers or reports on, the most reliable first

	sourceID  string    // of its chat event
	createdAt time.Time // of that event
	requestID string    // of a request, or of the request that it answers
	route     string    // route_assigned, configure, tg_message: the chat and its agent
}

// cluesOf returns the clues in a send_start row.
func cluesOf(e *activitylog.Entry) clues {
	var content struct {
		InReplyTo, SourceID, EventID, RequestID, CreatedAt, MessageID string
		Topic, Agent, TalkTo                                          string
	}
	p, _ := e.Decode(&content) // content that cannot be decoded has no clues
	from := string(p.From)
	c := clues{id: e.MessageID, typ: p.Type, from: from, topic: e.Topic, at: e.Time(), trace: traceID(p.TraceParent)}
	c.answer(string(p.InReplyTo))
	c.requestID = content.RequestID
	switch p.Type {
	case protocol.TypeTGMessage, protocol.TypeChatMessage:
		c.sourceID, c.route = cmp.Or(content.SourceID, e.MessageID), route(from, e.Topic)
		c.createdAt, _ = activitylog.ParseTime(content.CreatedAt) // zero if missing
	case protocol.TypeConfigure:
		c.route = route(content.TalkTo, e.Topic)
	case protocol.TypeRouteAssigned:
		c.route = route(content.Topic, content.Agent)
	case protocol.TypeDeliveryStatus:
		c.answer(content.MessageID)
		c.answer(content.SourceID)
	}
	c.answer(content.InReplyTo)
	c.answer(content.EventID)
	return c
}

func (c *clues) answer(id string) {
	if id != "" && id != c.id {
		c.answers = append(c.answers, id)
	}
}

func route(chat, agent string) string {
	if chat == "" || agent == "" {
		return ""
	}
	return chat + "\x00" + agent
}

// traceID returns the trace id of a W3C traceparent, or "".
func traceID(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// A linker finds the causes of messages. It holds all messages of a period, in order.
type linker struct {
	all      []clues
	index    map[mark][]int
	welcomed map[int]bool // configure messages whose first chat message was seen
}

// A mark is a key for finding messages: an id, a sourceId, the requestId of a request, the route
// of a route_assigned or a configure, or a trace.
type mark struct{ kind, value string }

func newLinker(all []clues) *linker {
	l := &linker{all: all, index: map[mark][]int{}, welcomed: map[int]bool{}}
	for i := range all {
		c := &all[i]
		marks := []mark{{"id", c.id}, {"source", c.sourceID}, {"trace", c.trace}}
		switch c.typ {
		case protocol.TypeSpawnRequest, protocol.TypeCollabRequest:
			marks = append(marks, mark{"request", c.requestID})
		case protocol.TypeRouteAssigned:
			marks = append(marks, mark{"route", c.route})
		case protocol.TypeConfigure:
			marks = append(marks, mark{"configure", c.route})
		}
		for _, m := range marks {
			if m.value != "" {
				l.index[m] = append(l.index[m], i)
			}
		}
	}
	return l
}

// The relations by which one message is the cause of another.
const (
	LinkAnswers = "answers"   // inReplyTo, eventId, or the messageId of a delivery_status
	LinkRequest = "requestId" // the answer to a request
	LinkRoute   = "route"     // the chat learned its agent, and configures it
	LinkFirst   = "bootstrap" // the first messages to a new agent
	LinkTrace   = "trace"     // the same traceparent
)

// parent returns the index of the message that caused message i, and their relation, or -1.
func (l *linker) parent(i int) (int, string) {
	c := &l.all[i]
	toMe := func(o *clues) bool { return o.topic == c.from }
	for _, id := range c.answers {
		for _, at := range []int{l.last(mark{"id", id}, i, nil), l.last(mark{"source", id}, i, toMe),
			l.last(mark{"source", id}, i, nil)} {
			if at >= 0 {
				return at, LinkAnswers
			}
		}
	}
	switch c.typ {
	case protocol.TypeSpawnResult, protocol.TypeRouteAssigned, protocol.TypeCollabResult:
		if at := l.last(mark{"request", c.requestID}, i, nil); at >= 0 {
			return at, LinkRequest
		}
	case protocol.TypeConfigure:
		if at := l.last(mark{"route", c.route}, i, nil); at >= 0 {
			return at, LinkRoute
		}
	case protocol.TypeTGMessage, protocol.TypeChatMessage:
		if at := l.last(mark{"configure", c.route}, i, nil); at >= 0 && l.waited(c, at) {
			return at, LinkFirst
		}
	}
	if traced := l.index[mark{"trace", c.trace}]; len(traced) > 0 && traced[0] < i {
		return traced[0], LinkTrace
	}
	return -1, ""
}

// waited reports whether a chat message waited for the configure message: it is the first one
// after it, or its author sent it before.
func (l *linker) waited(c *clues, configure int) bool {
	if !l.welcomed[configure] {
		l.welcomed[configure] = true
		return true
	}
	return !c.createdAt.IsZero() && c.createdAt.Before(l.all[configure].at)
}

// last returns the index of the last message before i with a mark that fits. If there is
// none, it returns the first one after i, because the clocks of buses differ, or -1.
func (l *linker) last(m mark, i int, fits func(*clues) bool) int {
	at := -1
	for _, j := range l.index[m] {
		if l.all[j].id == l.all[i].id || fits != nil && !fits(&l.all[j]) || j > i && at >= 0 {
			continue
		}
		at = j
	}
	return at
}
