package tg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/rs/zerolog"
)

// An account is the bot and everything that all parts of its bridge need.
type account struct {
	token string
	db    *store.DB
	opts  Options
	log   *zerolog.Logger
	api   *botapi.Client

	bot int64 // 0 until it is known
	me  models.User

	pairing *bridge.Pairing
	files   *bridge.FileServer
	router  *bridge.Router // delivers the chats' events to their agents

	quit  <-chan struct{} // closed when the bridge must stop
	fatal context.CancelCauseFunc
	crash func(point string) // set by crash tests
}

// botColumn returns a column of the bot's row, or "".
func (a *account) botColumn(tx *store.Tx, column string) string {
	return store.Value[string](tx, `SELECT `+column+` FROM bots WHERE bot = ?`, a.bot)
}

// call makes a Bot API call with the usual timeout.
func (a *account) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return a.api.Call(ctx, method, params, result)
}

// sourceID returns the sourceId of a Telegram message on the bus.
func (a *account) sourceID(telegramChat int64, message int) string {
	return "tg:" + id(a.bot) + ":" + id(telegramChat) + ":" + id(int64(message))
}

// parseSource parses the sourceId of a Telegram message. It ignores a suffix, such as that of a
// reaction.
func parseSource(source string) (bot, telegramChat int64, message int, ok bool) {
	parts := strings.SplitN(source, ":", 5)
	if len(parts) < 4 || parts[0] != "tg" {
		return 0, 0, 0, false
	}
	bot, err1 := strconv.ParseInt(parts[1], 10, 64)
	telegramChat, err2 := strconv.ParseInt(parts[2], 10, 64)
	message, err3 := strconv.Atoi(parts[3])
	return bot, telegramChat, message, errors.Join(err1, err2, err3) == nil && message > 0
}

// peerOf returns the identity of a chat on the bus, topicOf its topic.
func peerOf(key int64) protocol.PeerID { return protocol.PeerID("tg:" + id(key)) }

func topicOf(key int64) protocol.Topic { return peerOf(key).Topic() }

func id(n int64) string { return strconv.FormatInt(n, 10) }

// timeFromMicros returns the time of a stored number. Zero means the zero time.
func timeFromMicros(micro int64) time.Time {
	if micro == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micro)
}

func nowMicros() int64 { return time.Now().UnixMicro() }

// mustJSON marshals a value that is always valid JSON.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// digest returns the SHA-256 of a text, by which secrets and long texts are compared.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
