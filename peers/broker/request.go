package broker

import (
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

// answerRequest decides one request and stores its answer. A request that was answered
// before gets the same answer again.
func answerRequest(ctx context.Context, db store.Querier, t *tx, r request) (answer, error) {
	requestID := r.content.RequestID
	if requestID == "" {
		requestID = string(r.messageID)
	}
	t.caller = t.state.caller(r.from)
	t.digest = digest(t.caller.Name, r.content)
	result, kept, err := recalled(ctx, db, t, r, requestID)
	if err != nil {
		return answer{}, err
	}
	if result == nil {
		if result, kept, err = decideRequest(t, r, requestID); err != nil {
			return answer{}, err
		}
	}
	m := protocol.Message{
		MessageID: protocol.MessageID(t.mint("msg_")), Type: protocol.TypeCollabResult, From: protocol.PeerBroker,
		Timestamp: stamp(t.now), Content: result, InReplyTo: r.messageID, TraceParent: r.traceParent,
	}
	a := answer{to: r.from, message: m, at: t.now}
	key := requestID
	if kept != remembered { // an answer that is remembered for this requestId stays
		key = string(m.MessageID)
	}
	a.id, _, err = store.One(ctx, db, store.Column[int64], rememberAnswer, string(r.from), key, t.digest, string(result),
		string(m.MessageID), string(m.InReplyTo), m.TraceParent, int(kept), t.now.UnixMicro())
	return a, err
}

// retention says what becomes of an answer once it is sent.
type retention int

const (
	forgotten retention = iota
	remembered
)

// recalled returns the stored answer to a repeated request, or nothing.
func recalled(ctx context.Context, db store.Querier, t *tx, r request, requestID string) (json.RawMessage, retention, error) {
	if m, ok := methods[r.content.Method]; !ok || m.fresh || r.malformed != nil {
		return nil, 0, nil
	}
	var stored, content string
	_, found, err := store.One(ctx, db, func(row store.Row) (bool, error) { return true, row.Scan(&stored, &content) },
		recallAnswer, string(r.from), requestID, t.now.Add(-answersKept).UnixMicro())
	switch {
	case err != nil || !found:
		return nil, 0, err
	case stored != t.digest:
		result, err := failure(requestID, collab.Refuse(collab.CodeConflict, "requestId %s was used for another request; use a fresh one", text.Clip(requestID, 80)))
		return result, forgotten, err
	}
	repeated := json.RawMessage(content)
	if r.content.Method == "message.post" {
		repeated, err = markDuplicate(repeated)
	}
	return repeated, remembered, err
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

// decideRequest runs the method. The error is one of the program or the database;
// a refusal is a result.
func decideRequest(t *tx, r request, requestID string) (json.RawMessage, retention, error) {
	before := len(t.events)
	value, kept, err := runMethod(t, r)
	var refusal *collab.Error
	if err != nil && !errors.As(err, &refusal) {
		return nil, 0, fmt.Errorf("%s from %s: %w", r.content.Method, r.from, err)
	}
	if t.failed != nil {
		return nil, 0, &mistake{t.failed}
	}
	if refusal != nil {
		if len(t.events) > before && !routingFailed(refusal) {
			return nil, 0, &mistake{fmt.Errorf("%s refused (%w) after it had made events", r.content.Method, refusal)}
		}
		result, err := failure(requestID, refusal)
		return result, kept, err
	}
	result, err := success(requestID, value)
	return result, kept, err
}

func runMethod(t *tx, r request) (any, retention, error) {
	if r.malformed != nil {
		return nil, forgotten, invalid("the content of a collab_request is {method, params, requestId}: %v", r.malformed)
	}
	if err := checkName("requestId", r.content.RequestID); err != nil {
		return nil, forgotten, err
	}
	m, err := findMethod(r.content.Method)
	if err != nil {
		return nil, forgotten, err
	}
	kept := remembered
	if m.fresh {
		kept = forgotten
	}
	value, err := m.run(t, r.content.Params)
	if err != nil && !routingFailed(err) {
		kept = forgotten // a refusal changed nothing: the request may be made again
	}
	return value, kept, err
}

func success(requestID string, value any) (json.RawMessage, error) {
	raw, err := collab.Encode(value)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxResult {
		return failure(requestID, invalid("the result has %d bytes and at most %d fit into a frame: ask for fewer with limit", len(raw), maxResult))
	}
	return collab.Encode(protocol.CollabResult{RequestID: requestID, OK: true, Result: raw})
}

func failure(requestID string, e *collab.Error) (json.RawMessage, error) {
	out := &protocol.CollabError{Code: string(e.Code), Message: e.Message}
	if e.Details != nil {
		raw, err := collab.Encode(e.Details)
		if err != nil {
			return nil, err
		}
		out.Details = raw
	}
	return collab.Encode(protocol.CollabResult{RequestID: requestID, Error: out})
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
	if err := json.Unmarshal(raw, &v); err != nil {
		return raw
	}
	out, err := collab.Encode(v)
	if err != nil {
		return raw
	}
	return out
}
