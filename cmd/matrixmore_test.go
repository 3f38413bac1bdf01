package cmd_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	ask := map[string]any{"invite": []string{p.m.bot}}
	for k, v := range more {
		ask[k] = v
	}
	room := p.do("create", ask)
	p.joined(room)
	return room
}

// saw reports whether the person saw an event from the bot.
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
		{"signals", checkMatrixSignals}, {"doctor", checkMatrixDoctor}, {"typing", checkMatrixTyping}, {"receipts", checkMatrixReceipts}, {"files", checkMatrixFiles},
		{"upgrade", checkMatrixRoomUpgrade}, {"pairing", checkMatrixPairing}, {"allow-room", checkMatrixAllowedRoom}, {"gap", checkMatrixGap},
		{"application service", checkMatrixServiceAccount}, {"same names", checkMatrixSameNames}, {"large room", checkMatrixLargeRoom}, {"membership", checkMatrixMembership},
		{"the library of Element", checkMatrixElement}, {"notices and commands", checkMatrixWords}, {"limits", checkMatrixLimits},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(m.in(t), will.in(t), ann.in(t), mallory.in(t)) })
	}
}

func checkMatrixSignals(m *matrix, will, _, _ *person) {
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

func checkMatrixTyping(m *matrix, will, _, _ *person) {
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

func checkMatrixReceipts(m *matrix, will, _, _ *person) {
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

func checkMatrixFiles(m *matrix, will, _, _ *person) {
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
		uri := will.do("upload", map[string]any{"data": base64.StdEncoding.EncodeToString(f.data), "type": f.as, "name": f.name, "encrypt": m.encrypted})
		content := map[string]any{"msgtype": f.msgtype, "body": f.name, "info": map[string]any{"mimetype": f.as, "size": len(f.data)}}
		if content["url"] = uri; m.encrypted {
			delete(content, "url")
			content["file"] = json.RawMessage(uri)
		}
		will.do("send", map[string]any{"room": room, "content": content})
		got := m.got("the file "+f.name, func(c *protocol.ChatMessage) bool {
			return c.Chat.ID == room && len(c.Attachments) == 1 && c.Attachments[0].Name == f.name
		}).Attachments[0]
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
		uri, file := will.content(said.ID)["url"], will.content(said.ID)["file"]
		if m.encrypted {
			uri = file.(map[string]any)["url"]
		}
		if back := will.do("download", map[string]any{"uri": uri, "file": file}); back != base64.StdEncoding.EncodeToString(data) {
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

func checkMatrixRoomUpgrade(m *matrix, will, ann, _ *person) {
	for _, preset := range []string{"public_chat", "private_chat"} {
		room := will.invited(map[string]any{"name": "Old", "state": []any{map[string]any{"type": "m.room.join_rules", "state_key": "", "content": map[string]any{"join_rule": map[string]string{"public_chat": "public", "private_chat": "invite"}[preset]}}}})
		will.say(room, "is this before "+preset+"?", m.mentionsBot())
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
		will.say(now.Room, "is this after "+preset+"?", m.mentionsBot())
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

func checkMatrixPairing(m *matrix, _, _, mallory *person) {
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

// checkMatrixServiceAccount runs the bridge as an application service, as another bot in a folder of its own, and
// kills it.
func checkMatrixServiceAccount(m *matrix, will, ann, mallory *person) {
	usual, data := *m, m.data
	defer func() {
		m.run["matrix"].kill()
		usual.data = data
		usual.bridge()
		for _, p := range []*person{will, ann, mallory} {
			p.m = &usual
		}
	}()
	m.run["matrix"].kill()
	m.bot, m.token, m.data, m.args = "@service:hs.test", "token of the service", m.t.TempDir(), []string{"--user", "@service:hs.test"}
	m.bridge()
	for _, p := range []*person{will, ann, mallory} {
		p.m = m
	}
	groupRoom(m, will, ann, func() {})
	groupRoom(m, will, ann, func() { m.kill("matrix") })
	checkMatrixReceipts(m, will, ann, mallory)
	checkMatrixTyping(m, will, ann, mallory)
	checkMatrixFiles(m, will, ann, mallory)
}

func checkMatrixAllowedRoom(m *matrix, will, ann, _ *person) {
	room := ann.do("create", map[string]any{"name": "Ann's"})
	m.args = []string{"--allow-room", room}
	m.kill("matrix")
	ann.do("invite", map[string]any{"room": room, "user": "@bot:hs.test"})
	ann.joined(room)
	ann.say(room, "is this room admitted?", m.mentionsBot())
	ann.hears(room, "is this room admitted?")
	other := ann.do("create", map[string]any{"invite": []string{"@bot:hs.test"}})
	ann.joined(other)
	if said := ann.fromBot(other, "m.room.message"); len(said) > 0 {
		m.t.Errorf("another room of ann got %+v", said)
	}
}

func checkMatrixGap(m *matrix, will, _, _ *person) {
	room := will.invited(map[string]any{"name": "Gap"})
	will.say(room, "first?", m.mentionsBot())
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

func checkMatrixSameNames(m *matrix, will, ann, mallory *person) {
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

func checkMatrixLargeRoom(m *matrix, will, ann, _ *person) {
	room := will.invited(map[string]any{"name": "Large", "state": []any{map[string]any{"type": "m.room.join_rules", "state_key": "", "content": map[string]any{"join_rule": "public"}}}})
	for i := range 22 {
		token, _ := m.post("register", "", map[string]any{"username": fmt.Sprintf("guest%d", i), "password": "a long password", "auth": map[string]any{"type": "m.login.dummy"}})["access_token"].(string)
		m.post("join/"+room, token, map[string]any{})
	}
	ann.do("join", map[string]any{"room": room})
	ann.say(room, "is it large?", m.mentionsBot())
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

func checkMatrixMembership(m *matrix, will, ann, _ *person) {
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

// checkMatrixWords checks that a notice obliges nobody, that the bot's name addresses it in a client without
// m.mentions, and what the commands of a room say.
func checkMatrixWords(m *matrix, will, ann, _ *person) {
	room := will.invited(map[string]any{"name": "Words", "invite": []string{m.bot, "@ann:hs.test"}})
	will.say(room, "bot: is it by name?", nil)
	will.hears(room, "is it by name?")
	notice := ann.do("send", map[string]any{"room": room, "content": map[string]any{
		"msgtype": "m.notice", "body": "bot: is this a notice?", "m.mentions": m.mentionsBot()["m.mentions"],
	}})
	if c := m.gotOnce("status", notice); c.Text != "bot: is this a notice?" {
		m.t.Errorf("the notice is %+v", c)
	}
	for _, step := range [][2]string{
		{"!help", "the agent of this chat answers"}, {"!agents", "Agents of this chat"}, {"!status", "Answers waiting for Matrix"},
		{"!halt", "to stop working here until !resume"}, {"!resume", "to continue"}, {"!pair", "already has access"},
		{"!stop", "Stopped."}, {"bot: unheard?", "This chat is stopped"}, {"!start", "running again"}, {"bot: heard?", "heard?"},
	} {
		will.say(room, step[0], nil)
		will.hears(room, step[1])
	}
	for _, text := range []string{"is this a notice?", "unheard?"} {
		if n := will.count(room, text); n > 0 {
			m.t.Errorf("%q was answered", text)
		}
	}
}

// checkMatrixDoctor checks what hubbub doctor finds with tokens and homeservers that are right and wrong.
func checkMatrixDoctor(m *matrix, _, _, _ *person) {
	for _, c := range []struct{ homeserver, token, config, says string }{
		{m.url, m.token, "", "@bot:hs.test at " + m.url},
		{m.url, "", "", m.url + " answers"},
		{m.url, "of nobody", "", "The homeserver refuses the access token of the bot"},
		{m.url, "token of the service", "[matrix]\nuser = \"@service:hs.test\"\n", "@service:hs.test is not connected to the bus"},
		{"http://127.0.0.1:1", m.token, "", "Check [matrix] homeserver and the network"},
		{"", m.token, "", ""},
	} {
		config := filepath.Join(m.t.TempDir(), "hubbub.toml")
		if err := os.WriteFile(config, []byte(c.config), 0o600); err != nil {
			m.t.Fatal(err)
		}
		cmd := exec.CommandContext(m.t.Context(), built(m.t, "hubbub"), "doctor", "--bus=ws://"+m.bus, "--data="+m.data, "--config="+config)
		cmd.Env = append(os.Environ(), "HUBBUB_HOMESERVER="+c.homeserver, "MATRIX_ACCESS_TOKEN="+c.token)
		out, _ := cmd.CombinedOutput() // other checks have problems here
		if said := string(out); !strings.Contains(said, c.says) || c.says == "" && strings.Contains(strings.ToLower(said), "homeserver") {
			m.t.Errorf("with the token %q at %q, it says %s; want %q", c.token, c.homeserver, said, c.says)
		}
	}
}

// checkMatrixLimits runs the homeserver with limits that the bot exceeds at once.
func checkMatrixLimits(m *matrix, will, _, _ *person) {
	config := strings.Replace(dendriteConfig, "rate_limiting: {enabled: false}", "rate_limiting: {enabled: true, threshold: 1, "+
		`cooloff_ms: 1000, exempt_user_ids: ["@will:hs.test", "@ann:hs.test", "@mallory:hs.test"]}`, 1)
	if err := os.WriteFile(filepath.Join(m.folder, "dendrite.yaml"), []byte(config), 0o600); err != nil {
		m.t.Fatal(err)
	}
	m.kill("homeserver")
	m.until("the limit", func() bool {
		r, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.url+"/_matrix/client/v3/account/whoami", http.NoBody)
		if err != nil {
			m.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+m.token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		resp.Body.Close() //nolint:errcheck // nobody reads it
		return resp.StatusCode == http.StatusTooManyRequests
	})
	var rooms []string
	for range 4 {
		rooms = append(rooms, will.do("create", map[string]any{"invite": []string{m.bot}, "direct": true}))
	}
	for _, room := range rooms {
		will.joined(room)
		said := will.say(room, "is it limited?", nil)
		will.hears(room, "is it limited?")
		m.reply(room, map[string]any{"signal": "seen", "inReplyTo": "mx:" + said, "idempotencyKey": "seen"})
		m.until("the signal", func() bool {
			return slices.ContainsFunc(will.fromBot(room, "m.reaction"), func(s shown) bool { return s.Relates.Event == said })
		})
		if n := will.count(room, "is it limited?"); n != 1 {
			m.t.Errorf("it was answered %d times", n)
		}
	}
}
