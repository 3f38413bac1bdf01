package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hubbub/peers/mx"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// crashVariable holds a crashing bridge as JSON: the test binary runs it.
const crashVariable = "MATRIX_TEST_BRIDGE"

// A crashing is a bridge that kills itself at a point.
type crashing struct{ URL, Bus, Data, Point string }

func runBridgeIfAsked() {
	raw := os.Getenv(crashVariable)
	if raw == "" {
		return
	}
	var c crashing
	err := json.Unmarshal([]byte(raw), &c)
	if err == nil {
		err = c.run()
	}
	fmt.Fprintln(os.Stderr, "the bridge ended:", err)
	os.Exit(1)
}

func (c *crashing) run() error {
	db, err := mx.Open(filepath.Join(c.Data, mx.Database))
	if err != nil {
		return err
	}
	log := zerolog.New(os.Stderr)
	b, err := mx.New(c.URL, db, &mx.Options{
		User: "@bot:hs.test", Password: "a long password", AllowUsers: []string{"@will:hs.test"}, Encryption: true, Folder: c.Data,
		Peer: &peer.Options{Buses: []string{c.Bus}, Log: &log}, Log: &log, OnReady: func() { log.Info().Msg("ready") },
		Crash: func(at string) {
			if _, err := os.Stat(filepath.Join(c.Data, "crash")); err == nil && at == c.Point {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	})
	if err != nil {
		return err
	}
	return b.Run(context.Background())
}

// crashAt runs a bridge in place of the usual one, and returns when it is ready. After arm, it kills
// itself at a point.
func (m *matrix) crashAt(point string) (arm func()) {
	m.t.Helper()
	m.run["matrix"].kill()
	raw, _ := json.Marshal(crashing{m.url, m.tap.address(), m.data, point})
	p := &process{t: m.whole, name: "a bridge that crashes when " + point, sign: readySign}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), crashVariable+"="+string(raw))
	p.cmd.Stderr = p
	p.start(m.t)
	m.run["matrix"] = p
	return func() {
		if err := os.WriteFile(filepath.Join(m.data, "crash"), nil, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
}

// TestMatrix_Encrypted runs a bridge and people in encrypted rooms. The people's library encrypts with
// libolm, another implementation.
func TestMatrix_Encrypted(t *testing.T) {
	if !mx.CanEncrypt {
		t.Skip("not built with the tag goolm")
	}
	m := newMatrix(t)
	m.encrypted, m.args = true, []string{"--encryption"}
	m.bridge()
	will, ann := m.person("will"), m.person("ann")
	t.Run("a room with others", func(t *testing.T) { groupRoom(m.in(t), will.in(t), ann.in(t), func() {}) })
	t.Run("signals", func(t *testing.T) { checkMatrixSignals(m.in(t), will.in(t), ann.in(t), nil) })
	t.Run("files", func(t *testing.T) { checkMatrixFiles(m.in(t), will.in(t), ann.in(t), nil) })
	t.Run("long text", func(t *testing.T) { checkMatrixLongText(m.in(t), will.in(t)) })
	t.Run("late keys", func(t *testing.T) { checkMatrixLateKeys(m.in(t), will.in(t)) })
	t.Run("joining and leaving", func(t *testing.T) { checkMatrixJoinAndLeave(m.in(t), will.in(t), ann.in(t)) })
	t.Run("signed device", func(t *testing.T) { checkMatrixSignedDevice(t, m.in(t)) })
	t.Run("the library of Element", func(t *testing.T) { checkMatrixElement(m.in(t), nil, ann.in(t), nil) })
	t.Run("killed at each step", func(t *testing.T) {
		m := m.in(t)
		groupRoom(m, will.in(t), ann.in(t), func() { m.kill("matrix") })
	})
	t.Run("killed around an answer", func(t *testing.T) { checkMatrixKillsAroundAnswer(t, m.in(t), will.in(t)) })
	t.Run("killed at a point", func(t *testing.T) { checkMatrixKillsAtPoint(m.in(t), will.in(t)) })
	read := 0
	for _, p := range []*person{will, ann} {
		for _, e := range p.seen {
			if e.Event.Sender != "@bot:hs.test" || e.Event.Type != "m.room.message" {
				continue
			}
			if read++; !e.Encrypted {
				t.Errorf("people read in the clear: %s", e.Event.Content)
			}
		}
	}
	if read < 30 {
		t.Errorf("people read %d messages of the bot", read)
	}
}

// checkMatrixKillsAtPoint kills the bridge between its commits, in a new room each time, so that keys are
// exchanged. Each question is answered once.
func checkMatrixKillsAtPoint(m *matrix, will *person) {
	for _, point := range []string{"received", "keys read", "keys stored", "stored", "taken in", "reply stored", "sending", "encrypted", "sent", "recorded"} {
		arm := m.crashAt(point)
		room := will.invited(map[string]any{"direct": true})
		arm()
		question := "is it killed when " + point + "?"
		will.say(room, question, nil)
		<-m.run["matrix"].ended
		if err := os.Remove(filepath.Join(m.data, "crash")); err != nil {
			m.t.Fatal(err)
		}
		m.bridge()
		will.hears(room, question)
		will.say(room, "and after "+point+"?", nil)
		will.hears(room, "and after "+point)
		if n := will.count(room, question); n != 1 {
			m.t.Errorf("%q was answered %d times", question, n)
		}
		if said := will.count(room, "its key"); said > 0 {
			m.t.Errorf("killed when %s, a message could not be read", point)
		}
	}
}

// checkMatrixLongText checks that a text of several parts fits into encrypted events.
func checkMatrixLongText(m *matrix, will *person) {
	room := will.invited(map[string]any{"direct": true})
	will.say(room, "is it long?", nil)
	will.hears(room, "is it long?")
	m.reply(room, map[string]any{"text": strings.Repeat("<b>&\"long\"</b> **ja** ", 2000) + "the end", "idempotencyKey": "long"})
	will.hears(room, "the end")
}

// checkMatrixLateKeys checks that a room is notified of a message without its key, that the message
// is read when the key arrives, and that a message that never gets a key harms nothing.
func checkMatrixLateKeys(m *matrix, will *person) {
	room := will.invited(map[string]any{"direct": true})
	will.say(room, "is it early?", nil)
	will.hears(room, "is it early?")
	will.do("lock", map[string]any{"room": room, "content": map[string]any{"msgtype": "m.text", "body": "is it late?"}})
	will.hears(room, "I don't have its key")
	will.do("call", map[string]any{
		"method": "PUT", "path": "/_matrix/client/v3/rooms/" + room + "/send/m.room.encrypted/broken",
		"body": map[string]any{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "session_id": "none", "sender_key": "x", "device_id": "y"},
	})
	will.do("unlock", map[string]any{})
	will.hears(room, "is it late?")
	will.say(room, "and now?", nil)
	will.hears(room, "and now?")
	if n := will.count(room, "I don't have its key"); n != 1 {
		m.t.Errorf("the room was told %d times of a message without a key", n)
	}
}

// checkMatrixJoinAndLeave checks that a user who joins can read what the bot then says, and that a user
// who has left does not get the key.
func checkMatrixJoinAndLeave(m *matrix, will, ann *person) {
	room := will.invited(map[string]any{"name": "Door"})
	will.say(room, "is anybody there?", m.mentionsBot())
	will.hears(room, "is anybody there?")
	will.do("invite", map[string]any{"room": room, "user": "@ann:hs.test"})
	ann.do("join", map[string]any{"room": room})
	m.got("who joined", func(c *protocol.ChatMessage) bool { return c.Event == "membership" && c.Chat.ID == room })
	will.say(room, "does ann read this?", m.mentionsBot())
	ann.hears(room, "does ann read this?")
	second := m.person("will") // a new device, which the homeserver reports to the bot later
	for i := range 6 {
		question := fmt.Sprintf("does the new device read message %d?", i)
		will.say(room, question, m.mentionsBot())
		will.hears(room, question)
	}
	second.hears(room, "does the new device read message")
}

// checkMatrixSignedDevice checks that the bot's device is signed by its account, and that only
// the owner can read the files of keys, even in a backup. Then a new device, in a folder with the
// recovery key alone, is signed too.
func checkMatrixSignedDevice(t *testing.T, m *matrix) {
	if signed, all := m.botDevices(); signed != 1 || all != 1 {
		t.Errorf("%d of %d devices of the bot are signed", signed, all)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	m.hubbub("backup", backup)
	for _, name := range []string{"matrix.key", "matrix-keys.db", "matrix-recovery-key.txt"} {
		for _, folder := range []string{m.data, backup} {
			info, err := os.Stat(filepath.Join(folder, name))
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", name, info, err)
			}
		}
	}
	folder := t.TempDir()
	key, err := os.ReadFile(filepath.Join(backup, "matrix-recovery-key.txt"))
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "matrix-recovery-key.txt"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.run["matrix"].kill()
	env := []string{"HUBBUB_DATA=" + folder, "HUBBUB_BUS=" + m.tap.address(), "HUBBUB_LOG_FORMAT=json", "MATRIX_ACCESS_TOKEN=" + m.login("bot")}
	p := start(t, m.whole, "hubbub-matrix", env, "--homeserver", m.url, "--allow-user", "@will:hs.test", "--encryption")
	m.until("both devices signed", func() bool {
		signed, all := m.botDevices()
		return signed == 2 && all == 2
	})
	p.kill()
	m.bridge()
}

// checkMatrixElement runs a person on the library of Element Web. In an encrypted room its cryptography reads
// only what a signed device wrote.
func checkMatrixElement(m *matrix, _, ann, _ *person) {
	folder := os.Getenv("HUBBUB_ELEMENT")
	if folder == "" {
		m.t.Skip("HUBBUB_ELEMENT is not set: make test-matrix sets it if npm is there")
	}
	script, err := os.ReadFile("../scripts/matrix/person.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "person.mjs"), script, 0o600) // beside the library
	}
	if err != nil {
		m.t.Fatal(err)
	}
	will := m.client("will", "node", filepath.Join(folder, "person.mjs"))
	groupRoom(m, will, ann, func() {})
	checkMatrixSignals(m, will, ann, nil)
	checkMatrixTyping(m, will, ann, nil)
	checkMatrixReceipts(m, will, ann, nil)
	checkMatrixLongText(m, will)
}

// login returns the access token of a new device.
func (m *matrix) login(user string) string {
	m.t.Helper()
	token, _ := m.post("login", "", map[string]any{
		"type": "m.login.password", "password": "a long password", "identifier": map[string]any{"type": "m.id.user", "user": user},
	})["access_token"].(string)
	return token
}

// botDevices returns how many devices of the bot have keys, and how many of them its account has signed.
func (m *matrix) botDevices() (signed, all int) {
	m.t.Helper()
	raw, _ := json.Marshal(m.post("keys/query", m.login("ann"), map[string]any{"device_keys": map[string]any{"@bot:hs.test": []string{}}}))
	var said struct {
		Devices map[string]map[string]struct {
			Signatures map[string]map[string]string `json:"signatures"`
		} `json:"device_keys"`
		Self map[string]struct {
			Keys map[string]string `json:"keys"`
		} `json:"self_signing_keys"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		m.t.Fatal(err)
	}
	for _, device := range said.Devices["@bot:hs.test"] {
		all++
		for key := range said.Self["@bot:hs.test"].Keys {
			if device.Signatures["@bot:hs.test"][key] != "" {
				signed++
			}
		}
	}
	return signed, all
}
