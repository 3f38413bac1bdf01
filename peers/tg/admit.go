package tg

import (
	"fmt"
	"slices"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"

	"github.com/go-telegram/bot/models"
)

// admits reports whether an update comes from an admitted chat. A direct chat is admitted through
// its user, a group through its chat, for all members. Names, titles and the origin of forwarded
// messages never count.
func (a *account) admits(tx *store.Tx, u *parsedUpdate) bool {
	if u.chat.Type == models.ChatTypePrivate {
		return a.admitsUser(tx, u.user)
	}
	return a.admitsChat(tx, u.chat.ID)
}

// admitsTopic reports whether the bus may write to a chat.
func (a *account) admitsTopic(tx *store.Tx, key int64) bool {
	if key > 0 { // the ID of a direct chat is that of its user
		return a.admitsUser(tx, key)
	}
	return a.admitsChat(tx, key)
}

func (a *account) admitsUser(tx *store.Tx, user int64) bool {
	if a.opts.AllowAll || slices.Contains(a.opts.AllowUsers, user) {
		return user != 0
	}
	return a.paired(tx, "user", user)
}

// admitsChat checks every ID that a group has had.
func (a *account) admitsChat(tx *store.Tx, telegramChat int64) bool {
	ids := []int64{telegramChat}
	if c, known := a.load(tx, telegramChat); known {
		ids = append(ids, c.key, c.telegram)
	}
	return a.opts.AllowAll || slices.ContainsFunc(ids, func(n int64) bool {
		return slices.Contains(a.opts.AllowChats, n) || a.paired(tx, "chat", n)
	})
}

func (a *account) paired(tx *store.Tx, kind string, n int64) bool {
	return a.pairing.IsPaired(tx, kind, id(n))
}

// reject logs an update that is not admitted. It answers only a pairing code and, a few times a
// day, the question how to get access.
func (in *ingester) reject(tx *store.Tx, u *parsedUpdate) string {
	reason := fmt.Sprintf("chat %d is not admitted (--allow-chat, or /pair there)", u.chat.ID)
	direct := u.chat.Type == models.ChatTypePrivate
	if direct {
		reason = fmt.Sprintf("user %d is not admitted (--allow-user, or /pair)", u.user)
	}
	pairing := (u.command == "/pair" || u.command == "/start") && u.arguments != "" && !u.isQuestion()
	asking := u.command == "/pair" || direct && (u.command == "/start" || u.command == "/help")
	if !pairing && !asking {
		if c, known := in.load(tx, u.chat.ID); u.callback != "" && known {
			in.answerCallback(tx, c, u,
				"This bot is private and no longer serves this chat, so the button does nothing.")
		}
		if tx.Err() == nil {
			in.log.Info().Int64("chat", u.chat.ID).Int64("user", u.user).Msg("update rejected: " + reason)
		}
		return reason
	}
	c := in.ensureChat(tx, &u.chat)
	if pairing {
		in.pair(tx, c, u)
		return "the command " + u.command
	}
	sent := store.Value[int](tx,
		`SELECT count(*) FROM replies WHERE bot = ? AND chat = ? AND agent = '' AND received_at > ?`,
		in.bot, c.key, time.Now().Add(-24*time.Hour).UnixMicro())
	if sent >= maxNotices {
		return reason
	}
	who := fmt.Sprintf("you (user ID %d)", u.user)
	if !direct {
		who = fmt.Sprintf("this group (ID %d)", u.chat.ID)
	}
	in.notice(tx, c, u.thread, fmt.Sprintf("stranger:%d", u.message), fmt.Sprintf(
		"This bot is private. Ask whoever runs it to give access to %s. If they send you a one-time code (from "+
			"`hubbub pair`), send /pair CODE here.", who))
	return reason
}

// pair admits the user or the group that sends a valid code.
func (in *ingester) pair(tx *store.Tx, c *chat, u *parsedUpdate) {
	kind, who := bridge.AdmitChat, c.key
	if u.chat.Type == models.ChatTypePrivate {
		kind, who = bridge.AdmitUser, u.user
	}
	if says := in.pairing.Pair(tx, id(u.user), u.arguments, kind, id(who)); says != "" {
		in.notice(tx, c, u.thread, fmt.Sprintf("pair:%d", u.message), says)
	}
}
