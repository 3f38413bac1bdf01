package cmd_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
)

// dendriteEnv names the program of the homeserver that scripts/test-matrix builds.
const dendriteEnv = "HUBBUB_DENDRITE"

const dendriteConfig = `version: 2
global:
  server_name: hs.test
  private_key: key.pem
  disable_federation: true
  jetstream: {storage_path: jetstream}
client_api:
  registration_disabled: false
  registration_shared_secret: secret
  rate_limiting: {enabled: false}
app_service_api: {database: {connection_string: "file:as.db"}, config_files: [service.yaml]}
federation_api: {database: {connection_string: "file:fed.db"}}
key_server: {database: {connection_string: "file:key.db"}}
media_api: {database: {connection_string: "file:media.db"}, base_path: media, max_file_size_bytes: 65536}
room_server: {database: {connection_string: "file:room.db"}}
sync_api: {database: {connection_string: "file:sync.db"}, search: {enabled: false}}
user_api: {account_database: {connection_string: "file:acc.db"}}
relay_api: {database: {connection_string: "file:relay.db"}}
mscs: {mscs: [], database: {connection_string: "file:mscs.db"}}
logging: [{type: std, level: info}]
`

// serviceConfig registers the bridge as an application service, whose user is another bot.
const serviceConfig = `id: hubbub
url: null
as_token: token of the service
hs_token: unused
sender_localpart: service
rate_limited: false
namespaces: {users: [{exclusive: true, regex: "@service:hs.test"}], aliases: [], rooms: []}
`

// A matrix is a homeserver with people, next to a whole system.
type matrix struct {
	*fixture
	folder, url string
	bot         string
	panics      *int     // of the homeserver
	token       string   // of the bot; if empty, the bridge logs in with the password
	args        []string // further ones of the bridge
	encrypted   bool     // rooms are
}

func newMatrix(t *testing.T) *matrix {
	t.Helper()
	program := os.Getenv(dendriteEnv)
	if program == "" {
		t.Skipf("%s is not set: make test-matrix builds the homeserver and sets it", dendriteEnv)
	}
	built(t, "hubbub-matrix")
	m := &matrix{fixture: newFixture(t), folder: t.TempDir(), bot: "@bot:hs.test", panics: new(int)}
	for name, config := range map[string]string{"dendrite.yaml": dendriteConfig, "service.yaml": serviceConfig} {
		if err := os.WriteFile(filepath.Join(m.folder, name), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(program), "generate-keys"), "--private-key", "key.pem")
	key.Dir = m.folder
	if out, err := key.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, file := range regexp.MustCompile(`file:(\w+\.db)`).FindAllStringSubmatch(dendriteConfig, -1) {
		makeWAL(t, filepath.Join(m.folder, file[1]))
	}
	address := bustest.FreeAddress(t)
	m.url = "http://" + address
	m.serve(address)
	for _, user := range []string{"bot", "will", "ann", "mallory"} {
		body := fmt.Sprintf(`{"username":%q,"password":"a long password","auth":{"type":"m.login.dummy"}}`, user)
		resp, err := http.Post(m.url+"/_matrix/client/v3/register", "application/json", strings.NewReader(body)) //nolint:noctx // the server is this test's
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("registering %s: %v, %v", user, resp, err)
		}
		resp.Body.Close() //nolint:errcheck // it was read
	}
	return m
}

// makeWAL makes a database with a write-ahead log. With a rollback journal, each sync of a client
// of Dendrite keeps it from writing, for minutes if clients sync one after the other.
func makeWAL(t *testing.T, path string) {
	t.Helper()
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite, sqlite.OpenCreate, sqlite.OpenWAL)
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// maxPanics bounds the starts of the homeserver after it has ended unexpectedly.
const maxPanics = 20

// serve starts the homeserver. Sometimes Dendrite panics while it starts after a kill; until starts it again.
func (m *matrix) serve(address string) {
	server := &process{t: m.whole, name: "the homeserver", sign: regexp.MustCompile(`level=`)}
	server.cmd = exec.Command(os.Getenv(dendriteEnv), "--config", "dendrite.yaml", "--http-bind-address", address,
		"--really-enable-open-registration")
	server.cmd.Dir = m.folder
	server.cmd.Stdout, server.cmd.Stderr = server, server
	server.start(m.t)
	m.run["homeserver"] = server
	m.until("the homeserver answers", func() bool {
		resp, err := http.Get(m.url + "/_matrix/client/versions") //nolint:noctx // as above
		if err != nil {
			return false
		}
		resp.Body.Close() //nolint:errcheck // it was read
		return resp.StatusCode == http.StatusOK
	})
}

// bridge starts the bridge.
func (m *matrix) bridge() {
	env := []string{"HUBBUB_DATA=" + m.data, "HUBBUB_BUS=" + m.tap.address(), "HUBBUB_LOG_FORMAT=json"}
	args := append([]string{"--homeserver", m.url, "--allow-user", "@will:hs.test"}, m.args...)
	if m.token != "" {
		env = append(env, "MATRIX_ACCESS_TOKEN="+m.token)
	} else {
		env, args = append(env, "MATRIX_PASSWORD=a long password"), append(args, "--user", m.bot)
	}
	m.run["matrix"] = start(m.t, m.whole, "hubbub-matrix", env, args...)
}

// kill kills the bridge or the homeserver and starts it again.
func (m *matrix) kill(program string) {
	m.t.Helper()
	m.run[program].kill()
	if program == "homeserver" {
		m.serve(strings.TrimPrefix(m.url, "http://"))
		return
	}
	m.bridge()
}

// until waits until a condition holds. It starts a homeserver that has ended again, as an operator
// does: Dendrite panics where SQLite is too slow for it.
func (m *matrix) until(what string, holds func() bool) {
	m.t.Helper()
	m.await(what, func() bool {
		select {
		case <-m.run["homeserver"].ended:
			m.t.Logf("the homeserver ended: %v\n%s", m.run["homeserver"].err, m.run["homeserver"].text())
			if *m.panics++; *m.panics > maxPanics {
				m.t.Fatal("the homeserver ends again and again")
			}
			m.serve(strings.TrimPrefix(m.url, "http://"))
		default:
		}
		return holds()
	})
}

// A person is the client of a user of the homeserver.
type person struct {
	m       *matrix
	ask     *json.Encoder
	answers chan string

	mu   sync.Mutex
	seen []seenEvent
}

// A seenEvent is an event that a person saw.
type seenEvent struct {
	Room  string `json:"room"`
	Event struct {
		ID      string          `json:"event_id"`
		Type    string          `json:"type"`
		Sender  string          `json:"sender"`
		Content json.RawMessage `json:"content"`
	} `json:"event"`
	Answer    *string `json:"answer"`
	Encrypted bool    `json:"encrypted"`
}

// person starts a client on the library nio.
func (m *matrix) person(name string) *person {
	m.t.Helper()
	return m.client(name, os.Getenv("HUBBUB_PYTHON"), "../scripts/matrix/person.py")
}

// client starts a client of a person: a program with a script.
func (m *matrix) client(name, program, script string) *person {
	m.t.Helper()
	p := &person{m: m, answers: make(chan string, 1)}
	proc := &process{t: m.whole, name: name, sign: regexp.MustCompile(`ready`)}
	proc.cmd = exec.Command(program, script, m.url, "@"+name+":hs.test", "a long password")
	if m.encrypted {
		proc.cmd.Args = append(proc.cmd.Args, m.whole.TempDir())
	}
	proc.cmd.Stderr = proc
	in, err := proc.cmd.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := proc.cmd.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	proc.start(m.t)
	m.whole.Cleanup(proc.kill) // it would end with an error if asked to stop
	p.ask = json.NewEncoder(in)
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var e seenEvent
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue
			}
			if e.Answer != nil {
				p.answers <- *e.Answer
				continue
			}
			p.mu.Lock()
			p.seen = append(p.seen, e)
			p.mu.Unlock()
		}
	}()
	return p
}

// do makes a request and returns its result.
func (p *person) do(what string, members map[string]any) (answer string) {
	p.m.t.Helper()
	members["do"] = what
	if what == "create" && p.m.encrypted {
		state, _ := members["state"].([]any)
		members["state"] = append(state, encryption)
	}
	if err := p.ask.Encode(members); err != nil {
		p.m.t.Fatal(err)
	}
	p.m.until(fmt.Sprintf("an answer to %s %v", what, members), func() bool {
		select {
		case answer = <-p.answers:
			return true
		default:
			return false
		}
	})
	return answer
}

// say writes a text in a room; more are further members of the content.
func (p *person) say(room, text string, more map[string]any) string {
	p.m.t.Helper()
	content := map[string]any{"msgtype": "m.text", "body": text}
	for k, v := range more {
		content[k] = v
	}
	return p.do("send", map[string]any{"room": room, "content": content})
}

// A shown is the content of a message from the bot.
type shown struct {
	ID      string
	Type    string `json:"msgtype"`
	Body    string `json:"body"`
	HTML    string `json:"formatted_body"`
	Relates struct {
		Type   string `json:"rel_type"`
		Event  string `json:"event_id"`
		Key    string `json:"key"`
		Answer struct {
			Event string `json:"event_id"`
		} `json:"m.in_reply_to"`
	} `json:"m.relates_to"`
}

// fromBot returns the bot's events of a type in a room, as the person saw them.
func (p *person) fromBot(room, kind string) (list []shown) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.seen {
		if e.Room == room && e.Event.Type == kind && e.Event.Sender == p.m.bot {
			s := shown{ID: e.Event.ID}
			_ = json.Unmarshal(e.Event.Content, &s) // a redacted event has no content
			list = append(list, s)
		}
	}
	return list
}

// hears waits until the bot has sent a text to a room, and returns the messages with it.
func (p *person) hears(room, text string) []shown {
	p.m.t.Helper()
	var found []shown
	p.m.until(text, func() bool {
		found = slices.DeleteFunc(p.fromBot(room, "m.room.message"), func(s shown) bool { return !strings.Contains(s.Body, text) })
		return len(found) > 0
	})
	return found
}

// got waits until an agent has received an event of Matrix, and returns it.
func (m *matrix) got(what string, is func(c *protocol.ChatMessage) bool) (found protocol.ChatMessage) {
	m.t.Helper()
	m.until(what, func() bool {
		for _, p := range m.publications() {
			var c protocol.ChatMessage
			if p.message.Type == protocol.TypeChatMessage && json.Unmarshal(p.message.Content, &c) == nil && is(&c) && p.status == "ok" {
				found = c
				return true
			}
		}
		return false
	})
	return found
}

// joined waits until the bot is in a room.
func (p *person) joined(room string) {
	p.m.t.Helper()
	p.m.until("the bot in "+room, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.ContainsFunc(p.seen, func(e seenEvent) bool {
			return e.Room == room && e.Event.Type == "m.room.member" && e.Event.Sender == p.m.bot
		})
	})
}

var encryption = map[string]any{"type": "m.room.encryption", "state_key": "", "content": map[string]any{"algorithm": "m.megolm.v1.aes-sha2"}}

func (m *matrix) mentionsBot() map[string]any {
	return map[string]any{"m.mentions": map[string]any{"user_ids": []string{m.bot}}}
}

// TestMatrix_WithForeignServerAndPeople runs the bridge with the homeserver Dendrite and with people
// on the library nio, beside Telegram.
func TestMatrix_WithForeignServerAndPeople(t *testing.T) {
	m := newMatrix(t)
	m.bridge()
	will, ann := m.person("will"), m.person("ann")
	t.Run("bootstrap of an empty room", func(t *testing.T) {
		m, will := m.in(t), will.in(t)
		room := will.do("create", map[string]any{"invite": []string{"@bot:hs.test"}, "direct": true})
		will.joined(room)
		will.say(room, "is the deploy blocked?", nil)
		if said := will.hears(room, "is the deploy blocked?"); said[0].Relates.Answer.Event != "" {
			t.Errorf("in a direct room nothing is quoted: %+v", said)
		}
		m.got("a dm", func(c *protocol.ChatMessage) bool { return c.Chat.Kind == "dm" && c.Author.ID == "@will:hs.test" })
	})
	t.Run("an invitation of a stranger", func(t *testing.T) {
		m := m.in(t)
		mallory := m.person("mallory")
		room := mallory.do("create", map[string]any{"invite": []string{"@bot:hs.test"}, "direct": true})
		mallory.joined(room) // the bot's own event is that it rejects the invitation
		if said := mallory.fromBot(room, "m.room.message"); len(said) > 0 {
			t.Errorf("a stranger reads %+v", said)
		}
	})
	t.Run("an encrypted room", func(t *testing.T) {
		will := will.in(t)
		room := will.do("create", map[string]any{"invite": []string{"@bot:hs.test"}, "direct": true, "state": []any{encryption}})
		will.hears(room, "This room is encrypted, and I can't read encrypted messages")
	})
	var room string
	t.Run("a room with others", func(t *testing.T) { room = groupRoom(m.in(t), will.in(t), ann.in(t), func() {}) })
	t.Run("two agents, and Telegram", func(t *testing.T) { secondAgent(t, m.in(t), will.in(t), room) })
	for _, program := range []string{"matrix", "homeserver"} {
		t.Run(program+" killed at each step", func(t *testing.T) {
			m := m.in(t)
			groupRoom(m, will.in(t), ann.in(t), func() { m.kill(program) })
		})
	}
	t.Run("killed around an answer", func(t *testing.T) { checkMatrixKillsAroundAnswer(t, m.in(t), will.in(t)) })
}

func (m *matrix) in(t *testing.T) *matrix {
	part := *m
	part.fixture = m.fixture.in(t)
	return &part
}

// in returns the same person for a subtest.
func (p *person) in(t *testing.T) *person {
	p.m = p.m.in(t)
	return p
}

// groupRoom checks the bootstrap of a room, silence, mention, formatting, reply, reaction, edit,
// thread and redaction. It calls then after each act of a person.
func groupRoom(m *matrix, will, ann *person, then func()) (room string) {
	m.t.Helper()
	did := func(event string) string {
		then()
		return event
	}
	room = did(will.do("create", map[string]any{"name": "Ops", "invite": []string{m.bot, "@ann:hs.test"}}))
	will.joined(room)
	lunch := did(ann.say(room, "lunch at noon?", nil))
	question := did(will.say(room, "hubbub, is **this** seen?", m.mentionsBot()))
	answer := will.hears(room, "is this seen?")[0]
	if answer.Relates.Answer.Event != question || !strings.Contains(answer.HTML, "<") {
		m.t.Errorf("the answer is %+v, to %s", answer, question)
	}
	if c := m.gotOnce("message", lunch); c.Chat.Kind != "channel" || c.Chat.Title != "Ops" || len(c.Mentions) > 0 {
		m.t.Errorf("the agent got %+v", c)
	}
	reaction := did(ann.do("send", map[string]any{"room": room, "type": "m.reaction", "content": map[string]any{
		"m.relates_to": map[string]any{"rel_type": "m.annotation", "event_id": answer.ID, "key": "👍"},
	}}))
	if c := m.gotOnce("reaction", reaction); c.Signal != "agree" || c.ReplyTo == nil ||
		c.ReplyTo.SourceID != "mx:"+answer.ID || !strings.HasPrefix(c.ReplyTo.Author, "agent:") {
		m.t.Errorf("the reaction is %+v", c)
	}
	did(will.say(room, "* is that seen?", map[string]any{
		"m.new_content": map[string]any{"msgtype": "m.text", "body": "is that seen?"},
		"m.relates_to":  map[string]any{"rel_type": "m.replace", "event_id": question},
	}))
	if c := m.gotOnce("edit", question); c.Text != "is that seen?" {
		m.t.Errorf("the edit is %+v", c)
	}
	inThread := did(will.say(room, "and in a thread?", map[string]any{
		"m.mentions":   m.mentionsBot()["m.mentions"],
		"m.relates_to": map[string]any{"rel_type": "m.thread", "event_id": question},
	}))
	if said := will.hears(room, "and in a thread?")[0]; said.Relates.Type != "m.thread" || said.Relates.Event != question {
		m.t.Errorf("the answer in the thread is %+v", said)
	}
	did(will.do("redact", map[string]any{"room": room, "event": inThread}))
	m.gotOnce("delete", inThread)
	will.say(room, "!agents", nil)
	will.hears(room, "Agents of this chat")
	for text, want := range map[string]int{"lunch": 0, "is this seen?": 1, "and in a thread?": 1} {
		if n := will.count(room, text); n != want {
			m.t.Errorf("%q was answered %d times", text, n)
		}
	}
	return room
}

// gotOnce waits until an agent has received an event of Matrix, and checks that it was one event.
func (m *matrix) gotOnce(event, source string) protocol.ChatMessage {
	m.t.Helper()
	is := func(c *protocol.ChatMessage) bool { return c.Event == event && c.SourceID == "mx:"+source }
	found := m.got(event+" "+source, is)
	sequences := map[int64]bool{} // an event may be delivered again, but keeps its number
	for _, p := range m.publications() {
		var c protocol.ChatMessage
		if p.message.Type == protocol.TypeChatMessage && json.Unmarshal(p.message.Content, &c) == nil && is(&c) {
			sequences[c.Sequence] = true
		}
	}
	if len(sequences) != 1 {
		m.t.Errorf("the %s %s became %d events", event, source, len(sequences))
	}
	return found
}

// count returns how many messages from the bot, other than edits, have a text.
func (p *person) count(room, text string) (n int) {
	for _, s := range p.fromBot(room, "m.room.message") {
		if s.Relates.Type != "m.replace" && strings.Contains(s.Body, text) {
			n++
		}
	}
	return n
}

// secondAgent adds an agent to a room, which also gets a Telegram chat.
func secondAgent(t *testing.T, m *matrix, will *person, room string) {
	env := []string{"HUBBUB_DATA=" + m.data, "HUBBUB_BUS=" + m.tap.address(), "HUBBUB_LOG_FORMAT=json"}
	start(t, m.whole, "hubbub-agent", env, "--id", "second", "--harness", "scripted", "--compose-window", "100ms")
	m.hubbub("pub", "mx:"+room, "--type", "route_assigned", "--content", `{"topic":"mx:`+room+`","agent":"agent:second"}`)
	will.say(room, "@second who is there?", nil)
	will.hears(room, "who is there?")
	m.got("a mention of the second agent", func(c *protocol.ChatMessage) bool { return slices.Contains(c.Mentions, "agent:second") })
	if said := will.hears(room, "who is there?"); len(said) != 1 {
		t.Errorf("both agents answered: %+v", said)
	}
	user := m.api.User("Tess")
	dm := m.api.DM(user)
	m.api.Say(dm, user, "hello from Telegram")
	m.until("an answer in Telegram", func() bool { return len(m.api.Texts(dm.ID)) > 0 })
	chat := fmt.Sprintf("tg:%d", dm.ID)
	m.hubbub("pub", chat, "--type", "route_assigned", "--content", `{"topic":"`+chat+`","agent":"agent:second"}`)
	m.api.Say(dm, user, "@second who asks in Telegram?")
	will.say(room, "@second who asks in Matrix?", nil)
	will.hears(room, "in Matrix?")
	m.until("the same agent in Telegram", func() bool {
		return slices.ContainsFunc(m.api.Texts(dm.ID), func(s string) bool { return strings.Contains(s, "in Telegram?") })
	})
	if will.count(room, "in Telegram?") > 0 || strings.Contains(fmt.Sprint(m.api.Texts(dm.ID)), "in Matrix?") {
		t.Error("an answer came to the other chat")
	}
}

// checkMatrixKillsAroundAnswer kills the bridge and the homeserver before, during and after each question. Each is
// answered once.
func checkMatrixKillsAroundAnswer(t *testing.T, m *matrix, will *person) {
	room := will.do("create", map[string]any{"invite": []string{"@bot:hs.test"}, "direct": true})
	will.joined(room)
	var asked []string
	for _, program := range []string{"matrix", "homeserver"} {
		for _, when := range []string{"before", "at once", "when the agent has it", "when it is answered"} {
			question := fmt.Sprintf("is %s killed %s?", program, when)
			asked = append(asked, question)
			if when == "before" {
				m.kill(program)
			}
			will.say(room, question, nil)
			switch when {
			case "when the agent has it":
				m.got(question, func(c *protocol.ChatMessage) bool { return c.Text == question })
			case "when it is answered":
				m.until("a reply to "+question, func() bool {
					return slices.ContainsFunc(m.publications(), func(p *publication) bool {
						return p.message.Type == protocol.TypeChatReply && strings.Contains(string(p.message.Content), question)
					})
				})
			}
			if when != "before" {
				m.kill(program)
			}
			will.hears(room, question)
		}
	}
	for _, question := range asked {
		if said := will.hears(room, question); len(said) != 1 {
			t.Errorf("%q was answered %d times", question, len(said))
		}
	}
}
