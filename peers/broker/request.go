package broker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A request is one collab_request as it came.
type request struct {
	from        protocol.PeerID
	messageID   protocol.MessageID
	traceParent string
	content     protocol.CollabRequest
	malformed   error // the content is no collab_request
}

// An answer is a collab_result on its way to its requester.
type answer struct {
	id      int64 // of its row
	to      protocol.PeerID
	message protocol.Message
	at      time.Time
}

// answersKept is for how long a repeated request gets the answer of the first.
const answersKept = 24 * time.Hour

// maxResult is the size of the largest result; with its envelope it fits into a
// frame of 1 MiB.
const maxResult = 960 << 10

const (
	rememberAnswer = `INSERT INTO answers (requester, request_id, digest, content, message_id, in_reply_to, traceparent, kept, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (requester, request_id) DO UPDATE SET digest = excluded.digest, content = excluded.content,
		message_id = excluded.message_id, in_reply_to = excluded.in_reply_to, traceparent = excluded.traceparent,
		kept = excluded.kept, sent = 0, at = excluded.at
		RETURNING id`
	recallAnswer = `SELECT digest, content FROM answers WHERE requester = ? AND request_id = ? AND at > ? AND kept = 1`
)

// answerRequest decides one request and stores its answer. A request that was
// answered before gets the same answer again.
func answerRequest(ctx context.Context, db store.Querier, t *tx, r request) (answer, error) {
	requestID := cmp.Or(r.content.RequestID, string(r.messageID))
	t.caller = t.state.caller(r.from)
	t.digest = digest(t.caller.Name, r.content)
	content, kept, err := recalled(ctx, db, t, r, requestID)
	if err == nil && content == nil {
		content, kept, err = decideRequest(t, r, requestID)
	}
	if err != nil {
		return answer{}, err
	}
	m := protocol.Message{
		MessageID: protocol.MessageID(t.mint("msg_")), Type: protocol.TypeCollabResult, From: protocol.PeerBroker,
		Timestamp: stamp(t.now), Content: content, InReplyTo: r.messageID, TraceParent: r.traceParent,
	}
	key := requestID
	if !kept { // an answer that is kept for this requestId stays
		key = string(m.MessageID)
	}
	id, _, err := store.One(ctx, db, store.Column[int64], rememberAnswer, string(r.from), key, t.digest, string(content),
		string(m.MessageID), string(m.InReplyTo), m.TraceParent, kept, t.now.UnixMicro())
	return answer{id: id, to: r.from, message: m, at: t.now}, err
}

// recalled returns the stored answer to a repeated request, or nil, and whether it
// is kept for the next repetition.
func recalled(ctx context.Context, db store.Querier, t *tx, r request, requestID string) (content json.RawMessage, kept bool, err error) {
	if m, ok := methods[r.content.Method]; !ok || m.fresh || r.malformed != nil {
		return nil, false, nil
	}
	var stored string
	_, found, err := store.One(ctx, db, func(row store.Row) (bool, error) { return true, row.Scan(&stored, (*[]byte)(&content)) },
		recallAnswer, string(r.from), requestID, t.now.Add(-answersKept).UnixMicro())
	switch {
	case err != nil || !found:
		return nil, false, err
	case stored != t.digest:
		content, err = encodeResult(requestID, nil, collab.Refuse(collab.CodeConflict,
			"requestId %s was used for another request; use a fresh one", text.Clip(requestID, 80)))
		return content, false, err
	case r.content.Method == collab.MessagePost.Name:
		content, err = markDuplicate(content)
	}
	return content, true, err
}

// markDuplicate says in a stored answer of message.post that it is one.
func markDuplicate(content json.RawMessage) (json.RawMessage, error) {
	var answer protocol.CollabResult
	if err := json.Unmarshal(content, &answer); err != nil {
		return nil, fmt.Errorf("reading a stored answer: %w", err)
	}
	part := &answer.Result
	if answer.Error != nil {
		part = &answer.Error.Details
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(*part, &members); err != nil {
		return nil, fmt.Errorf("reading a stored answer: %w", err)
	}
	members["duplicate"] = json.RawMessage("true")
	raw, err := collab.Encode(members)
	if err != nil {
		return nil, err
	}
	*part = raw
	return collab.Encode(answer)
}

// decideRequest runs the method, and returns its answer and whether that is kept for
// repetitions of the request. The error is one of the program or the database; a
// refusal is an answer.
func decideRequest(t *tx, r request, requestID string) (content json.RawMessage, kept bool, err error) {
	before := len(t.events)
	value, kept, err := runMethod(t, r)
	var refusal *collab.Error
	switch errors.As(err, &refusal); {
	case err != nil && refusal == nil:
		return nil, false, fmt.Errorf("%s from %s: %w", r.content.Method, r.from, err)
	case t.failed != nil:
		return nil, false, &mistake{t.failed}
	case refusal != nil && !routingFailed(refusal):
		kept = false // a refusal changed nothing: the request may be made again
		if len(t.events) > before {
			return nil, false, &mistake{fmt.Errorf("%s refused (%w) after it had made events", r.content.Method, refusal)}
		}
	}
	content, err = encodeResult(requestID, value, refusal)
	return content, kept, err
}

func runMethod(t *tx, r request) (value any, kept bool, err error) {
	if r.malformed != nil {
		return nil, false, invalid("the content of a collab_request is {method, params, requestId}: %v", r.malformed)
	}
	if err := checkName("requestId", r.content.RequestID); err != nil {
		return nil, false, err
	}
	m, err := findMethod(r.content.Method)
	if err != nil {
		return nil, false, err
	}
	value, err = m.run(t, r.content.Params)
	return value, !m.fresh, err
}

// encodeResult writes the content of a collab_result: of a refusal, or else of a
// value.
func encodeResult(requestID string, value any, refusal *collab.Error) (json.RawMessage, error) {
	r := protocol.CollabResult{RequestID: requestID, OK: refusal == nil}
	var err error
	switch {
	case refusal == nil:
		r.Result, err = collab.Encode(value)
		if n := len(r.Result); n > maxResult {
			return encodeResult(requestID, nil, invalid(
				"the result has %d bytes and at most %d fit into a frame: ask for fewer with limit", n, maxResult))
		}
	default:
		r.Error = &protocol.CollabError{Code: string(refusal.Code), Message: refusal.Message}
		if refusal.Details != nil {
			r.Error.Details, err = collab.Encode(refusal.Details)
		}
	}
	if err != nil {
		return nil, err
	}
	return collab.Encode(r)
}

// digest tells two requests of one requestId, or of one record id, apart.
func digest(caller string, c protocol.CollabRequest) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", caller, c.Method)
	h.Write(compact(c.Params))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// compact brings params into a form in which equal ones are equal bytes.
func compact(raw json.RawMessage) []byte {
	var v any
	if json.Unmarshal(raw, &v) == nil {
		if out, err := collab.Encode(v); err == nil {
			return out
		}
	}
	return raw
}
