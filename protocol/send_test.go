package protocol_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// params parses a frame with the given params, as the bus does.
func params(t *testing.T, text string) (*jsonrpc.Parser, []byte) {
	t.Helper()
	p := new(jsonrpc.Parser)
	m, err := p.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + text + `}`))
	if err != nil {
		t.Fatalf("%.80s: %v", text, err)
	}
	return p, m.Params
}

// sendWith is a good sendMessage with one change.
func sendWith(old, replacement string) string {
	const good = `{"topic":"agent:a","payload":{"messageId":"m1","type":"tg_message","from":"tg:1","timestamp":"2026-02-17T12:00:00Z","content":{}}}`
	return strings.Replace(good, old, replacement, 1)
}

// TestScanSend covers each member of a message at its limit and one past,
// missing, and of another type. An empty want is an accepted message.
func TestScanSend(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ name, params, want string }{
		{"good", sendWith("", ""), ""},
		{"topic at the limit", sendWith("agent:a", x(256)), ""},
		{"topic one past", sendWith("agent:a", x(257)), "topic is 257 bytes long; at most 256"},
		{"topic of two-byte characters one past", sendWith("agent:a", strings.Repeat("é", 128)+"x"), "257 bytes"},
		{"topic empty", sendWith("agent:a", ""), "params.topic must be a non-empty string"},
		{"topic number", sendWith(`"agent:a"`, "7"), "params.topic must be a non-empty string"},
		{"topic missing", sendWith(`"topic":"agent:a",`, ""), "params.topic must be a non-empty string"},
		{"topic twice", sendWith(`"topic"`, `"topic":"tg:2","topic"`), "topic"},
		{"topic but for case", sendWith(`"topic"`, `"Topic":"tg:2","topic"`), "Topic"},
		{"params array", `[1]`, "params must be an object"},
		{"payload missing", `{"topic":"a"}`, "params.payload must be an object"},
		{"payload string", `{"topic":"a","payload":"{}"}`, "params.payload must be an object"},
		{"messageId at the limit", sendWith("m1", x(256)), ""},
		{"messageId one past", sendWith("m1", x(257)), "payload.messageId is 257 bytes long"},
		{"messageId empty", sendWith("m1", ""), "payload.messageId must be a non-empty string"},
		{"messageId null", sendWith(`"m1"`, "null"), "payload.messageId must be a non-empty string"},
		{"type of no table", sendWith("tg_message", "gossip"), ""}, // MaySend refuses it
		{"type escaped", sendWith("tg_message", `tg\u005fmessage`), ""},
		{"type missing", sendWith(`"type":"tg_message",`, ""), "payload.type must be a non-empty string"},
		{"from at the limit", sendWith("tg:1", "tg:"+x(253)), ""},
		{"from one past", sendWith("tg:1", "tg:"+x(254)), "payload.from is 257 bytes long"},
		{"from object", sendWith(`"tg:1"`, "{}"), "payload.from must be a non-empty string"},
		{"from twice", sendWith(`"from"`, `"from":"tg:2","from"`), "from"},
		{"timestamp with offset", sendWith("12:00:00Z", "12:00:00.123456+02:00"), ""},
		{"timestamp escaped", sendWith("2026-", `2026\u002d`), ""},
		{"timestamp without zone", sendWith("12:00:00Z", "12:00:00"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp with an hour of one digit", sendWith("12:00:00Z", "1:00:00Z"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp with a comma", sendWith("12:00:00Z", "12:00:00,5Z"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp with an offset of a day", sendWith("12:00:00Z", "12:00:00+24:00"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp with an offset of 60 minutes", sendWith("12:00:00Z", "12:00:00-01:60"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp with the widest offset", sendWith("12:00:00Z", "12:00:00.5-23:59"), ""},
		{"timestamp with small letters", sendWith("T12:00:00Z", "t12:00:00.5z"), ""},
		{"timestamp of a leap second", sendWith("2026-02-17T12:00:00Z", "2016-12-31T23:59:60Z"), ""},
		{"timestamp of a leap second with offset", sendWith("2026-02-17T12:00:00Z", "2016-12-31t15:59:60.25-08:00"), ""},
		{"timestamp of a leap second at noon", sendWith("2026-02-17T12:00:00Z", "2016-12-31T12:00:60Z"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp of a leap second within a month", sendWith("12:00:00Z", "23:59:60Z"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp number", sendWith(`"2026-02-17T12:00:00Z"`, "1771329600"), "payload.timestamp must be an RFC 3339 time"},
		{"timestamp missing", sendWith(`"timestamp":"2026-02-17T12:00:00Z",`, ""), "payload.timestamp must be an RFC 3339 time"},
		{"content array", sendWith(`"content":{}`, `"content":[]`), "payload.content must be an object"},
		{"content missing", sendWith(`,"content":{}`, ""), "payload.content must be an object"},
		{"content with repeated keys", sendWith(`"content":{}`, `"content":{"a":1,"a":2}`), ""}, // not ours to read
		{"extras", sendWith(`"content":{}`, `"content":{},"inReplyTo":"m0","traceparent":"00-1-2-01","mood":{"x":[]}`), ""},
		{"inReplyTo number", sendWith(`"content":{}`, `"content":{},"inReplyTo":7`), "payload.inReplyTo must be a string"},
		{"inReplyTo with a bell", sendWith(`"content":{}`, `"content":{},"inReplyTo":"m\u0007"`), "inReplyTo must be valid Unicode without control"},
		{"inReplyTo with a wide blank", sendWith(`"content":{}`, `"content":{},"inReplyTo":"m\u2003"`), "payload.inReplyTo must be valid Unicode without control"},
		{"inReplyTo and traceparent at the limit", sendWith(`"content":{}`, `"content":{},"inReplyTo":"`+x(256)+`","traceparent":"`+x(256)+`"`), ""},
		{"inReplyTo one past", sendWith(`"content":{}`, `"content":{},"inReplyTo":"`+x(257)+`"`), "payload.inReplyTo is 257 bytes long; at most 256 are allowed"},
		{"traceparent one past", sendWith(`"content":{}`, `"content":{},"traceparent":"`+x(257)+`"`), "payload.traceparent is 257 bytes long; at most 256 are allowed"},
		{"traceparent with a line break", sendWith(`"content":{}`, `"content":{},"traceparent":"00\n"`), "payload.traceparent must be valid Unicode without control"},
		{"inReplyTo and traceparent empty", sendWith(`"content":{}`, `"content":{},"inReplyTo":"","traceparent":""`), ""},
		{"from with a no-break space", sendWith("tg:1", `tg:\u00a01`), "payload.from must be valid Unicode without control"},
		{"topic with an empty Braille pattern", sendWith("agent:a", `agent:a\u2800`), "blanks other than the space"},
		{"topic with a line break", sendWith("agent:a", `agent:a\n`), "params.topic must be valid Unicode without control"},
		{"messageId with an escape", sendWith("m1", `m1\u001b[2J`), "payload.messageId must be valid Unicode without control"},
		{"from with a C1 control", sendWith("tg:1", "tg:1\u0085"), "payload.from must be valid Unicode without control"},
		{"from with a zero-width space", sendWith("tg:1", "tg:\u200b1"), "payload.from must be valid Unicode without control or invisible characters"},
		{"topic with a joiner", sendWith("agent:a", `agent:a\u200d`), "params.topic must be valid Unicode without control or invisible characters"},
		{"from that turns the text", sendWith("tg:1", "tg:\u202e1"), "payload.from must be valid Unicode without control"},
		{"from with accents and an emoji", sendWith("tg:1", "tg:é👩💻"), ""},
		{"content with control characters", sendWith(`"content":{}`, `"content":{"text":"\u001b[2J\n"}`), ""},
		{"traceparent null", sendWith(`"content":{}`, `"content":{},"traceparent":null`), "payload.traceparent must be a string"},
	} {
		p, text := params(t, c.params)
		s, err := protocol.ScanSend(p, text)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "":
			var in struct{ Payload json.RawMessage }
			if json.Unmarshal(text, &in) != nil || string(s.Payload) != string(in.Payload) {
				t.Errorf("%s: the payload is %.80s; want it byte for byte", c.name, s.Payload)
			}
		}
	}
}

func TestScanInitialize(t *testing.T) {
	for text, want := range map[string]string{
		`{"clientId":"tg:1"}`: "", `{"clientId":"tg:1","clientInfo":{"name":"x"},"more":1}`: "", `{"clientId":"anything at all"}`: "",
		`{"clientId":"` + strings.Repeat("x", 256) + `"}`: "", `{"clientId":"` + strings.Repeat("x", 257) + `"}`: "clientId is 257 bytes long",
		`{"clientId":""}`: "params.clientId must be a non-empty string", `{"clientId":1}`: "params.clientId must be a non-empty string",
		`{"clientId":"a\u0000"}`: "clientId must be valid Unicode without control", `{"clientId":"a\u2066b"}`: "clientId must be valid Unicode without control",
		`{}`: "params.clientId must be a non-empty string", `[]`: "params must be an object", `{"ClientId":"x","clientId":"y"}`: "ClientId",
	} {
		p, v := params(t, text)
		id, _, err := protocol.ScanInitialize(p, v)
		if want == "" && (err != nil || id == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %q, %v; want %q", text, id, err, want)
		}
	}
}

func TestScanInitialize_Subscriptions(t *testing.T) {
	for list, want := range map[string]string{
		``: "map[]", `,"subscriptions":null`: "map[]", `,"subscriptions":[]`: "map[]",
		`,"subscriptions":[{"topic":"a"},{"topic":"b*","observe":true}]`: "map[a:false b*:true]",
		`,"subscriptions":[{"topic":"a"},{"topic":"a","observe":true}]`:  "map[a:true]",
		`,"subscriptions":{}`:                                 "params.subscriptions must be an array",
		`,"subscriptions":["a"]`:                              "params.subscriptions[0]",
		`,"subscriptions":[{}]`:                               "params.subscriptions[0]: params.topic must be",
		`,"subscriptions":[{"topic":"a"},{"topic":"[b]"}]`:    `params.subscriptions[1]: the pattern has "["`,
		`,"subscriptions":[{"topic":"a","observe":1}]`:        "params.subscriptions[0]: params.observe must be true or false",
		`,"subscriptions":[{"topic":"a","topic":"b"}]`:        "repeated",
		`,"subscriptions":[{"Topic":"a"}]`:                    "Topic",
		`,"Subscriptions":[{"topic":"a"}]`:                    "Subscriptions",
		`,"subscriptions":[],"subscriptions":[{"topic":"a"}]`: "repeated",
	} {
		p, v := params(t, `{"clientId":"x"`+list+`}`)
		_, patterns, err := protocol.ScanInitialize(p, v)
		got := fmt.Sprint(patterns)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", list, got, want)
		}
	}
}

func TestScanSubscribe(t *testing.T) {
	for text, want := range map[string]string{
		`{"topic":"tg:*"}`: "tg:* false", `{"topic":"tg:?","observe":true}`: "tg:? true", `{"topic":"a","observe":null}`: "a false",
		`{"topic":"a","observe":false}`: "a false", `{"topic":"a","observe":"yes"}`: "observe must be true or false",
		`{"topic":""}`: "params.topic must be a non-empty string", `7`: "params must be an object",
		`{"topic":"` + strings.Repeat("x", 128) + `"}`: strings.Repeat("x", 128) + " false",
		`{"topic":"` + strings.Repeat("x", 129) + `"}`: "topic pattern is 129 bytes long; at most 128",
		`{"topic":"********"}`:                         "******** false", `{"topic":"*********"}`: "the pattern has 9 stars; at most 8",
		`{"topic":"a[b]"}`: `the pattern has "["`, `{"topic":"{a,b}"}`: `the pattern has "{"`, `{"topic":"a\\b"}`: `the pattern has "\\"`,
		`{"topic":"a\u007f*"}`: "topic pattern must be valid Unicode without control",
		`{"topic":"b]"}`:       `the pattern has "]"`, `{"topic":"b}"}`: `the pattern has "}"`,
	} {
		p, v := params(t, text)
		pattern, observe, err := protocol.ScanSubscribe(p, v)
		got := fmt.Sprint(pattern, " ", observe)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%.60s: %s; want %s", text, got, want)
		}
	}
}

func TestScanProcessed(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "true", `{"processed":true}`: "true", `{"processed":false}`: "false", `{"processed":null}`: "true", `{"status":"x","more":[]}`: "true",
		`{"processed":1}`: "must be true or false", `{"processed":"false"}`: "must be true or false", `null`: "must be an object",
		`{"processed":true,"processed":false}`: "processed", `{"Processed":false}`: "Processed",
	} {
		p, v := params(t, text)
		processed, err := protocol.ScanProcessed(p, v)
		got := fmt.Sprint(processed)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
}

func TestNewMessage(t *testing.T) {
	a := protocol.NewMessage(protocol.TypeTGReply, "agent:a", protocol.ChatReply{Text: "hi"})
	b := protocol.NewMessage(protocol.TypeTGReply, "agent:a", protocol.ChatReply{})
	if a.MessageID == b.MessageID || !strings.HasPrefix(string(a.MessageID), "msg_") || len(a.MessageID) != len("msg_")+26 {
		t.Errorf("message ids %q and %q", a.MessageID, b.MessageID)
	}
	if at, err := time.Parse(time.RFC3339, a.Timestamp); err != nil || time.Since(at) > time.Minute || !strings.HasSuffix(a.Timestamp, "Z") {
		t.Errorf("timestamp %q, %v", a.Timestamp, err)
	}
	raw, err := json.Marshal(protocol.SendParams{Topic: "tg:1", Payload: a})
	if err != nil {
		t.Fatal(err)
	}
	p, v := params(t, string(raw))
	if s, err := protocol.ScanSend(p, v); err != nil || s.MessageID != string(a.MessageID) || s.Type != protocol.TypeTGReply || s.From != "agent:a" {
		t.Errorf("what we send, the bus reads as %+v, %v", s, err)
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "tg_reply") {
			t.Errorf("content that is no JSON: %v; want a panic that names the type", r)
		}
	}()
	protocol.NewMessage(protocol.TypeTGReply, "agent:a", func() {})
}

func TestFormatTime(t *testing.T) {
	at := time.Date(2026, 2, 17, 13, 0, 0, 45678, time.FixedZone("", 3600))
	if got := protocol.FormatTime(at); got != "2026-02-17T12:00:00.000045Z" {
		t.Errorf("got %s", got)
	}
}

func TestShapes(t *testing.T) {
	for p, want := range map[protocol.Pattern]string{
		"tg:1": "exact tg:1", "tg:*": "prefix tg:", "*": "prefix ", "tg:?": "general tg:", "*:x": "general ", "tg:**": "general tg:", "a*b*": "general a",
	} {
		shape, text := p.Shape()
		got := map[protocol.Shape]string{protocol.ShapeExact: "exact", protocol.ShapePrefix: "prefix", protocol.ShapeGeneral: "general"}[shape] + " " + text
		if got != want {
			t.Errorf("%q is %q; want %q", p, got, want)
		}
	}
}
