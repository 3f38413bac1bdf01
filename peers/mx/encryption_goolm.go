//go:build goolm

package mx

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol/datafolder"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
	"go.mau.fi/util/dbutil"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/crypto"
	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// CanEncrypt reports whether this program was built with encryption.
const CanEncrypt = true

// A keyring is a cipher with the keys of the bot's device, in a database of the library.
type keyring struct {
	*account
	file   *dbutil.Database
	failed failureLog
	secret []byte // of matrix.key; encrypts the database and the bot's secret storage

	running context.Context // ends when the bridge stops

	mu      sync.Mutex         // one method at a time, since a transaction must not meet another writer
	machine *crypto.OlmMachine // nil before the first use, and after an error: memory may be ahead of the disk
	members map[string]string  // users who have the key of the bot's messages, by room
	signed  bool               // whether signing the device was attempted
}

// newCipher opens the keys of the bot's device. The keys are made at the first use.
func newCipher(ctx context.Context, a *account) (cipher, error) {
	path := filepath.Join(a.opts.Folder, Keys)
	secret, err := datafolder.Key(filepath.Join(a.opts.Folder, "matrix.key"))
	if err != nil {
		return nil, err
	}
	if err := datafolder.Create(path); err != nil {
		return nil, err
	}
	// Transactions begin as deferred ones, so that none holds a lock while it waits for the
	// library.
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)"+
		"&_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)&_time_format=sqlite")
	if err != nil {
		return nil, err
	}
	k := &keyring{account: a, secret: secret, running: ctx, members: map[string]string{}}
	k.failed.DatabaseLogger = dbutil.NoopLogger
	k.file, err = dbutil.NewWithDB(raw, "sqlite")
	if err == nil {
		k.file.Log = &k.failed
		err = crypto.NewSQLCryptoStore(k.file, nil, "", "", secret).DB.Upgrade(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), raw.Close())
	}
	return k, nil
}

func (k *keyring) close() error { return k.file.Close() }

// use locks the keyring until unlock is called, and returns the library's machine. At first it
// publishes the keys of the device.
func (k *keyring) use(ctx context.Context) (m *crypto.OlmMachine, unlock func(), err error) {
	k.mu.Lock()
	if k.machine == nil {
		err = k.open(ctx)
	}
	if err != nil {
		k.mu.Unlock()
		return nil, nil, fmt.Errorf("the keys of the bot's device: %w", err)
	}
	return k.machine, k.mu.Unlock, nil
}

func (k *keyring) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTime)
	defer cancel()
	device := k.api.DeviceID
	log := zerolog.Nop() // its lines name people and rooms
	s := crypto.NewSQLCryptoStore(k.file, nil, string(k.bot)+" "+string(device), device, k.secret)
	m := crypto.NewOlmMachine(k.api, &log, s, k)
	m.DisableRatchetTracking, m.IgnorePostDecryptionParseErrors = true, true
	m.SetBackgroundCtx(k.running)
	if err := m.Load(ctx); err != nil {
		return err
	}
	there, err := k.api.QueryKeys(ctx, &mautrix.ReqQueryKeys{
		DeviceKeys: mautrix.DeviceKeysRequest{k.bot: {device}}, Timeout: 10_000,
	})
	if err != nil {
		return err
	}
	published := there.DeviceKeys[k.bot][device].Keys.GetEd25519(device)
	if published != "" && published != m.OwnIdentity().SigningKey {
		return fmt.Errorf("the device %s has others at the homeserver: remove the device there, and give the bot a new "+
			"token, or restore %s and matrix.key", device, Keys)
	}
	if published == "" { // at first, or because somebody removed the device
		m.GetAccount().Shared = false
		if err := m.ShareKeys(ctx, -1); err != nil {
			return err
		}
	}
	if !k.signed {
		k.signed = true
		if err := k.signDevice(ctx, m); err != nil {
			k.log.Warn().Err(err).Msg("the bot's device is not signed by its account, so that Element does not trust it; " +
				"see `hubbub help matrix`")
		}
	}
	k.machine = m
	return nil
}

// signDevice signs the bot's device with the keys of its account, as clients demand before they
// trust a device. If there are none, it makes them, and keeps them in the account's secret storage.
// It writes the recovery key of the storage to a file, for other clients of the account. An
// operator may put the recovery key of another client there.
func (k *keyring) signDevice(ctx context.Context, m *crypto.OlmMachine) error {
	exist, signed, err := m.GetOwnVerificationStatus(ctx)
	if err != nil || signed {
		return err
	}
	path := filepath.Join(k.opts.Folder, "matrix-recovery-key.txt")
	if given, err := os.ReadFile(path); err == nil && exist {
		key, _ := text.Decode(given) // other bytes are no key
		return m.VerifyWithRecoveryKey(ctx, strings.TrimSpace(key))
	}
	phrase := base64.RawURLEncoding.EncodeToString(k.secret)
	if !exist {
		err := k.file.DoTxn(ctx, nil, func(ctx context.Context) error { // so that refused keys are not stored
			_, _, err := m.GenerateAndUploadCrossSigningKeysWithPassword(ctx, k.opts.Password, phrase)
			return err
		})
		if err != nil {
			return err
		}
	}
	name, data, err := m.SSSS.GetDefaultKeyData(ctx)
	if err != nil {
		return err
	}
	key, err := data.VerifyPassphrase(name, phrase)
	if err != nil {
		return fmt.Errorf("its account has keys that another client made; write their recovery key to %s: %w", path, err)
	}
	if err := datafolder.WriteFile(path, []byte(key.RecoveryKey()+"\n")); err != nil {
		return err
	}
	if err := m.FetchCrossSigningKeysFromSSSS(ctx, key); err != nil {
		return err
	}
	k.log.Info().Str("file", path).Msg("the bot's device is signed by its account, whose recovery key is in a file")
	return m.SignOwnDevice(ctx, m.OwnIdentity())
}

// takeKeys implements [cipher]. All that follows from one message with keys is one commit.
func (k *keyring) takeKeys(ctx context.Context, got *syncResponse) error {
	m, unlock, err := k.use(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	asking, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := m.FetchKeys(asking, got.DeviceLists.Changed, false); err != nil {
		return err
	}
	for _, raw := range got.ToDevice.Events {
		e := new(event.Event)
		if json.Unmarshal(raw, e) != nil {
			continue
		}
		e.Type.Class = event.ToDeviceEventType
		if e.Content.ParseRaw(e.Type) != nil {
			continue // of a type that the library does not know
		}
		if e.Type != event.ToDeviceEncrypted { // such as a request for a key, which is answered in parallel
			m.HandleToDeviceEvent(ctx, e)
			continue
		}
		k.failed.Store(false)
		err := k.file.DoTxn(ctx, nil, func(ctx context.Context) error {
			_ = bridge.Guard(k.log, "reading a message with keys", func() error { // it is logged
				m.HandleToDeviceEvent(ctx, e)
				return nil
			})
			k.crash("keys read")
			if k.failed.Load() {
				return errors.New("a key could not be written to " + Keys)
			}
			return nil
		})
		if err != nil {
			k.machine = nil
			return err
		}
	}
	m.HandleOTKCounts(asking, &got.KeyCounts)
	m.MarkOlmHashSavePoint(ctx)
	return nil
}

// hasKey implements [cipher].
func (k *keyring) hasKey(ctx context.Context, room, session string) bool {
	m, unlock, err := k.use(ctx)
	if err != nil {
		return false
	}
	defer unlock()
	found, err := m.CryptoStore.GetGroupSession(ctx, id.RoomID(room), id.SessionID(session))
	return err == nil && found != nil
}

// decrypt implements [cipher]. The device that encrypted an event must be one of its sender.
func (k *keyring) decrypt(ctx context.Context, room string, e *rawEvent, raw json.RawMessage) (json.RawMessage, error) {
	m, unlock, err := k.use(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	sealed := event.Event{RoomID: id.RoomID(room)}
	if err := json.Unmarshal(raw, &sealed); err != nil {
		return nil, err
	}
	sealed.RoomID, sealed.Type = id.RoomID(room), event.EventEncrypted
	if err := sealed.Content.ParseRaw(sealed.Type); err != nil {
		return nil, err
	}
	var plain *event.Event
	err = bridge.Guard(k.log, "decrypting an event", func() (err error) {
		plain, err = m.DecryptMegolmEvent(ctx, &sealed)
		return err
	})
	if err != nil {
		return nil, err
	}
	if plain.Mautrix.TrustSource == nil || plain.Mautrix.ForwardedKeys {
		return nil, errors.New("no device of its sender has this key")
	}
	opened := *e
	opened.Type, opened.Content = plain.Type.Type, plain.Content.VeryRaw
	return json.Marshal(opened)
}

// encrypt implements [cipher]. Users who join a room can read what follows, and users who leave
// it cannot.
func (k *keyring) encrypt(ctx context.Context, room, kind string, content any) (*event.EncryptedEventContent, error) {
	m, unlock, err := k.use(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	users, err := store.ReadAll(ctx, k.db,
		store.Scalar[id.UserID], `SELECT user FROM members WHERE room = ? ORDER BY user`, room)
	if err != nil {
		return nil, err
	}
	if now := fmt.Sprint(users); k.members[room] != now {
		if err := m.CryptoStore.RemoveOutboundGroupSession(ctx, id.RoomID(room)); err != nil {
			return nil, err
		}
		if _, err := m.FetchKeys(ctx, users, true); err != nil {
			return nil, err
		}
		k.members[room] = now
	}
	as := event.Type{Type: kind, Class: event.MessageEventType}
	made, err := m.EncryptMegolmEvent(ctx, id.RoomID(room), as, content)
	if crypto.IsShareError(err) {
		if err = m.ShareGroupSession(ctx, id.RoomID(room), users); err == nil {
			made, err = m.EncryptMegolmEvent(ctx, id.RoomID(room), as, content)
		}
	}
	return made, err
}

// IsEncrypted implements [crypto.StateStore]. The library is asked only about encrypted rooms.
func (k *keyring) IsEncrypted(context.Context, id.RoomID) (bool, error) { return true, nil }

// GetEncryptionEvent implements [crypto.StateStore]. New keys are made as often as Matrix advises.
func (k *keyring) GetEncryptionEvent(context.Context, id.RoomID) (*event.EncryptionEventContent, error) {
	return &event.EncryptionEventContent{Algorithm: id.AlgorithmMegolmV1}, nil
}

// FindSharedRooms implements [crypto.StateStore].
func (k *keyring) FindSharedRooms(ctx context.Context, user id.UserID) ([]id.RoomID, error) {
	return store.ReadAll(ctx, k.db,
		store.Scalar[id.RoomID], `SELECT room FROM members WHERE user = ?`, user)
}

// A failureLog records that a query failed, since the library only logs that. A violated constraint
// is not a failure: each attempt would violate it again.
type failureLog struct {
	dbutil.DatabaseLogger
	atomic.Bool
}

// QueryTiming implements [dbutil.DatabaseLogger].
func (l *failureLog) QueryTiming(_ context.Context, _, _ string, _ []any, _ int, _ time.Duration, err error) {
	if failed, ok := errors.AsType[*sqlite.Error](err); ok && failed.Code()&0xff != sqlite3.SQLITE_CONSTRAINT {
		l.Store(true)
	}
}
