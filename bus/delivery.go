package bus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
)

// A delivery is one message on its way to one peer. The goroutine that takes it from the peer's
// table of calls finishes it, once.
type delivery struct {
	publication *publication
	target      *session
	id          uint64           // of the processMessage request; 0 if reserve failed
	rowID       uint64           // in its rows: the id at the time of reserve, even if it moves to another session
	refused     protocol.Outcome // why reserve failed, or empty
	queued      bool             // it is in the target's queue, not in its window
	recorded    bool             // its start is in the log, so it may be sent; guarded by target.mu
	written     bool             // it was sent; guarded by target.mu until it is removed from the calls
}

func (d *delivery) row(event activitylog.Event, status string) activitylog.Row {
	row := activitylog.Row{
		Event:     event,
		MessageID: d.publication.message.MessageID,
		Actor:     string(d.target.id),
		Topic:     d.publication.message.Topic,
		Status:    status,
		Of:        &d.publication.log.sending,
	}
	if d.rowID > 0 {
		row.RPCID = strconv.FormatUint(d.rowID, 10)
	}
	return row
}

func (d *delivery) startRow() activitylog.Row {
	row := d.row(activitylog.ProcessStart, activitylog.StatusStart)
	row.At = d.publication.accepted.UnixMicro()
	return row
}

// finish records and counts the outcome of a delivery. It does not retain answer.
func (d *delivery) finish(b *batch, o protocol.Outcome, answer []byte, text string) {
	if b.server.log != nil {
		b.record(d.finishRow(b, o, answer, text))
	}
	b.counts.countOutcome(o)
	d.publication.addOutcome(b, d, o, text)
}

func (d *delivery) finishRow(b *batch, o protocol.Outcome, answer []byte, text string) activitylog.Row {
	row := d.row(activitylog.ProcessFinish, string(o))
	row.At, row.Error = b.now(), text
	if d.target.client.usage.chargeAnswer(b.at, len(answer)) {
		row.Payload = cloneResult(answer)
	} else {
		row.Error = "the answer is not recorded: the peer's credential has used up its bytes of the activity log"
	}
	return row
}

// reserve gives a delivery a place in the peer's window of unanswered deliveries, or in its
// queue. It returns an empty Outcome, or the reason why there is no place.
func (s *session) reserve(d *delivery) protocol.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.reserveLocked(d)
	d.rowID = d.id
	return o
}

func (s *session) reserveLocked(d *delivery) protocol.Outcome {
	o, size, w := &s.server.options, len(d.publication.params), &s.window
	switch {
	case s.lifecycle.inactive() || d.publication.sender == nil && s.server.shutdown.stopping.Load():
		return protocol.OutcomeOffline
	case len(w.queue) == 0 && s.hasRoomLocked() && !s.backlogFull(size):
		w.unanswered++
	case len(w.queue) >= o.PeerQueue || w.queuedBytes+size > o.PeerQueueBytes:
		s.server.metrics.limit(limitPeerQueue)
		return protocol.OutcomeOverflow
	case s.server.backlog.Full(size):
		s.server.metrics.limit(limitSlow)
		return protocol.OutcomeOverflow
	default:
		w.enqueue(d)
	}
	d.id = w.calls.Add(d)
	return ""
}

// backlogFull reports whether this peer is slow and the backlog of all slow peers has no
// room for size more bytes.
func (s *session) backlogFull(size int) bool {
	if !s.server.backlog.Full(size) {
		return false
	}
	stream, ok := s.stream.(slowReporter)
	return ok && stream.Slow()
}

func (s *session) hasRoomLocked() bool {
	o := &s.server.options
	return s.window.unanswered < o.PeerWindow && s.stream.Buffered() < o.PeerBuffer
}

// write sends a delivery whose start is recorded, unless it must wait in the queue or has timed
// out. If the session has been replaced since reserve, the delivery goes to the newer session.
func (s *session) write(b *batch, d *delivery) {
	s.mu.Lock()
	if s.lifecycle.inactive() || !s.window.calls.Has(d.id) {
		_, ok := s.window.take(d.id) // false if d is finished: the session has ended, or d has timed out
		s.mu.Unlock()
		if ok {
			d.redirect(b)
		}
		return
	}
	d.recorded = true
	if d.queued {
		s.sendQueuedLocked(b)
	} else {
		s.sendDeliveryLocked(b, d)
	}
	s.mu.Unlock()
	b.touch(s)
}

// sendDeliveryLocked sends a delivery that has a place in the window.
func (s *session) sendDeliveryLocked(b *batch, d *delivery) {
	d.written = true
	s.sendLocked(b, d.id, d.publication.params)
}

// sendLocked writes a processMessage request. It ignores errors: they mean that the stream
// has ended. The reader finds the same error and finishes the deliveries.
func (s *session) sendLocked(b *batch, id uint64, params []byte) {
	b.frame = jsonrpc.AppendRequest(b.frame[:0], id, protocol.MethodProcessMessage, params)
	s.stream.Write(b.frame) //nolint:errcheck // see above
}

// observe sends a message whose answer is ignored. It drops the message if the peer is
// slow.
func (s *session) observe(b *batch, p *publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifecycle.inactive() {
		return
	}
	if s.stream.Buffered() > s.server.options.PeerBuffer || s.backlogFull(len(p.params)) {
		s.server.metrics.limit(limitObserver)
		return
	}
	s.window.observed++
	s.sendLocked(b, observerIDs+s.window.observed, p.params)
	b.touch(s)
}

// observerIDs is the first id of observed messages. It is above all other ids, and below 2^53, so
// that numbers are exact in every language.
const observerIDs = 1 << 52

// handleProcessed handles the most common answer to a processMessage; handleAnswer handles
// all others. batch.settle finishes the delivery, together with the others that were
// answered at the same time.
func (s *session) handleProcessed(id uint64) {
	d, ok := s.takeAnswered(s.batch, id)
	if !ok {
		s.client.chargeOverhead(s.batch.at)
		return
	}
	s.batch.processed = append(s.batch.processed, d)
	if len(s.batch.processed) == maxProcessed {
		s.batch.settle()
	}
}

// handleAnswer handles a peer's answer to a processMessage. It ignores an answer to no
// pending delivery: a late one, a second one, or one to an observed message.
func (s *session) handleAnswer(m jsonrpc.Message, parseErr error) {
	var d *delivery
	id, ok := jsonrpc.ParseCallID(m.ID)
	if ok {
		d, ok = s.takeAnswered(s.batch, id)
	}
	if !ok {
		s.client.chargeOverhead(s.batch.at)
		return
	}
	o, text := classifyAnswer(&s.batch.parser, m, parseErr)
	raw := m.Result
	if m.Error != nil {
		raw = m.Error
	}
	d.finish(s.batch, o, raw, text)
}

// takeAnswered removes the delivery with this id, which the peer has answered, and sends
// the deliveries that now have room. It returns false if no delivery has this id.
func (s *session) takeAnswered(b *batch, id uint64) (*delivery, bool) {
	s.mu.Lock()
	d, ok := s.window.take(id)
	sent := s.sendQueuedLocked(b)
	over := ok && s.lifecycle.graceOver(s.window.calls.Len(), b.at)
	s.mu.Unlock()
	if sent {
		b.touch(s)
	}
	if over {
		b.settle()
		s.evict(b, protocol.CloseReplaced, replaced)
	}
	return d, ok
}

// sendQueuedLocked sends queued deliveries while there is room, and reports whether it sent
// any.
func (s *session) sendQueuedLocked(b *batch) (sent bool) {
	w := &s.window
	for len(w.queue) > 0 && w.queue[0].recorded && s.hasRoomLocked() {
		s.sendDeliveryLocked(b, w.dequeue())
		sent = true
	}
	if len(w.queue) == 0 {
		w.queue = nil
	}
	return sent
}

// classifyAnswer returns the outcome for a peer's answer, and the text of a failure. parseErr is
// the error of parsing the answer, if any.
func classifyAnswer(p *jsonrpc.Parser, m jsonrpc.Message, parseErr error) (protocol.Outcome, string) {
	if parseErr != nil {
		return protocol.OutcomeError, "unusable answer: " + parseErr.Error()
	}
	if m.Error != nil {
		return protocol.OutcomeError, errorText(m.Error)
	}
	processed, err := protocol.ScanProcessed(p, m.Result)
	switch {
	case err != nil:
		return protocol.OutcomeError, "unusable answer: " + err.Error()
	case !processed:
		return protocol.OutcomeRejected, rejectionText(m.Result)
	default:
		return protocol.OutcomeOK, ""
	}
}

func errorText(raw []byte) string {
	var e jsonrpc.Error
	if err := json.Unmarshal(raw, &e); err != nil || e.Message == "" {
		return "the peer answered with an error"
	}
	return text.Cut(e.Message, maxErrorText)
}

func rejectionText(raw []byte) string {
	var r protocol.ProcessResult
	_ = json.Unmarshal(raw, &r) // members of another type are ignored
	why := r.Reason
	if r.Message != "" && r.Message != why {
		why = strings.TrimPrefix(why+": "+r.Message, ": ")
	}
	return text.Cut(cmp.Or(why, "the peer refused the message"), maxErrorText)
}

// maxErrorText bounds the text of a peer's error that others see, in bytes.
const maxErrorText = 500

// cloneResult copies a part of a frame for the log, because the memory of the frame is reused.
func cloneResult(raw []byte) []byte {
	if bytes.Equal(raw, processedResult) {
		return processedResult
	}
	return bytes.Clone(raw)
}
