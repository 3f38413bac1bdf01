package bus

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// A publication is one accepted message and what becomes of it.
type publication struct {
	server    *Server
	sender    *session             // nil where another bus of the cluster accepted the message
	finished  func(*batch, Result) // takes the outcome where sender is nil
	rpcID     jsonrpc.ID           // of the sendMessage; nil for a notification
	rpcText   string               // of rpcID, for the activity log
	topic     string
	messageID string
	from      string
	params    []byte // of the processMessage requests; the payload is inside
	payload   []byte // as it came
	room      []byte // empty, for the result
	accepted  time.Time
	only      [1]delivery // the delivery where there is one

	mu          sync.Mutex // guards the fields below
	targets     int        // peers that the bus waits for
	waiting     int        // deliveries and forwards without an outcome, and one for route itself
	deliveredTo int
	failures    []protocol.Failure
	addressee   protocol.Addressee
}

// publish hands a checked message to every subscriber.
func (s *session) publish(id jsonrpc.ID, send protocol.Send) {
	p := newPublication(s.server, s.batch.at, id, send)
	p.sender = s
	s.batch.counts.accepted++
	p.route(s.batch, s.server.index.targets(send.Topic))
}

// route hands the message to sessions of this bus, and to the other buses that
// have matching subscribers.
func (p *publication) route(b *batch, targets []target) {
	p.server.inFlight.begin()
	local, others := 0, false
	for _, t := range targets {
		switch {
		case t.remote != nil:
			others = true
		case !t.observe:
			local++
		}
	}
	var forwards []*Forward
	if others && p.sender != nil {
		forwards = p.forwards(targets)
	}
	p.targets, p.waiting = local, local+len(forwards)+1
	for _, f := range forwards {
		p.targets += len(f.Peers)
	}
	if p.sender != nil || local > 0 {
		p.deliver(b, targets, local)
	}
	for _, t := range targets {
		if t.observe && t.session != nil {
			t.session.observe(b, p)
		}
	}
	for _, f := range forwards {
		p.server.options.Cluster.Forward(f)
	}
	p.release(b)
}

// newPublication copies what it is given. One buffer holds the params, the id
// and the result to come.
func newPublication(srv *Server, at time.Time, id jsonrpc.ID, send protocol.Send) *publication {
	p := &publication{server: srv, topic: send.Topic, messageID: send.MessageID, from: send.From, accepted: at}
	const envelopes = len(`{"topic":"","payload":}`) + len(`{"accepted":true,"messageId":"","deliveredTo":999,"addressee":"absent"}`)
	buf := make([]byte, 0, envelopes+len(send.Topic)+len(send.Payload)+len(id)+len(send.MessageID))
	buf = append(buf, `{"topic":`...)
	buf = jsonrpc.AppendString(buf, send.Topic)
	buf = append(buf, `,"payload":`...)
	start := len(buf)
	buf = append(buf, send.Payload...)
	p.payload = buf[start:len(buf):len(buf)]
	buf = append(buf, '}')
	p.params = buf[:len(buf):len(buf)]
	if id != nil {
		start = len(buf)
		buf = append(buf, id...)
		p.rpcID = jsonrpc.ID(buf[start:len(buf):len(buf)])
		if srv.log != nil {
			p.rpcText = id.String()
		}
	}
	p.room = buf[len(buf):]
	if protocol.IsIdentity(protocol.Topic(send.Topic)) {
		p.addressee = protocol.AddresseeAbsent
	}
	return p
}

func (p *publication) startRow() activitylog.Row {
	return activitylog.Row{
		At: p.accepted.UnixMicro(), Event: activitylog.SendStart, MessageID: p.messageID, RPCID: p.rpcText,
		Actor: p.from, Topic: p.topic, Status: activitylog.StatusStart, Payload: p.payload,
	}
}

// deliver asks every session that is waited for: it reserves a place at each,
// records that, and then writes, so that no answer can come before its start is
// recorded.
func (p *publication) deliver(b *batch, targets []target, count int) {
	rows := b.rows[:0]
	if p.sender != nil && b.server.log != nil {
		rows = append(rows, p.startRow())
	}
	deliveries := p.only[:0]
	if count > len(p.only) {
		deliveries = make([]delivery, 0, count)
	}
	for _, t := range targets {
		if t.observe || t.session == nil {
			continue
		}
		deliveries = append(deliveries, delivery{publication: p, target: t.session})
		d := &deliveries[len(deliveries)-1]
		d.refused = t.session.reserve(d)
		if b.server.log != nil {
			rows = append(rows, d.startRow())
		}
	}
	b.record(rows...)
	b.keep(rows)
	for i := range deliveries {
		d := &deliveries[i]
		if d.refused != "" {
			d.settle(b, d.refused, nil, refusalText(d.refused))
			continue
		}
		d.target.write(b, d)
	}
}

func refusalText(o protocol.Outcome) string {
	if o == protocol.OutcomeOverflow {
		return "the peer's queue is full"
	}
	return "the connection has ended, or its bus is stopping"
}

// settled counts one outcome and completes the publication with the last.
func (p *publication) settled(b *batch, d *delivery, o protocol.Outcome, text string) {
	p.mu.Lock()
	if o == protocol.OutcomeOK {
		p.deliveredTo++
	} else {
		p.failures = append(p.failures, protocol.Failure{Peer: d.target.id, Status: o, Error: text})
	}
	if p.addressee != "" && d.target.isAddressee(protocol.PeerID(p.topic)) {
		was := protocol.AddresseeFailed
		if o == protocol.OutcomeOK {
			was = protocol.AddresseeOK
		}
		p.addressee = best(p.addressee, was)
	}
	p.releaseAndUnlock(b)
}

// release lets go of the publication; the last one to do so completes it.
func (p *publication) release(b *batch) {
	p.mu.Lock()
	p.releaseAndUnlock(b)
}

func (p *publication) releaseAndUnlock(b *batch) {
	p.waiting--
	last := p.waiting == 0
	p.mu.Unlock()
	if last {
		p.finish(b)
	}
}

// finish records the outcome and answers the sender. Nobody else touches the
// publication any more.
func (p *publication) finish(b *batch) {
	srv := p.server
	defer srv.inFlight.end()
	if p.sender == nil {
		p.finished(b, Result{Targets: p.targets, DeliveredTo: p.deliveredTo, Failures: p.failures, Addressee: p.addressee})
		return
	}
	result := p.result()
	if b.server.log != nil {
		b.record(activitylog.Row{
			At: b.now(), Event: activitylog.SendFinish, MessageID: p.messageID, RPCID: p.rpcText,
			Actor: p.from, Topic: p.topic, Status: p.status(), Payload: result,
		})
	}
	b.counts.finished++
	b.counts.observe(b.at.Sub(p.accepted))
	if p.rpcID != nil {
		p.sender.reply(b, p.rpcID, result)
	}
}

func (p *publication) status() string {
	switch {
	case p.targets == 0:
		return activitylog.StatusNoSubscriber
	case p.deliveredTo == p.targets:
		return activitylog.StatusOK
	case p.deliveredTo == 0:
		return activitylog.StatusFailed
	default:
		return activitylog.StatusPartial
	}
}

// result is the answer to sendMessage.
func (p *publication) result() []byte {
	buf := append(p.room, `{"accepted":true,"messageId":`...)
	buf = jsonrpc.AppendString(buf, p.messageID)
	buf = append(buf, `,"deliveredTo":`...)
	buf = strconv.AppendInt(buf, int64(p.deliveredTo), 10)
	if len(p.failures) > 0 {
		buf = append(buf, `,"failures":`...)
		buf = append(buf, failuresWithin(p.server.options.MaxFrame/2, p.failures)...)
	}
	if p.addressee != "" {
		buf = append(buf, `,"addressee":"`...)
		buf = append(buf, p.addressee...)
		buf = append(buf, '"')
	}
	return append(buf, '}')
}

// failuresWithin lists failures in at most limit bytes, so that no sender gets a
// frame that it may not send: where they are too many, first their reasons are left
// out, and then the last of them.
func failuresWithin(limit int, failures []protocol.Failure) []byte {
	list, err := json.Marshal(failures)
	if err == nil && len(list) > limit {
		failures = slices.Clone(failures)
		for i := range failures {
			failures[i].Error = ""
		}
		list, err = json.Marshal(failures)
	}
	for err == nil && len(list) > limit {
		failures = failures[:len(failures)/2]
		list, err = json.Marshal(failures)
	}
	if err != nil { // cannot happen: strings only
		return []byte("[]")
	}
	return list
}
