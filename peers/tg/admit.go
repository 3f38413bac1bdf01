package tg

import (
	"slices"

	"hubbub/peers/store"

	"github.com/go-telegram/bot/models"
)

// admits reports whether a happening counts. A direct chat needs its user, a
// group needs its chat and admits its members. Names, titles and the origin of
// what is forwarded never count.
func (cs *chats) admits(tx *store.Tx, h *happening) bool {
	if h.chat.Type == models.ChatTypePrivate {
		return cs.admitsUser(tx, h.user)
	}
	return cs.admitsChat(tx, h.chat.ID)
}

// admitsTopic reports whether the bus may write to a chat.
func (cs *chats) admitsTopic(tx *store.Tx, key int64) bool {
	if key > 0 { // a direct chat has the id of its user
		return cs.admitsUser(tx, key)
	}
	return cs.admitsChat(tx, key)
}

func (cs *chats) admitsUser(tx *store.Tx, user int64) bool {
	if cs.opts.AllowAll || slices.Contains(cs.opts.AllowUsers, user) {
		return user != 0
	}
	return cs.paired(tx, "user", user)
}

// admitsChat looks at every id that a group has had.
func (cs *chats) admitsChat(tx *store.Tx, telegramChat int64) bool {
	ids := []int64{telegramChat}
	if c, known := cs.load(tx, telegramChat); known {
		ids = append(ids, c.key, c.telegram)
	}
	return cs.opts.AllowAll || slices.ContainsFunc(ids, func(n int64) bool {
		return slices.Contains(cs.opts.AllowChats, n) || cs.paired(tx, "chat", n)
	})
}

func (cs *chats) paired(tx *store.Tx, kind string, n int64) bool {
	return store.Value[bool](tx, `SELECT 1 FROM admitted WHERE bot = ? AND kind = ? AND id = ?`, cs.bot, kind, n)
}
