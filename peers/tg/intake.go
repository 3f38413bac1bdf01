package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A stored update that waits to be understood.
type stored struct {
	seq int64
	raw json.RawMessage
}

// intakeLoop takes stored updates in, in the order in which they came. An update
// that cannot be understood is kept as such; a database that cannot be written
// is tried again. Nothing is passed over.
func (b *Bridge) intakeLoop(ctx context.Context) error {
	// What an older program could not read, this one may.
	if err := exec(ctx, b.db, `UPDATE updates SET state = 'new' WHERE bot = ? AND state = 'unreadable'`, b.bot); err != nil && ctx.Err() == nil {
		b.log.Error().Err(err).Msg("unreadable updates are not tried again")
	}
	failures := 0
	for ctx.Err() == nil {
		n, err := b.intakeSome(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			pause := backoff(failures)
			b.log.Error().Err(err).Dur("retry_in", pause).Msg("stored updates cannot be taken in")
			sleep(ctx, pause)
			continue
		}
		failures = 0
		if n > 0 {
			continue
		}
		select {
		case <-b.arrived:
		case <-ctx.Done():
		}
	}
	return nil
}

func (b *Bridge) intakeSome(ctx context.Context) (int, error) {
	rows, err := b.db.QueryContext(ctx, `SELECT seq, raw FROM updates WHERE bot = ? AND state = 'new' ORDER BY seq LIMIT 100`, b.bot)
	if err != nil {
		return 0, err
	}
	var batch []stored
	for rows.Next() {
		var s stored
		var raw string
		if err := rows.Scan(&s.seq, &raw); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		s.raw = json.RawMessage(raw)
		batch = append(batch, s)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	for _, s := range batch {
		if err := b.intake(ctx, s); err != nil {
			return 0, err
		}
	}
	return len(batch), nil
}

// intake takes one update in: one transaction holds all that follows from it.
func (b *Bridge) intake(ctx context.Context, s stored) error {
	h, err := b.readSafely(s.raw)
	if err != nil {
		b.log.Error().Err(err).Int64("update", s.seq).Msg("an update is kept unread")
		return b.settleUpdate(ctx, b.db, s.seq, "unreadable", err.Error())
	}
	var after []func()
	err = inTx(context.WithoutCancel(ctx), b.db, func(tx *sql.Tx) error {
		after = nil
		reason, err := b.takeIn(context.WithoutCancel(ctx), tx, &h, &after)
		if err != nil {
			return err
		}
		state := "done"
		if reason != "" {
			state = "skipped"
		}
		return b.settleUpdate(context.WithoutCancel(ctx), tx, s.seq, state, reason)
	})
	if err != nil {
		return err
	}
	b.crash("taken in")
	for _, f := range after {
		f()
	}
	return nil
}

// readSafely is read that survives what nobody thought of.
func (b *Bridge) readSafely(raw json.RawMessage) (h happening, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("an update could not be read")
			err = fmt.Errorf("the program failed on this update: %v", p)
		}
	}()
	return read(raw, &b.me)
}

func (b *Bridge) settleUpdate(ctx context.Context, q querier, seq int64, state, reason string) error {
	return exec(ctx, q, `UPDATE updates SET state = ?, reason = ? WHERE seq = ?`, state, reason, seq)
}

// takeIn does what follows from a happening. It returns why no agent hears of
// it, or nothing when they do. What must wait for the commit goes to after.
func (b *Bridge) takeIn(ctx context.Context, tx *sql.Tx, h *happening, after *[]func()) (string, error) {
	if h.migrateTo != 0 || h.migrateFrom != 0 {
		*after = append(*after, func() { wake(b.chats) })
		return "the group moved", b.migrate(ctx, tx, h)
	}
	admitted, err := b.admits(ctx, tx, h)
	if err != nil {
		return "", err
	}
	if !admitted {
		return b.turnAway(ctx, tx, h, after)
	}
	c, err := b.meetChat(ctx, tx, &h.chat)
	if err != nil {
		return "", err
	}
	if err := b.notePerson(ctx, tx, h); err != nil {
		return "", err
	}
	*after = append(*after, func() { wake(b.chats) })
	if reason, err := b.notePresence(ctx, tx, c, h); err != nil || reason != "" {
		return reason, err
	}
	if h.callback != "" {
		*after = append(*after, b.telegram.Wake)
		if err := b.answerCallback(ctx, tx, c, h); err != nil {
			return "", err
		}
	}
	if h.command != "" {
		*after = append(*after, b.telegram.Wake)
		return "the command " + h.command, b.obey(ctx, tx, c, h)
	}
	switch {
	case h.skip != "":
		return h.skip, nil
	case c.stopped:
		*after = append(*after, b.telegram.Wake)
		return "the chat is stopped", b.remindStopped(ctx, tx, c)
	}
	*after = append(*after, b.forward.Wake)
	return "", b.storeEvent(ctx, tx, c, h)
}

// notePerson remembers who goes by which username, to tell people's names from
// agents' and roles'.
func (b *Bridge) notePerson(ctx context.Context, tx *sql.Tx, h *happening) error {
	if h.author.Username == "" {
		return nil
	}
	return exec(ctx, tx, `INSERT OR REPLACE INTO people (bot, username, user) VALUES (?, lower(?), ?)`, b.bot, h.author.Username, h.user)
}

// notePresence records that the bot came into a chat or was put out of it.
func (b *Bridge) notePresence(ctx context.Context, tx *sql.Tx, c *chat, h *happening) (string, error) {
	switch {
	case h.present == presenceOut && c.present:
		c.present = false
	case h.present == presenceIn && !c.present, h.present == presenceSame && !c.present && h.message != 0:
		c.present = true // whoever gets messages is in
	case h.present == presenceOut:
		return "the bot had left already", nil
	default:
		return "", nil
	}
	state := c.state
	if !c.present && state != chatAssigned {
		state = chatIdle // nobody needs an agent there
	}
	c.state = state
	return "", errors.Join(
		exec(ctx, tx, `UPDATE chats SET present = ?, state = ? WHERE bot = ? AND chat = ?`, c.present, state, b.bot, c.key),
		b.askAgain(ctx, tx, c))
}

// storeEvent keeps a happening for the agents and hands it on if it can.
func (b *Bridge) storeEvent(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	if !c.present && c.state != chatAssigned {
		return nil // there is no agent to tell that the bot was removed
	}
	refs, err := b.files.refer(ctx, tx, h.files)
	if err != nil {
		return err
	}
	h.draft.Content.Attachments = refs
	h.draft.Content.Author = &h.author
	h.draft.Content.Chat.ID = id(c.key)
	if h.album != "" {
		joined, err := b.joinAlbum(ctx, tx, h)
		if err != nil || joined {
			return err
		}
	}
	raw, err := json.Marshal(h.draft)
	if err != nil {
		return err
	}
	var ready int64
	if h.album != "" {
		ready = time.Now().Add(b.opts.AlbumWait).UnixMicro()
	}
	err = exec(ctx, tx, `INSERT INTO events (bot, chat, telegram_chat, message, thread, source_id, album, ready_at, draft, bus_id, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		b.bot, c.key, h.chat.ID, h.message, h.thread, b.sourceID(h.chat.ID, h.message)+h.suffix, h.album, ready,
		string(raw), string(protocol.NewMessageID()), now())
	if err != nil {
		return fmt.Errorf("keeping an event: %w", err)
	}
	if c.state == chatIdle {
		if err := b.askForAgent(ctx, tx, c); err != nil {
			return err
		}
	}
	return b.handOn(ctx, tx, c)
}

// sourceID names a Telegram message on the bus.
func (b *Bridge) sourceID(telegramChat int64, message int) string {
	return "tg:" + id(b.bot) + ":" + id(telegramChat) + ":" + id(int64(message))
}

// joinAlbum adds a picture to the album that it belongs to, as long as that
// waits for more; false when it stands alone.
func (b *Bridge) joinAlbum(ctx context.Context, tx *sql.Tx, h *happening) (bool, error) {
	var event, received int64
	var raw string
	err := tx.QueryRowContext(ctx, `SELECT id, draft, received_at FROM events WHERE bot = ? AND telegram_chat = ? AND album = ?
		AND queued = 0 AND ready_at > 0 ORDER BY id LIMIT 1`, b.bot, h.chat.ID, h.album).Scan(&event, &raw, &received)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	var d draft
	if err == nil {
		err = json.Unmarshal([]byte(raw), &d)
	}
	if err != nil {
		return false, fmt.Errorf("reading an album: %w", err)
	}
	d.Content.Attachments = append(d.Content.Attachments, h.draft.Content.Attachments...)
	if d.Content.Text == "" {
		d.Content.Text, d.Names = h.draft.Content.Text, h.draft.Names
	}
	changed, err := json.Marshal(d)
	if err != nil {
		return false, err
	}
	ready := min(time.Now().Add(b.opts.AlbumWait).UnixMicro(), received+albumCap.Microseconds())
	return true, exec(ctx, tx, `UPDATE events SET draft = ?, ready_at = ? WHERE id = ?`, string(changed), ready, event)
}

// migrate makes the new id of a group an alias of the one it was known by.
func (b *Bridge) migrate(ctx context.Context, tx *sql.Tx, h *happening) error {
	from, to := h.chat.ID, h.migrateTo
	if h.migrateFrom != 0 {
		from, to = h.migrateFrom, h.chat.ID
	}
	return b.moveChat(ctx, tx, from, to)
}

func (b *Bridge) moveChat(ctx context.Context, tx *sql.Tx, from, to int64) error {
	c, err := b.loadChat(ctx, tx, from)
	if errors.Is(err, errNoChat) {
		return nil // nothing was ever said there
	}
	if err != nil || c.telegram == to {
		return err
	}
	b.log.Info().Int64("chat", c.key).Int64("moved_to", to).Msg("a group became a supergroup and keeps its agents")
	for _, statement := range []string{
		`INSERT OR REPLACE INTO aliases (bot, telegram_id, chat) VALUES (?1, ?3, ?2)`,
		`UPDATE chats SET telegram_id = ?3, kind = '` + string(models.ChatTypeSupergroup) + `' WHERE bot = ?1 AND chat = ?2`,
		// What was said under the new id before this was known belongs here too.
		`UPDATE events SET chat = ?2 WHERE bot = ?1 AND chat = ?3 AND queued = 0`,
		`UPDATE chats SET state = 'idle' WHERE bot = ?1 AND chat = ?3 AND ?3 <> ?2 AND state <> 'assigned'`,
	} {
		if err := exec(ctx, tx, statement, b.bot, c.key, to); err != nil {
			return fmt.Errorf("moving chat %d: %w", from, err)
		}
	}
	return nil
}
