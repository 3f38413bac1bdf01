package broker

import (
	"encoding/json"
	"slices"

	"hubbub/peers/store"
)

// A table holds the things of one kind by their ids as they are now: all of them in the
// database, and in memory those that are open, about which something may fall due. Without
// a database, as in tests, all are in memory.
type table[T any] struct {
	kind   string
	tables *tables
	cache  map[string]cachedEntity[T]
	order  []string // of the ids, while there is no database
	dirty  []string // not written yet, in the order in which they came
}

// A cachedEntity thing is in memory.
type cachedEntity[T any] struct {
	Value T
	Ref   string // what lists find it by
	Open  bool   // it stays in memory; what is not open may leave the database with its events
	Seq   int64  // of the event that made it what it is
}

// tables are those of one state, and the transaction through which they read.
type tables struct {
	tx     *store.Tx
	tables []interface {
		flush()
		evict()
	}
}

func newTable[T any](kind string, from *tables) *table[T] {
	s := &table[T]{kind: kind, tables: from, cache: map[string]cachedEntity[T]{}}
	if from != nil {
		from.tables = append(from.tables, s)
	}
	return s
}

// put stores a thing as event seq left it.
func (s *table[T]) put(id string, v T, ref string, open bool, seq int64) {
	_, known := s.cache[id]
	if !known && s.tables == nil {
		s.order = append(s.order, id)
	}
	s.cache[id] = cachedEntity[T]{v, ref, open, seq}
	if s.tables != nil && (!known || !slices.Contains(s.dirty, id)) {
		s.dirty = append(s.dirty, id)
	}
}

// get returns a thing, or its zero value if there is none.
func (s *table[T]) get(id string) T {
	v, _ := s.find(id)
	return v
}

// find returns a thing, and whether there is one.
func (s *table[T]) find(id string) (v T, found bool) {
	if h, ok := s.cache[id]; ok {
		return h.Value, true
	}
	if s.tables == nil || id == "" {
		return v, false
	}
	stored, found := store.One(s.tables.tx, entityColumns, `SELECT id, ref, open, seq, body FROM entities WHERE kind = ? AND id = ?`, s.kind, id)
	if found {
		v = s.decode(stored)
	}
	return v, found
}

// A entityRow is a thing as it is stored.
type entityRow struct {
	id, ref string
	open    bool
	seq     int64
	body    []byte
}

func entityColumns(r *entityRow) []any { return []any{&r.id, &r.ref, &r.open, &r.seq, &r.body} }

// decode reads a stored thing, and brings it into memory if it is open.
func (s *table[T]) decode(r entityRow) (v T) {
	s.tables.tx.Fail(json.Unmarshal(r.body, &v))
	if r.open && s.tables.tx.Err() == nil {
		s.cache[r.id] = cachedEntity[T]{v, r.ref, true, r.seq}
	}
	return v
}

// list returns at most limit things in the order in which they came, after one of them if
// after is not empty: those that have the ref, or all if it is empty.
func (s *table[T]) list(ref, after string, limit int) (list []T) {
	if s.tables == nil {
		for _, id := range s.order[slices.Index(s.order, after)+1:] {
			if h := s.cache[id]; (ref == "" || h.Ref == ref) && len(list) < limit {
				list = append(list, h.Value)
			}
		}
		return list
	}
	s.flush()
	for _, raw := range store.All(s.tables.tx, store.Scalar[[]byte], `SELECT body FROM entities WHERE kind = ?1 AND (?2 = '' OR ref = ?2)
		AND n > coalesce((SELECT n FROM entities WHERE kind = ?1 AND id = ?3), 0) ORDER BY n LIMIT ?4`, s.kind, ref, after, limit) {
		var v T
		s.tables.tx.Fail(json.Unmarshal(raw, &v))
		list = append(list, v)
	}
	return list
}

// openIDs returns the ids of the things that are open, sorted.
func (s *table[T]) openIDs() (ids []string) {
	for id, h := range s.cache {
		if h.Open {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// flush writes what has changed, in one statement.
func (s *table[T]) flush() {
	if len(s.dirty) == 0 {
		return
	}
	rows := make([][5]any, 0, len(s.dirty))
	for _, id := range s.dirty {
		h := s.cache[id]
		raw, err := json.Marshal(h.Value)
		s.tables.tx.Fail(err)
		rows = append(rows, [5]any{id, h.Ref, h.Open, h.Seq, string(raw)})
	}
	list, err := json.Marshal(rows)
	s.tables.tx.Fail(err)
	s.tables.tx.Exec(`INSERT INTO entities (kind, id, ref, open, seq, body)
		SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?2) WHERE true
		ON CONFLICT (kind, id) DO UPDATE SET ref = excluded.ref, open = excluded.open, seq = excluded.seq, body = excluded.body`,
		s.kind, string(list))
	s.dirty = s.dirty[:0]
}

// evict drops from memory what is written and not open.
func (s *table[T]) evict() {
	for id, h := range s.cache {
		if !h.Open {
			delete(s.cache, id)
		}
	}
}

// loadOpen brings what is open into memory, and returns it in order.
func (s *table[T]) loadOpen() (list []T) {
	for _, r := range store.All(s.tables.tx, entityColumns, `SELECT id, ref, open, seq, body FROM entities WHERE kind = ? AND open = 1 ORDER BY n`, s.kind) {
		list = append(list, s.decode(r))
	}
	return list
}

// flush writes what has changed on all shelves.
func (s *tables) flush() {
	for _, one := range s.tables {
		one.flush()
	}
}

// evict drops from memory what need not be there.
func (s *tables) evict() {
	for _, one := range s.tables {
		one.evict()
	}
}
