package bus

import (
	"encoding/json"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// A publication is one accepted message and its outcome.
type publication struct {
	server    *Server
	sender    *session             // nil if another bus of the cluster accepted the message
	onFinish  func(*batch, Result) // receives the outcome if sender is nil
	rpcID     jsonrpc.ID           // of the sendMessage; nil for a notification
	message   AcceptedMessage
	params    []byte // of the processMessage requests; contains the payload
	answerBuf []byte // the answer; before that, empty with room for it
	accepted  time.Time
	single    [1]delivery // the delivery, if there is only one
	order     clusterOrder
	log       logFields

	mu       sync.Mutex // guards the fields below
	waiting  int        // deliveries and forwards without an outcome, and one for route
	outcome  Result
	coverage coverage
}

// logFields are the parts of a publication's rows that are not in the message.
type logFields struct {
	rpcID   string
	sending activitylog.Sending
}

// A clusterOrder is the position of a message among those of its sender. The order of the sender
// guards it, and only a bus in a cluster uses it.
type clusterOrder struct {
	once   *dedupEntry // nil unless repeats must get the outcome of this message
	number uint64
	moves  int // how often the message followed a peer to another bus
}

// A coverage is the part of a cluster that an outcome covers.
type coverage struct {
	partial bool
	missing []string // the known buses that it does not cover
}

// publish delivers a checked message to every subscriber.
func (s *session) publish(id jsonrpc.ID, send protocol.Send, once *dedupEntry) {
	p := newPublication(s.server, s.batch.at, id, send, s.client.vouchedNames(&send))
	p.sender, p.order.once = s, once
	s.batch.counts.accepted++
	if c := s.server.options.Cluster; c != nil {
		s.order.mu.Lock()
		defer s.order.mu.Unlock()
		s.batch.routing = s
		defer func(b *batch) { b.routing = nil }(s.batch)
		s.order.published++
		p.order.number = s.order.published
		p.coverage.missing = c.Missing()
		p.coverage.partial = p.coverage.missing != nil
	}
	targets := s.server.index.targets(send.Topic)
	s.client.usage.chargePublication(&p.message, len(targets))
	p.route(s.batch, targets)
}

// route delivers the message to sessions of this bus, and forwards it to the other buses
// that have matching subscribers.
func (p *publication) route(b *batch, targets []target) {
	p.server.shutdown.inFlight.begin()
	local, remote := 0, false
	for _, t := range targets {
		switch {
		case t.remote != nil:
			remote = true
		case !t.observe:
			local++
		}
	}
	var forwards []*Forward
	if remote && p.sender != nil {
		forwards = p.forwards(targets)
	}
	p.outcome.Targets, p.waiting = local, local+len(forwards)+1
	for _, f := range forwards {
		p.outcome.Targets += len(f.Peers)
	}
	if p.sender != nil || local > 0 {
		p.deliver(b, targets, local)
	}
	for i, t := range targets {
		if t.observe && t.session != nil {
			t.session.observe(b, p)
			if i%fanOutSlice == fanOutSlice-1 {
				b.flush()
				runtime.Gosched()
			}
		}
	}
	for _, f := range forwards {
		f.send()
	}
	p.release(b)
}

// newPublication copies id and send. One buffer holds the params, the id and later the answer.
func newPublication(srv *Server, at time.Time, id jsonrpc.ID, send protocol.Send, names []string) *publication {
	p := &publication{server: srv, accepted: at}
	const envelopes = len(`{"topic":"","payload":}`) +
		len(`{"accepted":true,"messageId":"","deliveredTo":999,"addressee":"absent"}`)
	buf := make([]byte, 0, envelopes+len(send.Topic)+len(send.Payload)+len(id)+len(send.MessageID))
	buf = append(buf, `{"topic":`...)
	buf = jsonrpc.AppendString(buf, send.Topic)
	buf = append(buf, `,"payload":`...)
	start := len(buf)
	buf = append(buf, send.Payload...)
	p.message = AcceptedMessage{
		Topic:     send.Topic,
		MessageID: send.MessageID,
		From:      send.From,
		Names:     names,
		Payload:   buf[start:len(buf):len(buf)],
	}
	if len(names) > 0 {
		buf = appendNames(buf, names)
	}
	buf = append(buf, '}')
	p.params = buf[:len(buf):len(buf)]
	if id != nil {
		start = len(buf)
		buf = append(buf, id...)
		p.rpcID = jsonrpc.ID(buf[start:len(buf):len(buf)])
		if srv.log != nil {
			p.log.rpcID = id.String()
		}
	}
	p.answerBuf = buf[len(buf):]
	if protocol.IsIdentity(protocol.Topic(send.Topic)) {
		p.outcome.Addressee = protocol.AddresseeAbsent
	}
	return p
}

// appendNames appends the names that the bus vouches for to the params of processMessage.
func appendNames(buf []byte, names []string) []byte {
	buf = append(buf, `,"names":[`...)
	for i, name := range names {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = jsonrpc.AppendString(buf, name)
	}
	return append(buf, ']')
}

func (p *publication) startRow() activitylog.Row {
	return activitylog.Row{
		At:        p.accepted.UnixMicro(),
		Event:     activitylog.SendStart,
		MessageID: p.message.MessageID,
		RPCID:     p.log.rpcID,
		Actor:     p.message.From,
		Topic:     p.message.Topic,
		Status:    activitylog.StatusStart,
		Payload:   p.message.Payload,
		Of:        &p.log.sending,
	}
}

// fanOutSlice is how many targets a publisher delivers to before it yields. So it does not hold
// the processor for long, and the answers do not all arrive at once.
const fanOutSlice = 64

// deliver sends the message to every session that does not only observe, in slices.
func (p *publication) deliver(b *batch, targets []target, count int) {
	rows := b.rows[:0]
	if p.sender != nil && b.server.log != nil {
		rows = append(rows, p.startRow())
	}
	deliveries := p.single[:0]
	if count > len(p.single) {
		deliveries = make([]delivery, 0, count)
	}
	hold := len(targets) > fanOutSlice && b.hold(p.sender, count*len(p.params))
	for len(targets) > fanOutSlice {
		used := p.deliverSlice(b, targets[:fanOutSlice], deliveries, rows)
		deliveries, targets, rows = deliveries[used:used], targets[fanOutSlice:], b.rows[:0]
		if !hold {
			b.flush()
		}
		runtime.Gosched()
	}
	p.deliverSlice(b, targets, deliveries, rows)
}

// deliverSlice reserves a place at each session, records the starts, and then writes, so that no
// answer arrives before its start is recorded. It returns the number of its deliveries.
func (p *publication) deliverSlice(b *batch, targets []target, deliveries []delivery, rows []activitylog.Row) int {
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
		if d.refused == protocol.OutcomeOffline {
			d.redirect(b)
			continue
		}
		if d.refused != "" {
			d.finish(b, d.refused, nil, refusalText(d.refused))
			continue
		}
		d.target.write(b, d)
	}
	return len(deliveries)
}

func refusalText(o protocol.Outcome) string {
	if o == protocol.OutcomeOverflow {
		return "the peer's queue is full"
	}
	return "the connection has ended, or its bus is stopping"
}

// addOutcome adds the outcome of one delivery. The last one finishes the publication.
func (p *publication) addOutcome(b *batch, d *delivery, o protocol.Outcome, text string) {
	p.mu.Lock()
	if o == protocol.OutcomeOK {
		p.outcome.DeliveredTo++
	} else {
		p.outcome.Failures = append(p.outcome.Failures, protocol.Failure{
			Peer: d.target.id, Status: o, Error: text,
			Written: d.written && (o == protocol.OutcomeTimeout || o == protocol.OutcomeOffline),
		})
	}
	if p.outcome.Addressee != "" && d.target.isAddressee(protocol.PeerID(p.message.Topic)) {
		was := protocol.AddresseeFailed
		if o == protocol.OutcomeOK {
			was = protocol.AddresseeOK
		}
		p.outcome.Addressee = best(p.outcome.Addressee, was)
	}
	p.releaseAndUnlock(b)
}

// release ends one wait of the publication. The last one finishes it.
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

// finish records the outcome and answers the sender. No other goroutine uses the publication
// then.
func (p *publication) finish(b *batch) {
	b.finished = append(b.finished, p)
	if !b.gathering {
		b.conclude()
	}
}

func (p *publication) finishRow(b *batch) activitylog.Row {
	return activitylog.Row{
		At:        b.now(),
		Event:     activitylog.SendFinish,
		MessageID: p.message.MessageID,
		RPCID:     p.log.rpcID,
		Actor:     p.message.From,
		Topic:     p.message.Topic,
		Status:    p.outcome.status(),
		Payload:   p.answer(),
		Of:        &p.log.sending,
	}
}

// reply answers the sender once the outcome is recorded.
func (p *publication) reply(b *batch) {
	srv := p.server
	defer srv.shutdown.inFlight.end()
	if p.sender == nil {
		p.onFinish(b, p.outcome)
		return
	}
	answer := p.answer()
	if len(p.outcome.Failures) > 0 {
		p.sender.client.usage.chargeLogBytes(len(answer))
	}
	b.counts.finished++
	b.counts.observeLatency(b.at.Sub(p.accepted))
	if p.order.once != nil {
		srv.dedup.finish(b, p.order.once, answer)
	}
	if p.rpcID != nil {
		p.sender.reply(b, p.rpcID, answer)
	}
}

// status returns the status of an outcome in the activity log.
func (r *Result) status() string {
	switch {
	case r.Targets == 0:
		return activitylog.StatusNoSubscriber
	case r.DeliveredTo == r.Targets:
		return activitylog.StatusOK
	case r.DeliveredTo == 0:
		return activitylog.StatusFailed
	default:
		return activitylog.StatusPartial
	}
}

// answer returns the result of sendMessage. The outcome must not change any more.
func (p *publication) answer() []byte {
	if len(p.answerBuf) > 0 {
		return p.answerBuf
	}
	r := &p.outcome
	buf := append(p.answerBuf, `{"accepted":true,"messageId":`...)
	buf = jsonrpc.AppendString(buf, p.message.MessageID)
	buf = append(buf, `,"deliveredTo":`...)
	buf = strconv.AppendInt(buf, int64(r.DeliveredTo), 10)
	if len(r.Failures) > 0 {
		list, named := failuresWithin(p.server.options.MaxFrame/2, r.Failures)
		buf = append(append(buf, `,"failures":`...), list...)
		if omitted := len(r.Failures) - named; omitted > 0 {
			buf = strconv.AppendInt(append(buf, `,"omitted":`...), int64(omitted), 10)
		}
	}
	if r.Addressee != "" {
		buf = append(buf, `,"addressee":"`...)
		buf = append(buf, r.Addressee...)
		buf = append(buf, '"')
	}
	if p.coverage.partial {
		missing, err := json.Marshal(append([]string{}, p.coverage.missing...))
		if err == nil { // always: strings only
			buf = append(append(buf, `,"partial":true,"missing":`...), missing...)
		}
	}
	p.answerBuf = append(buf, '}')
	return p.answerBuf
}

// failuresWithin encodes failures in at most limit bytes, so that no sender receives a larger
// frame than it may send. If they do not fit, it omits the texts first, and then the last
// failures. It also returns the number of failures in the list.
func failuresWithin(limit int, failures []protocol.Failure) (list []byte, named int) {
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
		return []byte("[]"), 0
	}
	return list, len(failures)
}
