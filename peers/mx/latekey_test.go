package mx

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix/event"
)

// lateKey is a cipher whose only key comes with the first sync with keys.
type lateKey struct {
	come  bool
	tried []string // events that it was to decrypt
}

func (l *lateKey) takeKeys(_ context.Context, got *syncResponse) error {
	l.come = l.come || len(got.ToDevice.Events) > 0
	return nil
}

func (l *lateKey) hasKey(_ context.Context, _, session string) bool {
	return l.come && session != "other"
}

func (l *lateKey) decrypt(_ context.Context, _ string, e *rawEvent, raw json.RawMessage) (json.RawMessage, error) {
	l.tried = append(l.tried, e.ID)
	if !l.come || bytes.Contains(raw, []byte("broken")) || bytes.Contains(raw, []byte("other")) {
		return nil, errors.New("no key, or a broken text")
	}
	return json.RawMessage(`{"event_id":"` + e.ID + `","sender":"@will:hs","type":"m.plain","content":{}}`), nil
}

func (l *lateKey) encrypt(context.Context, string, string, any) (*event.EncryptedEventContent, error) {
	return nil, errors.ErrUnsupported
}

func (l *lateKey) close() error { return nil }

// newBridge returns a bridge with a cipher that has made no request.
func newBridge(t *testing.T, log *zerolog.Logger, c cipher) *Bridge {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b, err := New("http://localhost", db, &Options{AllowRooms: []string{"!room:hs"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	b.bot, b.cipher = "@hubbub:hs", c
	b.build()
	return b
}

// sealed returns an encrypted event.
func sealed(id, session, text string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"event_id":%q,"sender":"@will:hs","type":"m.room.encrypted","content":{"session_id":%q,"ciphertext":%q}}`, id, session, text))
}

// receive decrypts and stores a sync with events of a room.
func receive(t *testing.T, b *Bridge, initial bool, keys int, events ...json.RawMessage) {
	t.Helper()
	got := syncResponse{Next: "next"}
	got.ToDevice.Events = slices.Repeat([]json.RawMessage{json.RawMessage(`{}`)}, keys)
	room := &joinedRoom{}
	room.Timeline.Events = events
	got.Rooms.Join = map[string]*joinedRoom{"!room:hs": room}
	if err := b.decryptSync(t.Context(), &got, initial); err != nil {
		t.Fatal(err)
	}
	if err := store.InTx(t.Context(), b.db, func(tx *store.Tx) { b.storeSync(tx, &got, initial) }); err != nil {
		t.Fatal(err)
	}
}

// countState returns how many stored events have a state.
func countState(t *testing.T, b *Bridge, state string) int {
	t.Helper()
	n, err := store.ReadValue[int](t.Context(), b.db, `SELECT count(*) FROM inbox WHERE state = ?`, state)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDecryptSync_KeyBeforeEventIsApplied checks that an event is read if its key comes after the
// event was stored, and before it was applied, or while a batch with it is being applied.
func TestDecryptSync_KeyBeforeEventIsApplied(t *testing.T) {
	b := newBridge(t, nil, new(lateKey))
	raw := sealed("$1", "s", "x")
	if err := store.InTx(t.Context(), b.db, func(tx *store.Tx) {
		b.storeEvents(tx, "event", "!room:hs", []json.RawMessage{raw})
	}); err != nil {
		t.Fatal(err)
	}
	receive(t, b, false, 1)
	// The batch was read before the key came.
	if err := b.ingest.apply(t.Context(), &storedEvent{seq: 1, kind: "event", room: "!room:hs", raw: raw}); err != nil {
		t.Fatal(err)
	}
	state, err := store.ReadValue[string](t.Context(), b.db, `SELECT state || reason FROM inbox WHERE raw LIKE '%m.plain%'`)
	if err != nil || state != "new" {
		t.Errorf("an event whose key came is %q, %v; want new, and as it was before it was encrypted", state, err)
	}
	if _, err := b.ingest.applyBatch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if waiting := countState(t, b, "locked") + countState(t, b, "new"); waiting > 0 {
		t.Errorf("%d events wait for their keys; want none", waiting)
	}
}

// TestStoredEvents_OfOddForm checks that no stored event keeps the bridge from decrypting others, or from
// following an upgrade: SQLite accepts less deeply nested JSON than Go.
func TestStoredEvents_OfOddForm(t *testing.T) {
	b := newBridge(t, nil, new(lateKey))
	for i, content := range []string{
		strings.Repeat("[", 1500) + strings.Repeat("]", 1500), strings.Repeat(`{"a":`, 1200) + "1" + strings.Repeat("}", 1200),
		`"\ud800"`, `1e999`, `{"session_id":7}`, `{"predecessor":[]}`, `null`,
	} {
		for _, kind := range []string{"m.room.encrypted", "m.room.create"} {
			receive(t, b, false, 1, json.RawMessage(fmt.Sprintf(`{"event_id":"$%d%s","sender":"@will:hs","type":%q,"content":%s}`, i, kind, kind, content)))
		}
	}
	receive(t, b, false, 1, sealed("$late", "s", "x"))
	receive(t, b, false, 1)
	if err := store.InTx(t.Context(), b.db, func(tx *store.Tx) {
		if continues(tx, "!room:hs", "!other:hs") {
			t.Error("the room continues another one")
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestDecryptSync_BoundsAttemptsAndWarnings checks that an event is decrypted again only if its key has
// come, and then once, that a sync warns once about each room, and that the bot does not try to read what
// came before it.
func TestDecryptSync_BoundsAttemptsAndWarnings(t *testing.T) {
	var lines bytes.Buffer
	log := zerolog.New(&lines)
	c := &lateKey{come: true}
	b := newBridge(t, &log, c)
	ask := func(what string, initial bool, tries, warnings int, keys int, events ...json.RawMessage) {
		t.Helper()
		c.tried = nil
		lines.Reset()
		receive(t, b, initial, keys, events...)
		if _, err := b.ingest.applyBatch(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(lines.String(), `"warn"`); len(c.tried) != tries || got != warnings {
			t.Errorf("%s: %d attempts and %d warnings, want %d and %d: %s", what, len(c.tried), got, tries, warnings, lines.String())
		}
	}
	batch := func(n int, prefix, session, text string) (list []json.RawMessage) {
		for i := range n {
			list = append(list, sealed(fmt.Sprintf("$%s%d", prefix, i), session, text))
		}
		return list
	}
	join := json.RawMessage(`{"event_id":"$join","sender":"@hubbub:hs","type":"m.room.member","state_key":"@hubbub:hs","content":{"membership":"join"}}`)
	ask("a first sync", true, 0, 0, 0, batch(50, "initial", "other", "")...)
	ask("before the bot joined", false, 1, 1, 0, append(append(batch(50, "before", "other", ""), join), sealed("$after", "other", ""))...)
	ask("without the key", false, 50, 1, 0, batch(50, "locked", "other", "")...)
	ask("keys of others", false, 0, 0, 9)
	c.come = false
	ask("before the key", false, 3, 1, 0, append(batch(2, "late", "s", "x"), sealed("$broken", "s", "broken"))...)
	if n := countState(t, b, "locked"); n != 54 {
		t.Errorf("%d events wait for their keys, want 54", n)
	}
	ask("the key", false, 3, 1, 1)
	ask("keys again", false, 0, 0, 1)
	if n := countState(t, b, "locked"); n != 51 {
		t.Errorf("%d events wait for their keys, want 51", n)
	}
}

// TestCheckMayShow_EncryptedRoomWithoutKeys checks that nothing that an agent wrote is sent in the
// clear to an encrypted room, such as after a restart without Options.Encryption.
func TestCheckMayShow_EncryptedRoomWithoutKeys(t *testing.T) {
	b := newBridge(t, nil, nil)
	for _, kind := range []string{kindFile, kindText} {
		o := &outgoing{agent: "agent:a", part: part{kind: kind}, chat: &chat{key: "!room:hs", room: "!room:hs", present: true, encrypted: true}}
		if err := b.out.checkMayShow(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--encryption") {
			t.Errorf("a %s for an encrypted room without keys: %v; want that it needs --encryption", kind, err)
		}
		if o.agent = ""; b.out.checkMayShow(t.Context(), o) != nil {
			t.Errorf("a %s of the bridge, such as that it cannot read the room, is refused", kind)
		}
	}
}

// TestReportReply_NotifiesUnreadableRoomOnce checks that a room that was notified that the bot
// cannot read it gets no second notice about an answer that came too late.
func TestReportReply_NotifiesUnreadableRoomOnce(t *testing.T) {
	for name, c := range map[string]struct {
		encrypted bool
		cipher    cipher
		notices   int
	}{"not encrypted": {false, nil, 1}, "encrypted, with keys": {true, new(lateKey), 1}, "encrypted": {true, nil, 0}} {
		b := newBridge(t, nil, c.cipher)
		if err := store.InTx(t.Context(), b.db, func(tx *store.Tx) {
			tx.Exec(`INSERT INTO chats (chat, room, encrypted, present) VALUES ('!room:hs', '!room:hs', ?, 1)`, c.encrypted)
			_, err := b.out.storeReply(tx, &chat{key: "!room:hs"}, &bridge.Reply{Agent: "agent:a", Key: "k", Content: protocol.ChatReply{Text: "late"}})
			tx.Fail(err)
			tx.Exec(`UPDATE outbox SET state = 'dead', error = 'refused'`)
			o, err := b.out.outgoing(tx, &outbox.Item{Destination: "mx:!room:hs", Body: []byte(`{"reply":1}`)})
			tx.Fail(err)
			b.out.reportReply(tx, o, outbox.StateDead)
			if n := store.Value[int](tx, `SELECT count(*) FROM replies WHERE agent = ''`); n != c.notices {
				t.Errorf("%s: people read %d notices of the bridge, want %d", name, n, c.notices)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOwnEvents_WhoseAnswerWasLost checks which message people see after an attempt without an answer, as
// agents later edit it and people answer it.
func TestOwnEvents_WhoseAnswerWasLost(t *testing.T) {
	b := newBridge(t, nil, nil)
	for txn, content := range map[string]string{
		"$new":    `{"msgtype":"m.text","body":"a"}`,
		"$first":  `{"body":"* a","m.new_content":{"body":"a"},"m.relates_to":{"rel_type":"m.replace","event_id":"$first"}}`,
		"$answer": `{"body":"a","m.relates_to":{"m.in_reply_to":{"event_id":"$first"}}}`,
		"$odd":    `{"body":"a","m.relates_to":7}`,
	} {
		id := txn
		if txn == "$first" {
			id = "$edit"
		}
		content = content[:len(content)-1] + `,"dev.hubbub.txn":"` + txn + `"}`
		err := store.InTx(t.Context(), b.db, func(tx *store.Tx) {
			tx.Exec(`INSERT INTO replies (chat, agent, key, content, received_at) VALUES ('!room:hs', 'agent:a', ?, '{}', 0)`, txn)
			tx.Exec(`INSERT INTO sends (reply, part, kind, body, txn) SELECT max(id), 0, 'text', '', ? FROM replies`, txn)
			b.storeEvents(tx, "event", "!room:hs", []json.RawMessage{json.RawMessage(fmt.Sprintf(
				`{"event_id":%q,"sender":"@hubbub:hs","type":"m.room.message","content":%s}`, id, content))})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.ingest.applyBatch(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong, err := store.ReadValue[string](t.Context(), b.db, `SELECT coalesce(group_concat(txn || ' ' || event), '') FROM sends WHERE event <> txn`)
	if err != nil || wrong != "" {
		t.Errorf("recorded as other messages: %s, %v", wrong, err)
	}
}
