package tg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// An albumItem is what one message of an album says and brings.
type albumItem struct {
	Message int                   `json:"message"`
	Text    string                `json:"text,omitempty"`
	Names   []string              `json:"names,omitempty"`
	Files   []protocol.Attachment `json:"files,omitempty"`
}

// item returns what a draft has as the only message of its album so far.
func (d *draft) item(message int) albumItem {
	return albumItem{Message: message, Text: d.Content.Text, Names: d.Names, Files: d.Content.Attachments}
}

// gather has a draft say what the messages of an album say together. A caption alone is that of
// all; of several each names its file.
func (d *draft) gather(items []albumItem) {
	d.Items, d.Names, d.Content.Attachments = items, nil, nil
	var captions, numbered []string
	for _, it := range items {
		if it.Text != "" {
			captions = append(captions, it.Text)
			numbered = append(numbered, fmt.Sprintf("[file %d] %s", len(d.Content.Attachments)+1, it.Text))
		}
		for _, name := range it.Names {
			d.Names = add(d.Names, name)
		}
		d.Content.Attachments = append(d.Content.Attachments, it.Files...)
	}
	if len(captions) > 1 {
		captions = numbered
	}
	d.Content.Text = strings.Join(captions, "\n")
}

// An album is the event of several messages that Telegram shows as one.
type album struct {
	event, received int64
	source          string
	draft           draft
}

// albumBefore finds the newest event of an album. It says album <> ” for its index.
const albumBefore = `SELECT id, draft, message, source_id, received_at FROM events WHERE bot = ?1 AND telegram_chat = ?2 AND album = ?3 AND album <> ''
	AND (?5 <> 'edit' OR message = ?4 OR EXISTS (SELECT 1 FROM json_each(draft, '$.items') WHERE value ->> 'message' = ?4))
	ORDER BY id DESC LIMIT 1`

// album returns the newest event of the album that a happening is a part of: one to which a
// message may be added, or one that tells of the message that was edited; else nil.
func (in *intake) album(tx *store.Tx, h *happening) *album {
	var a album
	var first int
	raw, known := store.One(tx, func(raw *[]byte) []any { return []any{&a.event, raw, &first, &a.source, &a.received} },
		albumBefore,
		in.bot, h.chat.ID, h.album, h.message, h.draft.Content.Event)
	if !known {
		return nil
	}
	if err := json.Unmarshal(raw, &a.draft); err != nil {
		tx.Fail(fmt.Errorf("reading an album: %w", err))
	}
	if len(a.draft.Items) == 0 {
		a.draft.Items = []albumItem{a.draft.item(first)}
	}
	return &a
}

// joinAlbum gives the event of an album what one more of its messages says, or what an edited
// one says now, while it still waits, and reports whether it did. Later, an edit is one of the
// whole album, whose sourceId it returns.
func (in *intake) joinAlbum(tx *store.Tx, h *happening) (whole string, joined bool) {
	a := in.album(tx, h)
	if a == nil {
		return "", false
	}
	items, own := a.draft.Items, h.draft.item(h.message)
	if i := slices.IndexFunc(items, func(it albumItem) bool { return it.Message == h.message }); i >= 0 {
		items[i] = own
	} else {
		items = append(items, own)
	}
	ready := min(time.Now().Add(in.opts.AlbumWait).UnixMicro(), a.received+albumCap.Microseconds())
	if in.router.Postpone(tx, a.event, at(ready)) {
		a.draft.gather(items)
		tx.Exec(`UPDATE events SET draft = ? WHERE id = ?`, string(encode(a.draft)), a.event)
		return "", true
	}
	if h.draft.Content.Event != protocol.EventEdit {
		return "", false
	}
	h.draft.gather(items)
	return a.source, false
}
