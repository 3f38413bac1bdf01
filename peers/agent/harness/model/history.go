package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"hubbub/peers/store"
)

const historySchema = `CREATE TABLE history (
	conversation TEXT PRIMARY KEY,
	document     BLOB NOT NULL,
	saved_at     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX history_saved ON history (saved_at);`

// A History stores what a model remembers of the last n conversations, one document for each, in
// an SQLite database.
type History struct {
	db    *store.DB
	limit int
}

// OpenHistory opens the database at path, creating it if necessary. The caller must close it.
func OpenHistory(path string, n int) (*History, error) {
	db, err := store.Open(path, historySchema)
	if err != nil {
		return nil, err
	}
	return &History{db: db, limit: n}, nil
}

// Close closes the database.
func (h *History) Close() error { return h.db.Close() }

// Load returns the document of a conversation, or nil.
func (h *History) Load(ctx context.Context, conversation string) ([]byte, error) {
	return store.ReadValue[[]byte](ctx, h.db,
		"SELECT document FROM history WHERE conversation = ?", conversation)
}

// Save replaces the document of a conversation and removes the oldest documents beyond the limit.
func (h *History) Save(ctx context.Context, conversation string, document []byte) error {
	return store.InTx(ctx, h.db, func(tx *store.Tx) {
		tx.Exec("INSERT OR REPLACE INTO history VALUES (?, ?, ?)", conversation, document, time.Now().UnixNano())
		tx.Exec(
			"DELETE FROM history WHERE conversation IN (SELECT conversation FROM history ORDER BY saved_at DESC "+
				"LIMIT -1 OFFSET ?)",
			h.limit,
		)
	})
}

// A historyDocument holds the messages of earlier turns, oldest first.
type historyDocument struct {
	Turns [][]message `json:"turns"`
}

// loadHistory reads the history of a conversation. If it cannot be read, it is empty; the turn
// does not fail.
func (h *Harness) loadHistory(ctx context.Context, conversation string) historyDocument {
	var past historyDocument
	if h.opts.History == nil {
		return past
	}
	document, err := h.opts.History.Load(ctx, conversation)
	if err == nil && document != nil {
		err = json.Unmarshal(document, &past)
	}
	if err != nil {
		h.opts.Log.Warn().
			Err(err).
			Str("conversation", conversation).
			Msg("history unreadable; the model forgets this conversation")
		return historyDocument{}
	}
	return past
}

// saveHistory adds a turn to the history of a conversation and limits its size.
func (h *Harness) saveHistory(ctx context.Context, conversation string, past historyDocument, turn []message) {
	if h.opts.History == nil {
		return
	}
	past.Turns = append(past.Turns, shortenResults(turn))
	document, err := trimHistory(&past, h.opts.HistoryTurns, h.opts.HistoryBytes)
	if err == nil {
		// The turn is over; the end of its context must not lose it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = h.opts.History.Save(ctx, conversation, document)
	}
	if err != nil {
		h.opts.Log.Warn().
			Err(err).
			Str("conversation", conversation).
			Msg("history not saved; the model will forget this turn")
	}
}

// shortenResults returns the messages of a turn with shortened tool results.
func shortenResults(turn []message) []message {
	short := make([]message, len(turn))
	for i, m := range turn {
		m.Results = slices.Clone(m.Results)
		for j := range m.Results {
			m.Results[j].Text = truncate(m.Results[j].Text, 2<<10)
		}
		short[i] = m
	}
	return short
}

// trimHistory removes the oldest turns until the history fits, and returns the document as JSON.
func trimHistory(past *historyDocument, turns, size int) ([]byte, error) {
	past.Turns = past.Turns[max(0, len(past.Turns)-turns):]
	for {
		document, err := json.Marshal(past)
		if err != nil {
			return nil, fmt.Errorf("encoding the history: %w", err)
		}
		if len(document) <= size || len(past.Turns) == 0 {
			return document, nil
		}
		past.Turns = past.Turns[1:]
	}
}
