package broker

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A request is one received collab_request.
type request struct {
	from        protocol.PeerID
	messageID   protocol.MessageID
	traceParent string
	content     protocol.CollabRequest
	malformed   error    // the content is not a collab_request
	names       []string // that the bus lets the sender announce
}

// An answer is a collab_result on its way to its requester.
type answer struct {
	id          int64 // of its row
	to          protocol.PeerID
	content     []byte
	messageID   protocol.MessageID
	inReplyTo   protocol.MessageID
	traceParent string
	at          int64 // microseconds since 1970
}

// message returns the message that carries the answer.
func (a *answer) message() protocol.Message {
	return protocol.Message{
		MessageID:   a.messageID,
		Type:        protocol.TypeCollabResult,
		From:        protocol.PeerBroker,
		Timestamp:   formatTime(time.UnixMicro(a.at)),
		Content:     a.content,
		InReplyTo:   a.inReplyTo,
		TraceParent: a.traceParent,
	}
}

// answersKept is how long a repeated request gets the stored answer.
const answersKept = 24 * time.Hour

// maxResult bounds a result, so that it fits with its envelope into a frame of 1 MiB.
const maxResult = 960 << 10

// maxRefusal bounds the message of a refusal.
const maxRefusal = 8 << 10

const (
	rememberAnswer = `INSERT INTO answers (requester, request_id, digest, content, message_id, in_reply_to, traceparent, kept, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (requester, request_id) DO UPDATE SET digest = excluded.digest, content = excluded.content,
		message_id = excluded.message_id, in_reply_to = excluded.in_reply_to, traceparent = excluded.traceparent,
		kept = excluded.kept, sent = 0, at = excluded.at
		RETURNING id`
	recallAnswer = `SELECT digest, content FROM answers WHERE requester = ? AND request_id = ? AND at > ? AND kept = 1`
)

// answerRequest decides one request and stores its answer. A repeated request gets the stored
// answer.
func answerRequest(t *tx, r request) {
	requestID := text.Clip(cmp.Or(r.content.RequestID, string(r.messageID)), rules.MaxName) // longer ones are refused
	t.caller = t.state.Caller(r.from, r.names)
	t.digest = digest(t.caller.Name, r.content)
	content, kept := storedAnswer(t, r, requestID)
	if content == nil {
		content, kept = decideRequest(t, r, requestID)
	}
	a := answer{
		to:          r.from,
		content:     content,
		messageID:   protocol.MessageID(t.newID("msg_")),
		inReplyTo:   r.messageID,
		traceParent: r.traceParent,
		at:          t.now.UnixMicro(),
	}
	key := requestID
	if !kept { // does not replace the kept answer of this requestId
		key = string(a.messageID)
	}
	a.id = store.Value[int64](t.db, rememberAnswer, string(a.to), key, t.digest, string(a.content),
		string(a.messageID), string(a.inReplyTo), a.traceParent, kept, a.at)
	t.answers = append(t.answers, a)
}

// storedAnswer returns the stored answer to a repeated request, or nil, and whether the answer
// stays stored.
func storedAnswer(t *tx, r request, requestID string) (content json.RawMessage, kept bool) {
	if m, ok := methods[r.content.Method]; !ok || m.fresh || r.malformed != nil {
		return nil, false
	}
	type stored struct {
		digest  string
		content []byte
	}
	old, found := store.One(t.db, func(s *stored) []any { return []any{&s.digest, &s.content} },
		recallAnswer, string(r.from), requestID, t.now.Add(-answersKept).UnixMicro())
	switch {
	case !found:
		return nil, false
	case old.digest != t.digest:
		return encodeResult(requestID, nil, collab.Refuse(collab.CodeConflict,
			"requestId %s was used for another request; use a fresh one", text.Clip(requestID, 80))), false
	case r.content.Method == collab.MessagePost.Name:
		return markDuplicate(old.content), true
	}
	return old.content, true
}

// markDuplicate marks a stored answer of message.post as a duplicate.
func markDuplicate(content json.RawMessage) json.RawMessage {
	var answer protocol.CollabResult
	err := json.Unmarshal(content, &answer)
	part := &answer.Result
	if answer.Error != nil {
		part = &answer.Error.Details
	}
	members := map[string]json.RawMessage{}
	if err = errors.Join(err, json.Unmarshal(*part, &members)); err != nil {
		rules.Must(fmt.Errorf("reading a stored answer: %w", err))
	}
	members["duplicate"] = json.RawMessage("true")
	*part = rules.MustEncode(members)
	return rules.MustEncode(answer)
}

// decideRequest runs the method. It returns the answer, which may be a refusal, and whether to
// keep it for repeated requests.
func decideRequest(t *tx, r request, requestID string) (content json.RawMessage, kept bool) {
	before := len(t.events)
	t.chatEvents = 0
	var value any
	err := rules.Attempt(func() {
		if r.malformed != nil {
			rules.FailInvalid("the content of a collab_request is {method, params, requestId}: %v", r.malformed)
		}
		rules.MustBeName("requestId", r.content.RequestID)
		value = mustFindMethod(r.content.Method).run(t, r.content.Params)
	})
	refusal, refused := errors.AsType[*collab.Error](err)
	done := !refused || rules.IsUnroutable(refusal.Code)
	switch {
	case err != nil && !refused:
		rules.Must(fmt.Errorf("%s from %s: %w", r.content.Method, r.from, err))
	case !done && len(t.events) > before+t.chatEvents:
		rules.Must(&rules.InternalError{Err: fmt.Errorf("%s refused (%w) after it had made events", r.content.Method, refusal)})
	}
	// Any other refusal changed nothing: the request may be made again.
	return encodeResult(requestID, value, refusal), done && !methods[r.content.Method].fresh
}

// encodeResult returns the content of a collab_result: of a refusal, or else of a value.
func encodeResult(requestID string, value any, refusal *collab.Error) json.RawMessage {
	r := protocol.CollabResult{RequestID: requestID, OK: refusal == nil}
	if r.OK {
		r.Result = rules.MustEncode(value)
		if n := len(r.Result); n > maxResult {
			return encodeResult(requestID, nil, collab.Refuse(collab.CodeInvalid,
				"the result has %d bytes and at most %d fit into a frame: ask for fewer with limit", n, maxResult))
		}
		return rules.MustEncode(r)
	}
	message := text.Clip(refusal.Message, maxRefusal) // may quote an id of any length
	r.Error = &protocol.CollabError{Code: string(refusal.Code), Message: message}
	if refusal.Details != nil {
		r.Error.Details = rules.MustEncode(refusal.Details)
	}
	return rules.MustEncode(r)
}

// digest distinguishes requests with the same requestId or record id.
func digest(caller string, c protocol.CollabRequest) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", caller, c.Method)
	params := c.Params
	var read any
	if json.Unmarshal(params, &read) == nil {
		params = rules.MustEncode(read) // equal params have equal bytes
	}
	h.Write(params)
	return hex.EncodeToString(h.Sum(nil)[:16])
}
