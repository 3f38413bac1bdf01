package cmd_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/bridge"
	"hubbub/protocol"
)

// invited makes a room with the bot in it.
func (p *person) invited(more map[string]any) string {
	p.m.t.Helper()
	ask := map[string]any{"invite": []string{"@bot:hs.test"}}
	for k, v := range more {
		ask[k] = v
	}
	room := p.do("create", ask)
	p.joined(room)
	return room
}

// saw reports whether the person saw an event of the bot.
func (p *person) saw(room, kind, event string) bool {
	return slices.ContainsFunc(p.fromBot(room, kind), func(s shown) bool { return event == "" || s.ID == event })
}

// reply publishes a chat_reply as an agent.
func (m *matrix) reply(room string, content map[string]any) {
	m.t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		m.t.Fatal(err)
	}
	m.hubbub("pub", "mx:"+room, "--type", "chat_reply", "--as", "agent:outside", "--content", string(raw))
}

// post makes a request to the homeserver and returns its answer.
func (m *matrix) post(path, token string, body any) map[string]any {
	m.t.Helper()
	raw, _ := json.Marshal(body)
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.url+"/_matrix/client/v3/"+path, bytes.NewReader(raw))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	var got map[string]any
	if json.NewDecoder(resp.Body).Decode(&got) != nil || resp.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: %d %v", path, resp.StatusCode, got)
	}
	return got
}

// TestMatrix_WithAccessToken runs what the other test does not, with a bridge that has a token.
func TestMatrix_WithAccessToken(t *testing.T) {
	m := newMatrix(t)
	m.token, _ = m.post("login", "", map[string]any{
		"type": "m.login.password", "password": "a long password",
		"identifier": map[string]any{"type": "m.id.user", "user": "bot"},
	})["access_token"].(string)
	m.bridge()
	will, ann, mallory := m.person("will"), m.person("ann"), m.person("mallory")
	parts := []struct {
		name string
		run  func(m *matrix, will, ann, mallory *person)
	}{
		{"signals", signalsOfMatrix}, {"typing", typingOfMatrix}, {"receipts", receiptsOfMatrix}, {"files", filesOfMatrix},
		{"upgrade", upgradeOfMatrix}, {"pairing", pairingOfMatrix}, {"allow-room", allowRoomOfMatrix}, {"gap", gapOfMatrix},
		{"same names", sameNamesOfMatrix}, {"large room", largeRoomOfMatrix}, {"membership", membershipOfMatrix},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(m.in(t), will.in(t), ann.in(t), mallory.in(t)) })
	}
}

func signalsOfMatrix(m *matrix, will, _, _ *person) {
	room := will.invited(map[string]any{"direct": true})
	said := will.say(room, "which signals are there?", nil)
	answer := will.hears(room, "which signals")[0]
	emoji := map[string]string{"seen": "👀", "agree": "👍️", "working": "🔧", "queued": "🕐", "claimed": "✋", "done": "✅", "declined": "🙅‍♂️", "blocked": "🚧", "unclear": "❓️"}
	for _, signal := range bridge.Signals {
		will.do("send", map[string]any{"room": room, "type": "m.reaction", "content": map[string]any{
			"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": answer.ID, "key": emoji[signal]},
		}})
		m.got("the reaction "+signal, func(c *protocol.ChatMessage) bool {
			return c.Event == "reaction" && c.Signal == signal && c.ReplyTo.SourceID == "mx:"+answer.ID
		})
		m.reply(room, map[string]any{"signal": signal, "inReplyTo": "mx:" + said, "idempotencyKey": signal})
		m.until("the signal "+signal, func() bool {
			return slices.ContainsFunc(will.fromBot(room, "m.reaction"), func(s shown) bool { return s.Relates.Event == said && s.Relates.Key != "" })
		})
	}
	m.until("nine reactions", func() bool { return len(will.fromBot(room, "m.reaction")) >= 9 })
	m.until("eight removals", func() bool { return len(will.fromBot(room, "m.room.redaction")) >= 8 })
}

func typingOfMatrix(m *matrix, will, _, _ *person) {
	room := will.invited(map[string]any{"direct": true})
	will.say(room, "are you typing?", nil)
	will.hears(room, "are you typing?")
	will.do("typing", map[string]any{"room": room})
	m.got("typing", func(c *protocol.ChatMessage) bool {
		return c.Event == "typing" && c.Chat.ID == room && c.Author.ID == "@will:hs.test"
	})
	m.reply(room, map[string]any{"typing": true})
	m.until("the bot's typing", func() bool { return will.saw(room, "m.typing", "") })
}

func receiptsOfMatrix(m *matrix, will, _, _ *person) {
	room := will.invited(map[string]any{"direct": true})
	said := will.say(room, "did you read it?", nil)
	answer := will.hears(room, "did you read it?")[0]
	will.do("read", map[string]any{"room": room, "event": answer.ID})
	m.got("a receipt", func(c *protocol.ChatMessage) bool {
		return c.Event == "reaction" && c.Signal == "seen" && c.ReplyTo.SourceID == "mx:"+answer.ID
	})
	m.reply(room, map[string]any{"signal": "seen", "inReplyTo": "mx:" + said, "idempotencyKey": "r"})
	m.until("the bot's receipt", func() bool { return will.saw(room, "m.receipt", said) })
}

func filesOfMatrix(m *matrix, will, _, _ *person) {
	room := will.invited(map[string]any{"direct": true})
	will.say(room, "may I send files?", nil)
	will.hears(room, "may I send files?")
	png, _ := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	for _, f := range []struct {
		msgtype, as, name, kind string
		data                    []byte
	}{
		{"m.image", "image/png", "dot.png", "photo", png}, {"m.file", "text/plain", "notes.txt", "document", []byte("a note")},
		{"m.file", "application/octet-stream", "große Datei.bin", "document", bytes.Repeat([]byte{7, 1}, 30<<10)},
		{"m.audio", "audio/ogg", "a.ogg", "audio", []byte("OggS....")}, {"m.video", "video/mp4", "v.mp4", "video", []byte("....ftypmp42")},
	} {
		uri := will.do("upload", map[string]any{"data": base64.StdEncoding.EncodeToString(f.data), "type": f.as, "name": f.name})
		will.do("send", map[string]any{"room": room, "content": map[string]any{
			"msgtype": f.msgtype, "body": f.name, "url": uri, "info": map[string]any{"mimetype": f.as, "size": len(f.data)},
		}})
		got := m.got("the file "+f.name, func(c *protocol.ChatMessage) bool { return len(c.Attachments) == 1 && c.Attachments[0].Name == f.name }).Attachments[0]
		resp, err := http.Get(got.Ref) //nolint:noctx // the server is this test's
		if err != nil {
			m.t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close() //nolint:errcheck // it was read
		if err != nil || !bytes.Equal(data, f.data) || got.Kind != f.kind || got.MimeType != f.as || got.Size != int64(len(f.data)) {
			m.t.Errorf("%s: %d, %v, %d bytes of %d, %+v", f.name, resp.StatusCode, err, len(data), len(f.data), got)
		}
	}
	for name, data := range map[string][]byte{"dot.png": png, "report.csv": []byte("a,b\n1,2\n")} {
		m.reply(room, map[string]any{"text": "here is " + name, "idempotencyKey": name, "file": protocol.File{Name: name, Data: data}})
		said := will.hears(room, "here is "+name)[0]
		uri := will.content(said.ID)["url"]
		if back := will.do("download", map[string]any{"uri": uri}); back != base64.StdEncoding.EncodeToString(data) {
			m.t.Errorf("%s came back as %q", name, back)
		}
	}
	m.reply(room, map[string]any{"text": "too large", "idempotencyKey": "large", "file": protocol.File{Name: "a.bin", Data: make([]byte, 70<<10)}})
	will.hears(room, "An answer could not be shown here")
	list := m.hubbub("outbox", "list")
	if !strings.Contains(list, "the homeserver accepts no file of 71680 bytes") {
		m.t.Errorf("the operator reads %s", list)
	}
	m.hubbub("outbox", "drop", deadLetter.FindStringSubmatch(list)[1])
}

var deadLetter = regexp.MustCompile(`(matrix:\d+) .* dead `)

// content returns the content of an event.
func (p *person) content(event string) (c map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.seen {
		if e.Event.ID == event {
			_ = json.Unmarshal(e.Event.Content, &c) // it is an object
		}
	}
	return c
}

func upgradeOfMatrix(m *matrix, will, ann, _ *person) {
	for _, preset := range []string{"public_chat", "private_chat"} {
		room := will.invited(map[string]any{"name": "Old", "state": []any{map[string]any{"type": "m.room.join_rules", "state_key": "", "content": map[string]any{"join_rule": map[string]string{"public_chat": "public", "private_chat": "invite"}[preset]}}}})
		will.say(room, "is this before "+preset+"?", mentionsBot)
		will.hears(room, "is this before "+preset)
		var now struct {
			Room string `json:"replacement_room"`
		}
		said := will.do("call", map[string]any{"method": "POST", "path": "/_matrix/client/v3/rooms/" + room + "/upgrade", "body": map[string]any{"new_version": "9"}})
		if json.Unmarshal([]byte(said), &now) != nil || now.Room == "" {
			m.t.Fatalf("the upgrade: %s", said)
		}
		if preset == "private_chat" {
			will.do("invite", map[string]any{"room": now.Room, "user": "@bot:hs.test"})
		}
		will.joined(now.Room)
		will.say(now.Room, "is this after "+preset+"?", mentionsBot)
		will.hears(now.Room, "is this after "+preset)
		m.got("the same chat", func(c *protocol.ChatMessage) bool { return c.Chat.ID == room && c.Text == "is this after "+preset+"?" })
		m.reply(room, map[string]any{"text": "to the old address " + preset, "idempotencyKey": preset})
		will.hears(now.Room, "to the old address "+preset)
	}
	if list := m.hubbub("outbox", "list"); deadLetter.MatchString(list) {
		m.t.Errorf("dead letters: %s", list)
	}
}

var pairCode = regexp.MustCompile(`/pair (\S+)`)

func pairingOfMatrix(m *matrix, _, _, mallory *person) {
	code := pairCode.FindStringSubmatch(m.hubbub("pair"))
	if code == nil {
		m.t.Fatal("no code")
	}
	room := mallory.invited(map[string]any{"direct": true})
	mallory.say(room, "unheard", nil)
	mallory.say(room, "!pair "+code[1], nil)
	m.until("an answer to the code", func() bool { return len(mallory.fromBot(room, "m.room.message")) > 0 })
	mallory.say(room, "am I heard?", nil)
	mallory.hears(room, "am I heard?")
	for _, p := range m.publications() {
		if strings.Contains(string(p.message.Content), "unheard") {
			m.t.Error("what came before the code was heard")
		}
	}
}

func allowRoomOfMatrix(m *matrix, will, ann, _ *person) {
	room := ann.do("create", map[string]any{"name": "Ann's"})
	m.args = []string{"--allow-room", room}
	m.kill("matrix")
	ann.do("invite", map[string]any{"room": room, "user": "@bot:hs.test"})
	ann.joined(room)
	ann.say(room, "is this room admitted?", mentionsBot)
	ann.hears(room, "is this room admitted?")
	other := ann.do("create", map[string]any{"invite": []string{"@bot:hs.test"}})
	ann.joined(other)
	if said := ann.fromBot(other, "m.room.message"); len(said) > 0 {
		m.t.Errorf("another room of ann got %+v", said)
	}
}

func gapOfMatrix(m *matrix, will, _, _ *person) {
	room := will.invited(map[string]any{"name": "Gap"})
	will.say(room, "first?", mentionsBot)
	will.hears(room, "first?")
	m.run["matrix"].kill()
	for i := range 230 {
		will.say(room, fmt.Sprintf("gap %03d", i), nil)
	}
	m.bridge()
	m.got("the last one", func(c *protocol.ChatMessage) bool { return c.Text == "gap 229" })
	var got []string
	for _, p := range m.publications() {
		var c protocol.ChatMessage
		if p.message.Type == protocol.TypeChatMessage && p.status == "ok" && json.Unmarshal(p.message.Content, &c) == nil && strings.HasPrefix(c.Text, "gap ") {
			got = append(got, c.Text)
		}
	}
	if len(got) != 230 || !slices.IsSorted(got) {
		m.t.Errorf("%d messages of 230 came: %q", len(got), got)
	}
}

var questionID = regexp.MustCompile(`q-\w+`)

func sameNamesOfMatrix(m *matrix, will, ann, mallory *person) {
	ann.do("rename", map[string]any{"name": "Sam"})
	mallory.do("rename", map[string]any{"name": "Sam"})
	room := will.invited(map[string]any{"name": "Sams", "invite": []string{"@bot:hs.test", "@ann:hs.test", "@mallory:hs.test"}})
	for _, p := range []*person{ann, mallory} {
		p.do("join", map[string]any{"room": room})
		p.say(room, "said by one Sam", nil)
	}
	for _, id := range []string{"@ann:hs.test", "@mallory:hs.test"} {
		m.got("the Sam "+id, func(c *protocol.ChatMessage) bool { return c.Text == "said by one Sam" && c.Author.ID == id })
	}
	will.say(room, "@Sam are you there", nil)
	m.start("broker")
	for _, command := range []string{"!ask @Sam is it you?", "!work @Sam fix the build"} {
		before := len(will.fromBot(room, "m.room.message"))
		will.say(room, command, nil)
		m.until("which Sam", func() bool { return len(will.fromBot(room, "m.room.message")) > before })
		if said := will.fromBot(room, "m.room.message")[before].Body; said != "More than one person is called @Sam. Name the one you mean: @ann or @mallory." {
			m.t.Errorf("%s: %q", command, said)
		}
	}
	will.say(room, "!ask @ann is it you?", nil)
	asked := will.hears(room, "Asked")[0].Body
	ann.say(room, "!done "+questionID.FindString(asked)+" it is me", nil)
	will.hears(room, "it is me")
	if said := will.count(room, "Passed on"); said > 0 {
		m.t.Error("a person's name was passed to an agent elsewhere")
	}
}

func largeRoomOfMatrix(m *matrix, will, ann, _ *person) {
	room := will.invited(map[string]any{"name": "Large", "state": []any{map[string]any{"type": "m.room.join_rules", "state_key": "", "content": map[string]any{"join_rule": "public"}}}})
	for i := range 22 {
		token, _ := m.post("register", "", map[string]any{"username": fmt.Sprintf("guest%d", i), "password": "a long password", "auth": map[string]any{"type": "m.login.dummy"}})["access_token"].(string)
		m.post("join/"+room, token, map[string]any{})
	}
	ann.do("join", map[string]any{"room": room})
	ann.say(room, "is it large?", mentionsBot)
	answer := ann.hears(room, "is it large?")[0]
	ann.do("read", map[string]any{"room": room, "event": answer.ID})
	ann.say(room, "the end", nil)
	m.got("the end", func(c *protocol.ChatMessage) bool { return c.Text == "the end" })
	for _, p := range m.publications() {
		var c protocol.ChatMessage
		if json.Unmarshal(p.message.Content, &c) == nil && c.Signal == "seen" && c.ReplyTo != nil && c.ReplyTo.SourceID == "mx:"+answer.ID {
			m.t.Error("a receipt of a large room was passed on")
		}
	}
}

func membershipOfMatrix(m *matrix, will, ann, _ *person) {
	room := will.invited(map[string]any{"name": "Door"})
	will.say(room, "who comes?", nil)
	will.hears(room, "who comes?")
	will.do("invite", map[string]any{"room": room, "user": "@ann:hs.test"})
	ann.do("join", map[string]any{"room": room})
	will.say(room, "the door is shut", nil)
	m.got("the door", func(c *protocol.ChatMessage) bool { return c.Text == "the door is shut" })
	m.got("who joined", func(c *protocol.ChatMessage) bool {
		return c.Event == "membership" && c.Chat.ID == room && strings.HasSuffix(c.Text, " joined")
	})
}
