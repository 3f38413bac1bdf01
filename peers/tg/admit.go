package tg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-telegram/bot/models"
)

// admits decides whether a happening counts. A direct chat needs its user, a
// group needs its chat and admits its members. Names, titles and the origin of
// what is forwarded never count.
func (b *Bridge) admits(ctx context.Context, q querier, h *happening) (bool, error) {
	if h.chat.Type == models.ChatTypePrivate {
		return b.admitsUser(ctx, q, h.user)
	}
	return b.admitsChat(ctx, q, h.chat.ID)
}

func (b *Bridge) admitsUser(ctx context.Context, q querier, user int64) (bool, error) {
	if b.opts.AllowAll || slices.Contains(b.opts.AllowUsers, user) {
		return user != 0, nil
	}
	return b.paired(ctx, q, "user", user)
}

// admitsChat looks at every id that a group has had.
func (b *Bridge) admitsChat(ctx context.Context, q querier, telegramChat int64) (bool, error) {
	if b.opts.AllowAll {
		return true, nil
	}
	ids := []int64{telegramChat}
	c, err := b.loadChat(ctx, q, telegramChat)
	switch {
	case err == nil:
		ids = append(ids, c.key, c.telegram)
	case !errors.Is(err, errNoChat):
		return false, err
	}
	for _, n := range ids {
		if slices.Contains(b.opts.AllowChats, n) {
			return true, nil
		}
		if ok, err := b.paired(ctx, q, "chat", n); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (b *Bridge) paired(ctx context.Context, q querier, kind string, n int64) (bool, error) {
	var found bool
	err := q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM admitted WHERE bot = ? AND kind = ? AND id = ?)`, b.bot, kind, n).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("looking up who is admitted: %w", err)
	}
	return found, nil
}

// admitsTopic decides whether the bus may write to a chat.
func (b *Bridge) admitsTopic(ctx context.Context, q querier, key int64) (bool, error) {
	if key > 0 { // a direct chat has the id of its user
		return b.admitsUser(ctx, q, key)
	}
	return b.admitsChat(ctx, q, key)
}

// turnAway records what a stranger did. Only a code and, a few times a day, a
// question how to get in are answered.
func (b *Bridge) turnAway(ctx context.Context, tx *sql.Tx, h *happening, after *[]func()) (string, error) {
	reason := fmt.Sprintf("chat %d is not admitted (--allow-chat, or /pair there)", h.chat.ID)
	direct := h.chat.Type == models.ChatTypePrivate
	if direct {
		reason = fmt.Sprintf("user %d is not admitted (--allow-user, or /pair)", h.user)
	}
	pairing := (h.command == "/pair" || h.command == "/start") && h.arguments != ""
	asking := h.command == "/pair" || direct && (h.command == "/start" || h.command == "/help")
	if !pairing && !asking {
		b.log.Info().Int64("chat", h.chat.ID).Int64("user", h.user).Msg("turned away: " + reason)
		return reason, nil
	}
	*after = append(*after, b.telegram.Wake)
	c, err := b.meetChat(ctx, tx, &h.chat)
	if err != nil {
		return "", err
	}
	if pairing {
		return "the command " + h.command, b.pair(ctx, tx, c, h)
	}
	var today int
	err = tx.QueryRowContext(ctx, `SELECT count(*) FROM replies WHERE bot = ? AND chat = ? AND agent = '' AND received_at > ?`,
		b.bot, c.key, time.Now().Add(-24*time.Hour).UnixMicro()).Scan(&today)
	if err != nil || today >= maxNotices {
		return reason, err
	}
	who := fmt.Sprintf("you: your user id is %d", h.user)
	if !direct {
		who = fmt.Sprintf("this group: its id is %d", h.chat.ID)
	}
	return reason, b.notice(ctx, tx, c, h.thread, fmt.Sprintf("stranger:%d", h.message), fmt.Sprintf(
		"This bot is private. Ask whoever runs it to admit %s. With a one-time code from them (`hubbub pair`), send /pair CODE.", who))
}
