package tg

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// An albumItem is the content of one message of an album.
type albumItem struct {
	Message int                   `json:"message"`
	Text    string                `json:"text,omitempty"`
	Names   []string              `json:"names,omitempty"`
	Files   []protocol.Attachment `json:"files,omitempty"`
}

// albumItem returns the event's content as that of a single message of an album.
func (d *eventData) albumItem(message int) albumItem {
	return albumItem{Message: message, Text: d.Content.Text, Names: d.Names, Files: d.Content.Attachments}
}

// mergeItems sets the event's content to that of all messages of an album. A single caption
// applies to the whole album; several captions are numbered by file.
func (d *eventData) mergeItems(items []albumItem) {
	d.Items, d.Names, d.Content.Attachments = items, nil, nil
	var captions, numbered []string
	for _, it := range items {
		if it.Text != "" {
			captions = append(captions, it.Text)
			numbered = append(numbered, fmt.Sprintf("[file %d] %s", len(d.Content.Attachments)+1, it.Text))
		}
		for _, name := range it.Names {
			d.Names = bridge.AppendUnique(d.Names, name)
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
	data            eventData
}

// selectAlbum finds the newest event of an album. The condition album <> ” makes SQLite use the
// album's partial index.
const selectAlbum = `SELECT id, data, message, source_id, received_at FROM events WHERE bot = ?1 AND telegram_chat = ?2 AND album = ?3 AND album <> ''
	AND (?5 <> 'edit' OR message = ?4 OR EXISTS (SELECT 1 FROM json_each(data, '$.items') WHERE value ->> 'message' = ?4))
	ORDER BY id DESC LIMIT 1`

// album returns the newest event of the album to which an update belongs, or nil. For an edit, it
// is the event that contains the edited message.
func (in *ingester) album(tx *store.Tx, u *parsedUpdate) *album {
	var a album
	var first int
	raw, known := store.One(tx, func(raw *[]byte) []any { return []any{&a.event, raw, &first, &a.source, &a.received} },
		selectAlbum,
		in.bot, u.chat.ID, u.album, u.message, u.data.Content.Event)
	if !known {
		return nil
	}
	if err := json.Unmarshal(raw, &a.data); err != nil {
		tx.Fail(fmt.Errorf("reading an album: %w", err))
	}
	if len(a.data.Items) == 0 {
		a.data.Items = []albumItem{a.data.albumItem(first)}
	}
	return &a
}

// joinAlbum adds a new or edited message to the event of its album, and reports whether it could:
// the event must still be waiting. An edit that comes later counts as an edit of the whole album;
// joinAlbum then returns the album's sourceId.
func (in *ingester) joinAlbum(tx *store.Tx, u *parsedUpdate) (whole string, joined bool) {
	a := in.album(tx, u)
	if a == nil {
		return "", false
	}
	items, own := a.data.Items, u.data.albumItem(u.message)
	if i := slices.IndexFunc(items, func(it albumItem) bool { return it.Message == u.message }); i >= 0 {
		items[i] = own
	} else {
		items = append(items, own)
	}
	ready := min(time.Now().Add(in.opts.AlbumWait).UnixMicro(), a.received+maxAlbumWait.Microseconds())
	if in.router.Postpone(tx, a.event, timeFromMicros(ready)) {
		a.data.mergeItems(items)
		tx.Exec(`UPDATE events SET data = ? WHERE id = ?`, string(mustJSON(a.data)), a.event)
		return "", true
	}
	if u.data.Content.Event != protocol.EventEdit {
		return "", false
	}
	u.data.mergeItems(items)
	return a.source, false
}

// commandReason begins the reason why no agent receives a command.
const commandReason = "the command "

// followsCommand reports whether a message belongs to an album whose caption was a command. The messages of
// an album, at most 10, arrive together.
func (in *ingester) followsCommand(tx *store.Tx, u *parsedUpdate) bool {
	return store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM updates
		WHERE bot = ?1 AND seq > (SELECT max(seq) FROM updates WHERE state <> 'new') - 100 AND state = 'skipped'
		AND reason LIKE ?2 || '%' AND raw ->> '$.message.media_group_id' = ?3
		AND raw ->> '$.message.chat.id' = ?4)`, in.bot, commandReason, u.album, u.chat.ID)
}
