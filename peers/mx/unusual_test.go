package mx

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
)

// TestParse_TakesNoImpossibleEventID relates a message to events that no server can have.
func TestParse_TakesNoImpossibleEventID(t *testing.T) {
	a := &account{bot: "@hubbub:hs", opts: (&Options{}).withDefaults()}
	parse := func(kind, relation string) *parsedEvent {
		t.Helper()
		e := &rawEvent{ID: "$1", Type: kind, Sender: "@will:hs", Content: json.RawMessage(
			`{"msgtype":"m.text","body":"a","m.new_content":{"msgtype":"m.text","body":"b"},"m.relates_to":` + relation + `}`)}
		read := a.parseMessage
		if kind == "m.reaction" {
			read = a.parseReaction
		}
		h, err := read(e)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for of, taken := range map[string]bool{
		"$a": true, "$old:hs.example": true, "$" + strings.Repeat("a", 254): true,
		"": false, "a": false, "$" + strings.Repeat("a", 255): false, "$a b": false, "$a\u0000": false, "$a\u202e": false, "$a\u00a0b": false, "$a\n": false,
		"$a\ufffd": false, "$a\ufe0f": false,
	} {
		thread := parse("m.room.message", `{"rel_type":"m.thread","event_id":`+mustJSON(of)+`}`).thread
		reply := parse("m.room.message", `{"m.in_reply_to":{"event_id":`+mustJSON(of)+`}}`).data.ReplyTo
		edit := parse("m.room.message", `{"rel_type":"m.replace","event_id":`+mustJSON(of)+`}`)
		reaction := parse("m.reaction", `{"rel_type":"m.annotation","event_id":`+mustJSON(of)+`,"key":"👍"}`)
		for what, got := range map[string]bool{
			"thread": thread == of && of != "", "reply": reply == of && of != "",
			"edit": edit.skip == "" && edit.edits == of, "reaction": reaction.skip == "" && reaction.data.ReplyTo == of,
		} {
			if got != taken {
				t.Errorf("a %s of %.40q is taken: %v, want %v", what, of, got, taken)
			}
		}
	}
}

// TestParseMessage_OfOddContent checks the messages that agents get from unusual content.
func TestParseMessage_OfOddContent(t *testing.T) {
	const answer = `"m.relates_to":{"m.in_reply_to":{"event_id":"$1"}}`
	for content, want := range map[string]string{
		`{"msgtype":"m.text","body":"a","m.mentions":[]}`:                                       "a []",
		`{"msgtype":"m.text","body":"@lead a","m.mentions":{"user_ids":"@x:hs"}}`:               "@lead a [lead]",
		`{"msgtype":"m.text","body":"a","m.relates_to":"x"}`:                                    "a []",
		`{"msgtype":"m.text","body":"a","info":7,"url":5}`:                                      "a []",
		`{"msgtype":"m.file","body":"a.txt","url":"mxc://hs/a","info":{"size":"many"}}`:         " [] document a.txt",
		`{"msgtype":"m.file","body":"../../b\n\u202e.txt","url":"mxc://hs/a"}`:                  " [] document b .txt",
		`{"msgtype":"m.file","body":"","url":"mxc://hs/a"}`:                                     " [] document ",
		`{"msgtype":"m.text","body":5}`:                                                         " [] a message with nothing in it",
		`{"body":"cat","url":"mxc://hs/a","info":{"mimetype":"image/png"}}`:                     "cat [] sticker cat",
		`{"msgtype":"m.text","body":"> <@ann:hs> old @lead\n> more\n\nyes",` + answer + `}`:     "yes []",
		`{"msgtype":"m.text","body":"> * <@ann:hs> old\n\n!stop",` + answer + `}`:               "!stop [] !stop",
		`{"msgtype":"m.text","body":"> <html> @lead\n\nno",` + answer + `}`:                     "> <html> @lead\n\nno []",
		`{"msgtype":"m.text","body":"@room go","m.mentions":{"room":true}}`:                     "@room go [all]",
		`{"msgtype":"m.text","body":"go","m.mentions":{"room":true,"user_ids":["@hubbub:hs"]}}`: "go [all hubbub]",
		`{"msgtype":"m.text","body":"＠lead 元気？ ` + "`＠ann`" + `"}`:                              "＠lead 元気？ `＠ann` [lead]",
		`{"msgtype":"m.text","body":"@room go"}`:                                                "@room go [room]",
		`{"msgtype":"m.text","body":"!  Stop\t now"}`:                                           "!  Stop\t now [] !stop",
		`{"msgtype":"m.text","body":"!PAIR\nA-B"}`:                                              "!PAIR\nA-B [] !pair",
		`{"msgtype":"m.text","body":"!Close\tmx:$e1"}`:                                          "/close mx:$e1 []",
	} {
		a := &account{bot: "@hubbub:hs", opts: (&Options{}).withDefaults()}
		kind := "m.room.message"
		if strings.HasPrefix(content, `{"body"`) {
			kind = "m.sticker"
		}
		h, err := a.parseMessage(&rawEvent{ID: "$1", Type: kind, Sender: "@will:hs", Content: json.RawMessage(content)})
		if err != nil {
			t.Errorf("%s: %v", content, err)
			continue
		}
		got := h.data.Content.Text + " [" + strings.Join(h.data.Names, " ") + "]"
		for _, f := range h.files {
			got += " " + f.Kind + " " + f.Name
		}
		if h.command != "" {
			got += " !" + h.command
		}
		if h.skip != "" {
			got += " " + h.skip
		}
		if got != want {
			t.Errorf("%s: %q, want %q", content, got, want)
		}
	}
}

func TestBeginsWithName(t *testing.T) {
	for words, want := range map[string]bool{
		"Hubbub: go": true, "hubbub,\ngo": true, "HUBBUB:\tgo": true, "hubbub:go": false, "hubbub go": false,
		"hubbub:": false, "hubbubs: go": false, "hubbub: ": false, "hub": false, "": false,
	} {
		if got := beginsWithName(words, "Hubbub"); got != want {
			t.Errorf("%q: %t", words, got)
		}
	}
}

// A proxy answers every request alike.
type proxy struct {
	status int
	body   string
}

func (p proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: p.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(p.body)),
		ContentLength: int64(len(p.body)), Request: r}, nil
}

// TestPut_RepeatsWhatTheHomeserverDidNotRefuse checks that a reply is given up only for a refusal in
// the words of Matrix, not because of a proxy in front of the homeserver.
func TestPut_RepeatsWhatTheHomeserverDidNotRefuse(t *testing.T) {
	const page = "<html><body>maintenance</body></html>"
	for answer, want := range map[proxy]bool{
		{200, page}: true, {200, "{}"}: true, {200, ""}: true, {301, page}: true, {403, page}: true, {404, page}: true,
		{404, `{"message":"no route"}`}: true, {502, page}: true, {503, `{"errcode":"M_UNKNOWN","error":""}`}: true,
		{429, page}: true, {413, page}: false,
		{403, `{"errcode":"M_FORBIDDEN","error":"no"}`}: false, {400, `{"errcode":"M_BAD_JSON","error":"no"}`}: false,
	} {
		api, err := mautrix.NewClient("http://hs", "@hubbub:hs", "token")
		if err != nil {
			t.Fatal(err)
		}
		api.Client, api.IgnoreRateLimit = &http.Client{Transport: answer}, true
		out := &outbound{account: &account{api: api, fatal: func(error) { t.Error("fatal") }}}
		_, err = out.put(context.Background(), &outgoing{chat: &chat{room: "!r:hs"}}, "m.room.message", struct{}{})
		if err == nil || outbox.WillRetry(out.classifyError(err)) != want {
			t.Errorf("%d %s: %v", answer.status, answer.body, err)
		}
	}
}

// sink keeps the contents of the events that are sent.
type sink struct{ last map[string]any }

func (s *sink) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := json.NewDecoder(r.Body).Decode(&s.last); err != nil {
		return nil, err
	}
	return proxy{200, `{"event_id":"$e"}`}.RoundTrip(r)
}

// TestPut_TakesEveryTextThatFits checks that the longest parts, and edits with them, are no larger
// than Matrix accepts.
func TestPut_TakesEveryTextThatFits(t *testing.T) {
	for _, source := range []string{
		strings.Repeat("&", maxText), strings.Repeat("<\"&", maxText/3), strings.Repeat("**b** and `c < d` ", 800),
		"```\n" + strings.Repeat("if a < b && c > d {\n", 800) + "```", strings.Repeat("> a & b\n>\n", 1500),
		strings.Repeat("- _ü_\n", 2300),
	} {
		for i, p := range splitParts(&bridge.Reply{Content: protocol.ChatReply{Text: source}}) {
			db, err := Open(t.TempDir() + "/" + Database)
			if err != nil {
				t.Fatal(err)
			}
			s, log := new(sink), zerolog.Nop()
			api, err := mautrix.NewClient("http://hs", "@hubbub:hs", "token")
			if err != nil {
				t.Fatal(err)
			}
			api.Client = &http.Client{Transport: s}
			out := &outbound{account: &account{db: db, api: api, log: &log, bot: "@hubbub:hs"}}
			o := &outgoing{chat: &chat{key: "!r:hs", room: "!r:hs"}, agent: "agent:lead", part: p, content: protocol.ChatReply{Text: source}}
			if i == 0 {
				o.content.Edits = "first"
				seedSend(t, out)
			}
			if _, err := out.transmit(t.Context(), o); err != nil {
				t.Errorf("part %d of %.20q: %v", i, source, err)
			}
			if given, ok := s.last["m.new_content"]; i == 0 && (!ok || reflect.ValueOf(given).Len() == 0) {
				t.Errorf("part 0 of %.20q is no edit: %.100v", source, s.last)
			}
			db.Close()
		}
	}
}

// seedSend stores that the reply "first" of the agent was sent.
func seedSend(t *testing.T, out *outbound) {
	t.Helper()
	err := store.InTx(t.Context(), out.db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO replies (id, chat, agent, key, content, received_at)
			VALUES (1, '!r:hs', 'agent:lead', 'first', '{}', 0)`)
		tx.Exec(`INSERT INTO sends (reply, part, kind, body, txn, event) VALUES (1, 0, 'text', '', 't', '$first')`)
	})
	if err != nil {
		t.Fatal(err)
	}
}
