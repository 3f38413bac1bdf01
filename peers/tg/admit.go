package tg

import (
	"context"
	"errors"
	"slices"

	"hubbub/peers/store"

	"github.com/go-telegram/bot/models"
)

// admits reports whether a happening counts. A direct chat needs its user, a
// group needs its chat and admits its members. Names, titles and the origin of
// what is forwarded never count.
func (cs *chats) admits(ctx context.Context, q store.Querier, h *happening) (bool, error) {
	if h.chat.Type == models.ChatTypePrivate {
		return cs.admitsUser(ctx, q, h.user)
	}
	return cs.admitsChat(ctx, q, h.chat.ID)
}

func (cs *chats) admitsUser(ctx context.Context, q store.Querier, user int64) (bool, error) {
	if cs.opts.AllowAll || slices.Contains(cs.opts.AllowUsers, user) {
		return user != 0, nil
	}
	return cs.paired(ctx, q, "user", user)
}

// admitsChat looks at every id that a group has had.
func (cs *chats) admitsChat(ctx context.Context, q store.Querier, telegramChat int64) (bool, error) {
	if cs.opts.AllowAll {
		return true, nil
	}
	ids := []int64{telegramChat}
	c, err := cs.load(ctx, q, telegramChat)
	switch {
	case err == nil:
		ids = append(ids, c.key, c.telegram)
	case !errors.Is(err, errNoChat):
		return false, err
	}
	for _, n := range ids {
		if slices.Contains(cs.opts.AllowChats, n) {
			return true, nil
		}
		if ok, err := cs.paired(ctx, q, "chat", n); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (cs *chats) paired(ctx context.Context, q store.Querier, kind string, n int64) (bool, error) {
	_, found, err := store.One(ctx, q, store.Column[int], `SELECT 1 FROM admitted WHERE bot = ? AND kind = ? AND id = ?`, cs.bot, kind, n)
	return found, err
}

// admitsTopic reports whether the bus may write to a chat.
func (cs *chats) admitsTopic(ctx context.Context, q store.Querier, key int64) (bool, error) {
	if key > 0 { // a direct chat has the id of its user
		return cs.admitsUser(ctx, q, key)
	}
	return cs.admitsChat(ctx, q, key)
}
