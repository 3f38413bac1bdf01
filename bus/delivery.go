package bus

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
	"hubbub/protocol/wire"
)

// A delivery is one message on its way to one peer. It is settled once, by the
// goroutine that takes it from the peer's table of calls.
type delivery struct {
	publication *publication
	target      *session
	id          uint64           // of the processMessage request; 0 if it got no place
	refused     protocol.Outcome // why it got no place; empty if it has one
	queued      bool             // it is in the target's queue, not in its window
	recorded    bool             // its start is in the log, so it may be sent; guarded by target.mu
	written     bool             // it was sent; guarded by target.mu until it is taken from the calls
}

func (d *delivery) row(event activitylog.Event, status string) activitylog.Row {
	row := activitylog.Row{
		Event: event, MessageID: d.publication.message.MessageID, Actor: string(d.target.id),
		Topic: d.publication.message.Topic, Status: status, Of: &d.publication.sending,
	}
	if d.id > 0 {
		row.RPCID = strconv.FormatUint(d.id, 10)
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
		row := d.row(activitylog.ProcessFinish, string(o))
		row.At, row.Error = b.now(), text
		if d.target.usage.chargeAnswer(b.at, len(answer)) {
			row.Payload = cloneResult(answer)
		} else {
			row.Error = "the answer is not recorded: the peer's credential has used up its bytes of the activity log"
		}
		b.record(row)
	}
	b.counts.countOutcome(o)
	d.publication.addOutcome(b, d, o, text)
}

// reserve gives a delivery a place in the peer's window of unanswered deliveries, or
// in its queue. It returns an empty Outcome, or the reason why there is no place.
func (s *session) reserve(d *delivery) protocol.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserveLocked(d)
}

func (s *session) reserveLocked(d *delivery) protocol.Outcome {
	o, size := &s.server.options, len(d.publication.params)
	switch {
	case s.inactive() || d.publication.sender == nil && s.server.stopping.Load():
		return protocol.OutcomeOffline
	case len(s.queue) == 0 && s.hasRoomLocked() && !backlogFull(s, size):
		s.unanswered++
	case len(s.queue) >= o.PeerQueue || s.queuedBytes+size > o.PeerQueueBytes:
		s.server.metrics.limit(limitPeerQueue)
		return protocol.OutcomeOverflow
	case s.server.slow.Full(size):
		s.server.metrics.limit(limitSlow)
		return protocol.OutcomeOverflow
	default:
		d.queued = true
		s.queue = append(s.queue, d)
		s.window.addQueuedBytes(size, &s.server.slow)
	}
	d.id = s.calls.Add(d)
	return ""
}

// backlogFull reports whether so many bytes may not be sent to this peer, since it is slow, and
// what waits for all slow peers has reached its bound.
func backlogFull(s *session, size int) bool {
	if !s.server.slow.Full(size) {
		return false
	}
	stream, ok := s.stream.(interface{ Slow() bool })
	return ok && stream.Slow()
}

// addQueuedBytes notes bytes that came to the queue, or left it. The caller must hold session.mu.
func (w *window) addQueuedBytes(n int, all *wire.Backlog) {
	w.queuedBytes += n
	all.Add(n)
}

func (s *session) hasRoomLocked() bool {
	o := &s.server.options
	return s.unanswered < o.PeerWindow && s.stream.Buffered() < o.PeerBuffer
}

// write sends a delivery whose start is recorded, unless it must wait in the queue. If the
// session has been replaced since it was reserved, it goes to the newer one.
func (s *session) write(b *batch, d *delivery) {
	s.mu.Lock()
	if s.inactive() {
		_, mine := s.takeLocked(d.id) // not if the session has ended: then end has settled it
		s.mu.Unlock()
		if mine {
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

// sendDeliveryLocked sends a delivery that has its place in the window.
func (s *session) sendDeliveryLocked(b *batch, d *delivery) {
	d.written = true
	s.sendLocked(b, d.id, d.publication.params)
}

// sendLocked writes a processMessage request. It ignores errors: the stream has
// ended, and its reader, which finds the same error, settles the deliveries.
func (s *session) sendLocked(b *batch, id uint64, params []byte) {
	b.frame = jsonrpc.AppendRequest(b.frame[:0], id, protocol.MethodProcessMessage, params)
	s.stream.Write(b.frame) //nolint:errcheck // see above
}

// observe sends a message whose answer nobody waits for. It drops the message if the
// peer is slow.
func (s *session) observe(b *batch, p *publication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inactive() {
		return
	}
	if s.stream.Buffered() > s.server.options.PeerBuffer || backlogFull(s, len(p.params)) {
		s.server.metrics.limit(limitObserver)
		return
	}
	s.observed++
	s.sendLocked(b, observerIDs+s.observed, p.params)
	b.touch(s)
}

// observerIDs is where the ids of observed messages begin: above all others, and below
// 2^53, up to which every language's numbers are exact.
const observerIDs = 1 << 52

// handleProcessed handles the usual answer to a processMessage; answered handles all others.
func (s *session) handleProcessed(id uint64) {
	if d, ok := s.takeAnswered(s.batch, id); ok {
		d.finish(s.batch, protocol.OutcomeOK, processedResult, "")
	} else {
		s.chargeOverhead(s.batch.at)
	}
}

// handleAnswer handles a peer's answer to a processMessage. It ignores an answer that
// nobody waits for: a late one, a second one, or one to an observed message.
func (s *session) handleAnswer(m jsonrpc.Message, unusable error) {
	var d *delivery
	id, ok := jsonrpc.ParseCallID(m.ID)
	if ok {
		d, ok = s.takeAnswered(s.batch, id)
	}
	if !ok {
		s.chargeOverhead(s.batch.at)
		return
	}
	o, text := classifyAnswer(&s.batch.parser, m, unusable)
	raw := m.Result
	if m.Error != nil {
		raw = m.Error
	}
	d.finish(s.batch, o, raw, text)
}

// takeAnswered removes a delivery that the peer has answered from the table of calls, and sends
// what it made room for. It returns false if no delivery has this id.
func (s *session) takeAnswered(b *batch, id uint64) (*delivery, bool) {
	s.mu.Lock()
	d, ok := s.takeLocked(id)
	pumped := s.sendQueuedLocked(b)
	over := ok && s.graceOver(s.calls.Len(), b.at)
	s.mu.Unlock()
	if pumped {
		b.touch(s)
	}
	if over {
		s.evict(b, protocol.CloseReplaced, replaced)
	}
	return d, ok
}

func (s *session) takeLocked(id uint64) (*delivery, bool) {
	d, ok := s.calls.Take(id)
	if ok && d.queued {
		s.dropQueuedLocked(d)
	} else if ok {
		s.unanswered--
	}
	return d, ok
}

// sendQueuedLocked sends queued deliveries while there is room, and reports whether it sent
// any. The caller holds s.mu.
func (s *session) sendQueuedLocked(b *batch) (sent bool) {
	for len(s.queue) > 0 && s.queue[0].recorded && s.hasRoomLocked() {
		d := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		s.window.addQueuedBytes(-len(d.publication.params), &s.server.slow)
		d.queued = false
		s.unanswered++
		s.sendDeliveryLocked(b, d)
		sent = true
	}
	if len(s.queue) == 0 {
		s.queue = nil
	}
	return sent
}

func (s *session) dropQueuedLocked(d *delivery) {
	if i := slices.Index(s.queue, d); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		s.window.addQueuedBytes(-len(d.publication.params), &s.server.slow)
	}
}

// classifyAnswer tells what a peer's answer means. unusable is the error of parsing it, if any.
func classifyAnswer(p *jsonrpc.Parser, m jsonrpc.Message, unusable error) (protocol.Outcome, string) {
	if unusable != nil {
		return protocol.OutcomeError, "unusable answer: " + unusable.Error()
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
	_ = json.Unmarshal(raw, &r) // members of another type are passed over
	why := r.Reason
	if r.Message != "" && r.Message != why {
		why = strings.TrimPrefix(why+": "+r.Message, ": ")
	}
	return text.Cut(cmp.Or(why, "the peer refused the message"), maxErrorText)
}

// maxErrorText bounds a text of a peer's that others are shown, in bytes.
const maxErrorText = 500

// cloneResult copies a part of a frame for the log: the frame's memory is used again.
func cloneResult(raw []byte) []byte {
	if bytes.Equal(raw, processedResult) {
		return processedResult
	}
	return bytes.Clone(raw)
}
