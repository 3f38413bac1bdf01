package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/jsonrpc"
)

// A Send is a checked sendMessage. Payload is a span of the params and reaches the subscribers
// byte for byte.
type Send struct {
	Topic     string
	Payload   []byte
	MessageID string
	Type      MessageType
	From      string
	Once      bool // repeats get the first outcome
}

var (
	paramKeys   = []string{"topic", "payload", "clientId", "clientInfo", "observe", "subscriptions", "once"}
	payloadKeys = []string{"messageId", "type", "from", "timestamp", "content", "inReplyTo", "traceparent"}
)

// ScanSend reads and checks the params of sendMessage (sections 5.3 and 7), which must
// be a span of the frame that p parsed last. It does not check the role: see MaySend.
func ScanSend(p *jsonrpc.Parser, params []byte) (Send, error) {
	var f [7][]byte
	if err := scanObject(p, "params", params, paramKeys, f[:]); err != nil {
		return Send{}, err
	}
	topic, err := name("params.topic", f[0], MaxTopic)
	if err != nil {
		return Send{}, err
	}
	var m [7][]byte
	if err := scanObject(p, "params.payload", f[1], payloadKeys, m[:]); err != nil {
		return Send{}, err
	}
	once, err := flag("params.once", f[6])
	if err != nil {
		return Send{}, err
	}
	s := Send{Payload: f[1], Once: once}
	err = s.scanPayload(topic, &m)
	return s, err
}

func (s *Send) scanPayload(topic []byte, f *[7][]byte) error {
	messageID, err := name("payload.messageId", f[0], MaxMessageID)
	if err != nil {
		return err
	}
	if s.Type, err = messageType(f[1]); err != nil {
		return err
	}
	from, err := name("payload.from", f[2], MaxPeerID)
	if err != nil {
		return err
	}
	s.setNames(topic, messageID, from)
	if err := checkTimestamp(f[3]); err != nil {
		return err
	}
	if !jsonrpc.IsObject(f[4]) {
		return errors.New("payload.content must be an object")
	}
	if err := optionalName("payload.inReplyTo", f[5], MaxMessageID); err != nil {
		return err
	}
	return optionalName("payload.traceparent", f[6], MaxMessageID)
}

// setNames copies the names out of the frame, with one allocation.
func (s *Send) setNames(topic, messageID, from []byte) {
	var room [256]byte
	all := string(append(append(append(room[:0], topic...), messageID...), from...))
	s.Topic, all = all[:len(topic)], all[len(topic):]
	s.MessageID, s.From = all[:len(messageID)], all[len(messageID):]
}

// ScanInitialize reads the clientId of initialize's params (section 4.1), and the
// patterns that the session subscribes to with it (value: observe).
func ScanInitialize(p *jsonrpc.Parser, params []byte) (PeerID, map[Pattern]bool, error) {
	var f [7][]byte
	if err := scanObject(p, "params", params, paramKeys, f[:]); err != nil {
		return "", nil, err
	}
	id, err := required("params.clientId", f[2])
	if err == nil {
		err = CheckPeerID(string(id))
	}
	if err != nil {
		return "", nil, err
	}
	patterns, err := scanSubscriptions(f[5])
	return PeerID(id), patterns, err
}

// scanSubscriptions reads a list of subscribe params.
func scanSubscriptions(list []byte) (map[Pattern]bool, error) {
	if list == nil || string(list) == "null" {
		return nil, nil
	}
	var entries []json.RawMessage
	if json.Unmarshal(list, &entries) != nil {
		return nil, errors.New("params.subscriptions must be an array")
	}
	var p jsonrpc.Parser
	patterns := make(map[Pattern]bool, len(entries))
	for i, entry := range entries {
		// Parsing each entry as the params of a subscribe applies the same rules.
		m, err := p.Parse(jsonrpc.AppendRequestText(nil, "1", MethodSubscribe, string(entry)))
		if err != nil {
			return nil, fmt.Errorf("params.subscriptions[%d] must be an object", i)
		}
		pattern, observe, err := ScanSubscribe(&p, m.Params)
		if err != nil {
			return nil, fmt.Errorf("params.subscriptions[%d]: %w", i, err)
		}
		patterns[pattern] = observe
	}
	return patterns, nil
}

// ScanSubscribe reads the params of subscribe and unsubscribe (sections 5.1
// and 5.2).
func ScanSubscribe(p *jsonrpc.Parser, params []byte) (pattern Pattern, observe bool, err error) {
	var f [7][]byte
	if err := scanObject(p, "params", params, paramKeys, f[:]); err != nil {
		return "", false, err
	}
	s, err := required("params.topic", f[0])
	if err != nil {
		return "", false, err
	}
	if observe, err = flag("params.observe", f[4]); err != nil {
		return "", false, err
	}
	pattern, err = ParsePattern(string(s))
	return pattern, observe, err
}

var resultKeys = []string{"processed", "status", "message", "reason"}

// ScanProcessed reads the result of a processMessage and reports whether the peer
// processed the message: processed is not false. It returns an error if the result is
// unusable.
func ScanProcessed(p *jsonrpc.Parser, result []byte) (processed bool, err error) {
	var r [4][]byte
	if err := scanObject(p, "result", result, resultKeys, r[:]); err != nil {
		return false, err
	}
	switch string(r[0]) {
	case "false":
		return false, nil
	case "", "true", "null":
		return true, nil
	default:
		return false, errors.New("result.processed must be true or false")
	}
}

func scanObject(p *jsonrpc.Parser, what string, v []byte, known []string, into [][]byte) error {
	if !jsonrpc.IsObject(v) {
		return fmt.Errorf("%s must be an object", what)
	}
	if err := p.Object(v, known, into); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// flag reads an optional boolean.
func flag(what string, v []byte) (bool, error) {
	switch string(v) {
	case "true":
		return true, nil
	case "", "false", "null":
		return false, nil
	}
	return false, fmt.Errorf("%s must be true or false", what)
}

func required(what string, v []byte) ([]byte, error) {
	if s := jsonrpc.UnquoteBytes(v); len(s) > 0 {
		return s, nil
	}
	return nil, fmt.Errorf("%s must be a non-empty string", what)
}

// name reads a string that is shown in logs and on terminals.
func name(what string, v []byte, limit int) ([]byte, error) {
	s, err := required(what, v)
	if err == nil {
		err = checkName(what, s, limit)
	}
	return s, err
}

// optionalName checks a name that may be empty or missing.
func optionalName(what string, v []byte, limit int) error {
	if v != nil && !jsonrpc.IsString(v) {
		return fmt.Errorf("%s must be a string", what)
	}
	if s := jsonrpc.UnquoteBytes(v); len(s) > 0 {
		return checkName(what, s, limit)
	}
	return nil
}

// messageType reads a type, without allocation for known types. MaySend refuses all others.
func messageType(v []byte) (MessageType, error) {
	if len(v) > 2 && v[0] == '"' {
		for _, t := range AllTypes {
			if string(v[1:len(v)-1]) == string(t) {
				return t, nil
			}
		}
	}
	s, err := required("payload.type", v)
	return MessageType(s), err
}

func checkTimestamp(v []byte) error {
	var t time.Time
	if jsonrpc.IsString(v) && t.UnmarshalJSON(v) == nil && strict(v[1:len(v)-1]) { // no allocation, no escapes
		return nil
	}
	if isTimestamp(jsonrpc.UnquoteBytes(v)) {
		return nil
	}
	return errors.New("payload.timestamp must be an RFC 3339 time, such as 2026-02-17T12:00:00Z")
}

// isTimestamp reports whether a text is a time of RFC 3339, which may have small letters and, in the last
// minute of a month, a leap second. Package time reads neither.
func isTimestamp(text []byte) bool {
	const seconds, end = len("2006-01-02T15:04:"), len("2006-01-02T15:04:05")
	text = bytes.ToUpper(text)
	isLeap := len(text) > end && string(text[seconds:end]) == "60"
	if isLeap {
		copy(text[seconds:], "59")
	}
	var t time.Time
	if t.UnmarshalText(text) != nil || !strict(text) {
		return false
	}
	next := t.UTC().Add(time.Second)
	return !isLeap || next.Day() == 1 && next.Hour() == 0 && next.Minute() == 0
}

// strict reports whether a time that package time has parsed as RFC 3339 is valid. The package
// also accepts hours of one digit, a comma before the fraction, and offsets up to 24:60
// (https://go.dev/issue/54580).
func strict(text []byte) bool {
	if text[len("2006-01-02T1")] == ':' || text[len("2006-01-02T15:04:05")] == ',' {
		return false
	}
	offset := text[len(text)-len("07:00"):]
	return text[len(text)-1] == 'Z' || string(offset[:2]) < "24" && string(offset[3:]) < "60"
}
