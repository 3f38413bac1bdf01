package mx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/peers/store"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/event"
)

// Keys is the name of the database of the keys of the bot's device, in the bridge's data folder. It
// belongs to the library.
const Keys = "matrix-keys.db"

// A cipher encrypts and decrypts the events of rooms with the keys of the bot's device. Its methods
// make requests to the homeserver if keys are missing.
type cipher interface {
	// takeKeys stores the keys that came with a sync. If it has failed, the sync may be repeated.
	takeKeys(ctx context.Context, got *syncResponse) error
	// hasKey reports whether the key of a session of a room is known.
	hasKey(ctx context.Context, room, session string) bool
	// decrypt returns an encrypted event from a person as it was before.
	decrypt(ctx context.Context, room string, e *rawEvent, raw json.RawMessage) (json.RawMessage, error)
	// encrypt returns the encrypted content of an event for the members of a room. When it has
	// returned, the state of the keys is on disk.
	encrypt(ctx context.Context, room, kind string, content any) (*event.EncryptedEventContent, error)
	close() error
}

// keySync is the part of a sync with keys.
type keySync struct {
	ToDevice    eventList           `json:"to_device"`
	DeviceLists mautrix.DeviceLists `json:"device_lists"`
	KeyCounts   mautrix.OTKCount    `json:"device_one_time_keys_count"`
}

// noKey is the reason why an encrypted event was skipped. It is read if its key arrives later.
const noKey = "an encrypted message without its key"

// keyFails is the reason why an encrypted event with a key was skipped permanently.
const keyFails = "an encrypted message that its key does not open"

// decryptSync stores the keys of a sync, and decrypts its events and older ones whose keys it has
// brought. Keys are on disk before the events that need them. A repeated sync brings the same ones.
func (b *Bridge) decryptSync(ctx context.Context, got *syncResponse, initial bool) error {
	if err := b.cipher.takeKeys(ctx, got); err != nil {
		return fmt.Errorf("storing keys: %w", err)
	}
	b.crash("keys stored")
	for room, r := range got.Rooms.Join {
		unread := 0
		var cause error
		events := r.Timeline.Events[b.beforeJoin(r.Timeline.Events, initial):]
		for i, raw := range events {
			plain, err := b.decrypt(ctx, room, raw)
			if events[i] = plain; err != nil {
				unread++
				cause = err
			}
		}
		if unread > 0 {
			b.log.Warn().Err(cause).Str("room", room).Int("messages", unread).Msg("encrypted messages not read; kept")
		}
	}
	if len(got.ToDevice.Events) == 0 {
		return nil
	}
	return b.decryptLocked(ctx)
}

// maxLocked bounds how many events without keys a sync with keys tries to decrypt.
const maxLocked = 1000

// decryptLocked decrypts the stored events whose keys have come. An event that its key does not
// open is not tried again.
func (b *Bridge) decryptLocked(ctx context.Context) error {
	type locked struct {
		storedEvent
		state string
	}
	list, err := store.ReadAll(ctx, b.db, // JSON functions of SQL would fail at deep nesting
		func(e *locked) []any { return []any{&e.seq, &e.room, (*[]byte)(&e.raw), &e.state} },
		`SELECT seq, room, raw, state FROM inbox WHERE state IN ('new', 'locked') AND kind = 'event'
		AND raw LIKE '%"m.room.encrypted"%' ORDER BY seq DESC LIMIT ?`, maxLocked)
	known := map[string]bool{}
	for i := range list {
		e := &list[i]
		var sealed struct {
			Content struct {
				Session string `json:"session_id"`
			}
		}
		_ = json.Unmarshal(e.raw, &sealed) // without a session, there is no key
		key := e.room + " " + sealed.Content.Session
		if _, asked := known[key]; !asked {
			known[key] = b.cipher.hasKey(ctx, e.room, sealed.Content.Session)
		}
		if !known[key] {
			continue
		}
		plain, unread := b.decrypt(ctx, e.room, e.raw)
		switch _, offline := errors.AsType[mautrix.HTTPError](unread); {
		case unread != nil && e.state == "locked" && !offline && ctx.Err() == nil:
			e.state = keyFails
			b.log.Warn().Err(unread).Str("room", e.room).Int64("event", e.seq).
				Msg("encrypted message not opened by its key")
		}
		e.raw = plain
	}
	return errors.Join(err, store.InTx(context.WithoutCancel(ctx), b.db, func(tx *store.Tx) {
		for _, e := range list {
			if e.state == keyFails {
				tx.Exec(`UPDATE inbox SET state = 'skipped', reason = ? WHERE seq = ?`, keyFails, e.seq)
			} else {
				tx.Exec(`UPDATE inbox SET raw = ?2, state = 'new' WHERE seq = ?1 AND raw <> ?2`, e.seq, string(e.raw))
			}
		}
	}))
}

// decrypt returns an event from a person as it was before it was encrypted. It returns the event
// unchanged if it was not encrypted and, with an error, if it cannot be read.
func (b *Bridge) decrypt(ctx context.Context, room string, raw json.RawMessage) (json.RawMessage, error) {
	var e rawEvent
	if json.Unmarshal(raw, &e) != nil || e.Type != "m.room.encrypted" || e.Key != nil || e.Sender == string(b.bot) {
		return raw, nil
	}
	plain, err := b.cipher.decrypt(ctx, room, &e, raw)
	if err != nil {
		return raw, err
	}
	return plain, nil
}
