package turnloop

import (
	"container/list"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/peers/store"
)

// A History keeps what a model remembers, one document for each conversation.
type History interface {
	// Load returns the document of a conversation, nil where there is none.
	Load(ctx context.Context, conversation string) ([]byte, error)
	// Save replaces the document of a conversation.
	Save(ctx context.Context, conversation string, document []byte) error
}

// NewMemoryHistory keeps the last n conversations in memory.
func NewMemoryHistory(n int) History {
	return &memoryHistory{limit: n, order: list.New(), entries: map[string]*list.Element{}}
}

type memoryHistory struct {
	limit   int
	mu      sync.Mutex
	order   *list.List // of memoryEntry, most recently saved first
	entries map[string]*list.Element
}

type memoryEntry struct {
	conversation string
	document     []byte
}

func (h *memoryHistory) Load(_ context.Context, conversation string) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.entries[conversation]; ok {
		return e.Value.(memoryEntry).document, nil
	}
	return nil, nil
}

func (h *memoryHistory) Save(_ context.Context, conversation string, document []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e, ok := h.entries[conversation]; ok {
		h.order.Remove(e)
	}
	h.entries[conversation] = h.order.PushFront(memoryEntry{conversation, document})
	for h.order.Len() > h.limit {
		oldest := h.order.Back()
		delete(h.entries, h.order.Remove(oldest).(memoryEntry).conversation)
	}
	return nil
}

const historySchema = `CREATE TABLE history (
	conversation TEXT PRIMARY KEY,
	document     BLOB NOT NULL,
	saved_at     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX history_saved ON history (saved_at);`

// A FileHistory keeps the last n conversations in a SQLite database.
type FileHistory struct {
	db    *sql.DB
	limit int
}

// OpenHistory opens or creates the database at path. Close it when done.
func OpenHistory(path string, n int) (*FileHistory, error) {
	db, err := store.Open(path, []string{historySchema})
	if err != nil {
		return nil, err
	}
	return &FileHistory{db: db, limit: n}, nil
}

// Close closes the database.
func (h *FileHistory) Close() error { return h.db.Close() }

// Load returns the document of a conversation, nil where there is none.
func (h *FileHistory) Load(ctx context.Context, conversation string) ([]byte, error) {
	var document []byte
	err := h.db.QueryRowContext(ctx, "SELECT document FROM history WHERE conversation = ?", conversation).Scan(&document)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return document, err
}

// Save replaces the document of a conversation and forgets the oldest beyond
// the limit.
func (h *FileHistory) Save(ctx context.Context, conversation string, document []byte) error {
	tx, err := h.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO history VALUES (?, ?, ?)", conversation, document, time.Now().UnixNano()); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM history WHERE conversation IN (SELECT conversation FROM history ORDER BY saved_at DESC LIMIT -1 OFFSET ?)", h.limit); err != nil {
		return err
	}
	return tx.Commit()
}

// remembered is the document: past turns, oldest first, each with its messages.
type remembered struct {
	Turns [][]Message `json:"turns"`
}

// recall reads a conversation's past. A document that cannot be read is a past
// forgotten, not a turn failed.
func (l *Loop) recall(ctx context.Context, conversation string) remembered {
	var past remembered
	document, err := l.opts.History.Load(ctx, conversation)
	if err == nil && document != nil {
		err = json.Unmarshal(document, &past)
	}
	if err != nil {
		l.opts.Log.Warn().Err(err).Str("conversation", conversation).Msg("the model forgets this conversation: its history cannot be read")
		return remembered{}
	}
	return past
}

// remember adds a turn to a conversation's past and keeps it within bounds.
func (l *Loop) remember(ctx context.Context, conversation string, past remembered, turn []Message) {
	past.Turns = append(past.Turns, shorten(turn))
	document, err := trim(&past, l.opts.HistoryTurns, l.opts.HistoryBytes)
	if err == nil {
		// The turn is over: its end must not lose what was said in it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = l.opts.History.Save(ctx, conversation, document)
	}
	if err != nil {
		l.opts.Log.Warn().Err(err).Str("conversation", conversation).Msg("the model will forget this turn: its history cannot be saved")
	}
}

// shorten returns a turn's messages as they are remembered: tool results cut.
func shorten(turn []Message) []Message {
	short := make([]Message, len(turn))
	for i, m := range turn {
		results := make([]CallResult, len(m.Results))
		for j, r := range m.Results {
			r.Text = cut(r.Text, 2<<10)
			results[j] = r
		}
		if len(results) > 0 {
			m.Results = results
		}
		short[i] = m
	}
	return short
}

// trim forgets the oldest turns until the past fits, and returns its document.
func trim(past *remembered, turns, size int) ([]byte, error) {
	if over := len(past.Turns) - turns; over > 0 {
		past.Turns = past.Turns[over:]
	}
	for {
		document, err := json.Marshal(past)
		if err != nil {
			return nil, fmt.Errorf("writing the history: %w", err)
		}
		if len(document) <= size || len(past.Turns) == 0 {
			return document, nil
		}
		past.Turns = past.Turns[1:]
	}
}
