package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"
	"hubbub/protocol/retry"
)

// An intake takes stored updates in: it decides what follows from each.
type intake struct {
	*chats
	out     *outbound
	files   *files
	arrived chan struct{} // wakes loop
}

// stored is an update that waits to be taken in.
type stored struct {
	seq int64
	raw json.RawMessage
}

// loop takes stored updates in, in the order in which they came. An update
// that cannot be read is kept as it is; if the database cannot be written, it is
// tried again. No update is skipped.
func (in *intake) loop(ctx context.Context) error {
	// What an older program could not read, this one may.
	if err := store.Exec(ctx, in.db, `UPDATE updates SET state = 'new' WHERE bot = ? AND state = 'unreadable'`, in.bot); err != nil && ctx.Err() == nil {
		in.log.Error().Err(err).Msg("unreadable updates not tried again")
	}
	failures := 0
	for ctx.Err() == nil {
		n, err := in.some(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			pause := backoff.After(failures)
			in.log.Error().Err(err).Dur("pause_ms", pause).Msg("taking in stored updates failed; trying again")
			retry.Sleep(ctx, pause)
			continue
		}
		failures = 0
		if n > 0 {
			continue
		}
		select {
		case <-in.arrived:
		case <-ctx.Done():
		}
	}
	return nil
}

func (in *intake) some(ctx context.Context) (int, error) {
	batch, err := store.All(ctx, in.db, func(row store.Row) (u stored, err error) {
		err = row.Scan(&u.seq, (*[]byte)(&u.raw))
		return u, err
	}, `SELECT seq, raw FROM updates WHERE bot = ? AND state = 'new' ORDER BY seq LIMIT 100`, in.bot)
	if err != nil {
		return 0, err
	}
	for _, u := range batch {
		if err := in.one(context.WithoutCancel(ctx), u); err != nil {
			return 0, err
		}
	}
	return len(batch), nil
}

// one takes one update in. All that follows from it is one transaction.
func (in *intake) one(ctx context.Context, u stored) error {
	h, err := in.readSafely(u.raw)
	if err != nil {
		in.log.Error().Err(err).Int64("update", u.seq).Msg("update not understood; kept as it is")
		return in.settle(ctx, in.db, u.seq, "unreadable", err.Error())
	}
	err = store.InTx(ctx, in.db, func(tx *sql.Tx) error {
		reason, err := in.takeIn(ctx, tx, &h)
		if err != nil {
			return err
		}
		state := "done"
		if reason != "" {
			state = "skipped"
		}
		return in.settle(ctx, tx, u.seq, state, reason)
	})
	if err != nil {
		return err
	}
	in.crash("taken in")
	in.surface.Wake()
	in.out.telegram.Wake()
	return nil
}

// readSafely is read, with a panic turned into an error.
func (in *intake) readSafely(raw json.RawMessage) (h happening, err error) {
	defer func() {
		if p := recover(); p != nil {
			in.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg("reading an update panicked")
			err = fmt.Errorf("the program failed on this update: %v", p)
		}
	}()
	return read(raw, &in.me)
}

func (in *intake) settle(ctx context.Context, q store.Querier, seq int64, state, reason string) error {
	return store.Exec(ctx, q, `UPDATE updates SET state = ?, reason = ? WHERE seq = ?`, state, reason, seq)
}

// takeIn does what follows from a happening. It returns why no agent hears of
// it, or "" if they do.
func (in *intake) takeIn(ctx context.Context, tx *sql.Tx, h *happening) (string, error) {
	if h.migrateTo != 0 || h.migrateFrom != 0 {
		return "the group moved", in.migrate(ctx, tx, h)
	}
	admitted, err := in.admits(ctx, tx, h)
	if err != nil {
		return "", err
	}
	if !admitted {
		return in.turnAway(ctx, tx, h)
	}
	c, err := in.meet(ctx, tx, &h.chat)
	if err != nil {
		return "", err
	}
	if err := in.notePerson(ctx, tx, h); err != nil {
		return "", err
	}
	if reason, err := in.notePresence(ctx, tx, c, h); err != nil || reason != "" {
		return reason, err
	}
	if h.callback != "" {
		if err := in.out.answerCallback(ctx, tx, c, h); err != nil {
			return "", err
		}
	}
	if h.command != "" {
		return "the command " + h.command, in.obey(ctx, tx, c, h)
	}
	switch {
	case h.skip != "":
		return h.skip, nil
	case c.stopped:
		return "the chat is stopped", in.remindStopped(ctx, tx, c)
	}
	return "", in.storeEvent(ctx, tx, c, h)
}

// notePerson stores who has which username, so that people are told from agents and
// roles.
func (in *intake) notePerson(ctx context.Context, tx *sql.Tx, h *happening) error {
	if h.author.Username == "" {
		return nil
	}
	return store.Exec(ctx, tx, `INSERT OR REPLACE INTO people (bot, username, user) VALUES (?, lower(?), ?)`, in.bot, h.author.Username, h.user)
}

// notePresence records that the bot joined or left a chat.
func (in *intake) notePresence(ctx context.Context, tx *sql.Tx, c *chat, h *happening) (string, error) {
	switch {
	case h.present == presenceOut && c.present:
		return "", in.setPresent(ctx, tx, c, false)
	case h.present == presenceIn && !c.present, h.present == presenceSame && !c.present && h.message != 0:
		return "", in.setPresent(ctx, tx, c, true) // whoever gets messages is in
	case h.present == presenceOut:
		return "the bot had left already", nil
	}
	return "", nil
}

// storeEvent stores a happening as an event and passes it to the surface.
func (in *intake) storeEvent(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	if !c.present {
		if at, err := in.surface.Standing(ctx, tx, peerOf(c.key)); err != nil || at.State != surface.Assigned {
			return err // there is no agent to tell that the bot was removed
		}
	}
	refs, err := in.files.refer(ctx, tx, h.files)
	if err != nil {
		return err
	}
	h.draft.Content.Attachments = refs
	h.draft.Content.Author = &h.author
	h.draft.Content.Chat.ID = id(c.key)
	if h.album != "" {
		joined, err := in.joinAlbum(ctx, tx, h)
		if err != nil || joined {
			return err
		}
	}
	raw, err := json.Marshal(h.draft)
	if err != nil {
		return err
	}
	var ready time.Time
	if h.album != "" {
		ready = time.Now().Add(in.opts.AlbumWait)
	}
	source := in.sourceID(h.chat.ID, h.message) + h.suffix
	event, _, err := store.One(ctx, tx, store.Column[int64], `INSERT INTO events
		(bot, chat, telegram_chat, message, thread, source_id, album, draft, bus_id, received_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		in.bot, c.key, h.chat.ID, h.message, h.thread, source, h.album, string(raw), string(protocol.NewMessageID()), now())
	if err != nil {
		return err
	}
	return in.surface.Pass(ctx, tx, &surface.Event{ID: event, Chat: peerOf(c.key), Source: source}, ready)
}

// joinAlbum adds a picture to the album that it belongs to while that still waits
// for more, and reports whether it did.
func (in *intake) joinAlbum(ctx context.Context, tx *sql.Tx, h *happening) (bool, error) {
	var event, received int64
	var raw string
	err := tx.QueryRowContext(ctx, `SELECT id, draft, received_at FROM events WHERE bot = ? AND telegram_chat = ? AND album = ?
		ORDER BY id DESC LIMIT 1`, in.bot, h.chat.ID, h.album).Scan(&event, &raw, &received)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading an album: %w", err)
	}
	ready := min(time.Now().Add(in.opts.AlbumWait).UnixMicro(), received+albumCap.Microseconds())
	if grows, err := in.surface.Postpone(ctx, tx, event, at(ready)); err != nil || !grows {
		return false, err
	}
	var d draft
	if err := json.Unmarshal([]byte(raw), &d); err != nil {
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
	return true, store.Exec(ctx, tx, `UPDATE events SET draft = ? WHERE id = ?`, string(changed), event)
}

// migrate makes the new id of a group an alias of the one it was known by.
func (in *intake) migrate(ctx context.Context, tx *sql.Tx, h *happening) error {
	from, to := h.chat.ID, h.migrateTo
	if h.migrateFrom != 0 {
		from, to = h.migrateFrom, h.chat.ID
	}
	return in.move(ctx, tx, from, to)
}
