package mx

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/id"
)

//go:embed schema.sql
var schema string

// Database is the name of the bridge's database in its data folder.
const Database = "matrix.db"

// Open opens the bridge's database, creating it if it is missing.
func Open(path string) (*store.DB, error) {
	return store.Open(path, schema+outbox.Schema+bridge.Schema)
}

// ErrToken ends Run: the homeserver does not accept the token, or the user with the password.
var ErrToken = errors.New("the homeserver does not accept the token or password of the bot; check " +
	"MATRIX_ACCESS_TOKEN, or --user and MATRIX_PASSWORD")

// An account is the bot and everything that all parts of its bridge need.
type account struct {
	db   *store.DB
	opts Options
	log  *zerolog.Logger
	api  *mautrix.Client
	bot  id.UserID // "" until it is known

	router  *bridge.Router
	pairing *bridge.Pairing
	files   *bridge.FileServer
	cipher  cipher // nil without encryption

	fatal context.CancelCauseFunc
	crash func(at string)
}

// A stored is the row of the table account.
type stored struct{ user, device, token string }

// identify logs in, or asks the homeserver whose token it is. While the homeserver cannot be
// reached, the account of an earlier start is used.
func (a *account) identify(ctx context.Context) error {
	before, known, err := a.loadAccount(ctx)
	if err != nil {
		return err
	}
	a.api.AccessToken = a.opts.Token
	if a.opts.Token == "" {
		a.api.AccessToken = before.token
	}
	for try := 1; ; try++ {
		now, err := a.logIn(ctx, before.device)
		switch {
		case err == nil && known && now.user != before.user:
			return fmt.Errorf("this data folder belongs to %s, and the token to %s; use another folder (--data)",
				before.user, now.user)
		case err == nil:
			a.setBot(now.user, now.device)
			return a.saveAccount(ctx, &now)
		case errors.Is(err, ErrToken):
			return err
		case isRefusedToken(err):
			return fmt.Errorf("%w: %w", ErrToken, err)
		case ctx.Err() != nil:
			return ctx.Err()
		case known && a.api.AccessToken != "":
			a.log.Warn().Err(err).Msg("homeserver not reached; continuing with the stored account of the bot")
			a.setBot(before.user, before.device)
			return nil
		}
		pause := pauseAfter(err, try)
		a.log.Warn().Err(err).Dur("pause_ms", pause).Msg("homeserver not reached; trying again")
		retry.Sleep(ctx, pause)
	}
}

// logIn checks the token. Without a valid one it logs in with the password, as the same device,
// since transaction IDs belong to a device.
func (a *account) logIn(ctx context.Context, device string) (now stored, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if a.api.AccessToken != "" {
		who, err := a.api.Whoami(ctx)
		if err == nil && a.opts.User != "" && string(who.UserID) != a.opts.User {
			err = fmt.Errorf("%w: it is the token of %s, and --user is %s", ErrToken, who.UserID, a.opts.User)
		}
		if err == nil || errors.Is(err, ErrToken) {
			return stored{user: string(who.UserID), device: string(who.DeviceID)}, err
		}
		if a.opts.Token != "" || !isRefusedToken(err) {
			return now, err
		}
	}
	if device == "" {
		device = "HUBBUB"
	}
	login, err := a.api.Login(ctx, &mautrix.ReqLogin{
		Type:                     mautrix.AuthTypePassword,
		Identifier:               mautrix.UserIdentifier{Type: mautrix.IdentifierTypeUser, User: a.opts.User},
		Password:                 a.opts.Password,
		DeviceID:                 id.DeviceID(device),
		InitialDeviceDisplayName: "Hubbub",
	})
	if err != nil {
		return now, err
	}
	a.api.AccessToken = login.AccessToken
	return stored{string(login.UserID), string(login.DeviceID), login.AccessToken}, nil
}

func (a *account) loadAccount(ctx context.Context) (s stored, known bool, err error) {
	err = store.Autocommit(ctx, a.db, func(tx *store.Tx) {
		s, known = store.One(tx, func(s *stored) []any { return []any{&s.user, &s.device, &s.token} },
			`SELECT user, device, token FROM account`)
	})
	return s, known, err
}

// saveAccount stores the account. A token of the settings is not stored.
func (a *account) saveAccount(ctx context.Context, now *stored) error {
	a.log.Info().Str("bot", now.user).Msg("bot identified")
	return store.Exec(ctx, a.db, `INSERT INTO account (one, user, device, token) VALUES (1, ?1, ?2, ?3)
			ON CONFLICT (one) DO UPDATE SET device = ?2, token = CASE ?3 WHEN '' THEN token ELSE ?3 END`,
		now.user, now.device, now.token)
}

// get makes a request to the homeserver that the library has no types for: unparsed events.
func (a *account) get(ctx context.Context, limit time.Duration, path mautrix.ClientURLPath, query map[string]string,
	result any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err := a.api.MakeRequest(ctx, http.MethodGet, a.api.BuildURLWithQuery(path, query), nil, result)
	return err
}

// statusOf returns the HTTP status of a homeserver's answer, 0 if there was none.
func statusOf(err error) int {
	if failed, ok := errors.AsType[mautrix.HTTPError](err); ok && failed.Response != nil {
		return failed.Response.StatusCode
	}
	return 0
}

func isRefusedToken(err error) bool {
	return errors.Is(err, mautrix.MUnknownToken) || errors.Is(err, mautrix.MMissingToken) ||
		errors.Is(err, mautrix.MForbidden) || errors.Is(err, mautrix.MUserDeactivated)
}

// retryAfter returns how long a homeserver asks to wait, 0 if it does not.
func retryAfter(err error) time.Duration {
	failed, ok := errors.AsType[mautrix.HTTPError](err)
	if !ok || statusOf(err) != http.StatusTooManyRequests {
		return 0
	}
	wait := 3 * time.Second
	if seconds, err := strconv.Atoi(failed.Response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		wait = time.Duration(seconds) * time.Second
	}
	if failed.RespError != nil {
		if ms, ok := failed.RespError.ExtraData["retry_after_ms"].(float64); ok && ms > 0 {
			wait = time.Duration(ms) * time.Millisecond
		}
	}
	return min(wait, time.Hour)
}

// backoff is the backoff of failed requests to the homeserver.
var backoff = retry.Backoff{Min: time.Second, Max: time.Minute}

func pauseAfter(err error, failures int) time.Duration {
	return max(backoff.After(failures), retryAfter(err))
}

// peerOf returns the identity of a room or a user on the bus.
func peerOf(name string) protocol.PeerID { return protocol.PeerID("mx:" + name) }

// sourceID returns the sourceId of an event of Matrix on the bus.
func sourceID(event string) string { return "mx:" + event }

// eventOf returns the event of a sourceId, or "".
func eventOf(source string) string {
	event, ok := strings.CutPrefix(source, "mx:")
	if !ok || !strings.HasPrefix(event, "$") {
		return ""
	}
	return event
}

func nowMicros() int64 { return time.Now().UnixMicro() }

// mustJSON marshals a value that is always valid JSON.
func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}
