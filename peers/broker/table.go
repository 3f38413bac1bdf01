package broker

import (
	"encoding/json"
	"slices"

	"hubbub/peers/store"
)

// A table holds the entities of one kind by id: all in the database, and the open ones also in
// memory. Without a database, as in tests, all are in memory.
type table[T any] struct {
	kind   string
	tables *tables
	cache  map[string]cachedEntity[T]
	order  []string // of the ids, without a database
	dirty  []string // ids to be written, in order
}

// A cachedEntity is an entity in memory.
type cachedEntity[T any] struct {
	Value T
	Ref   string // by which lists find it
	Open  bool   // stays in memory; a closed entity may leave the database with its events
	Seq   int64  // of its last event
}

// tables are the tables of one state, with the transaction through which they read.
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

// put stores an entity after event seq.
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

// get returns an entity, or its zero value if there is none.
func (s *table[T]) get(id string) T {
	v, _ := s.find(id)
	return v
}

// find returns an entity, and whether it exists.
func (s *table[T]) find(id string) (v T, found bool) {
	if h, ok := s.cache[id]; ok {
		return h.Value, true
	}
	if s.tables == nil || id == "" {
		return v, false
	}
	stored, found := store.One(s.tables.tx, entityColumns,
		`SELECT id, ref, open, seq, body FROM entities WHERE kind = ? AND id = ?`, s.kind, id)
	if found {
		v = s.decode(stored)
	}
	return v, found
}

// An entityRow is a stored entity.
type entityRow struct {
	id, ref string
	open    bool
	seq     int64
	body    []byte
}

func entityColumns(r *entityRow) []any { return []any{&r.id, &r.ref, &r.open, &r.seq, &r.body} }

// decode decodes a stored entity, and caches it if it is open.
func (s *table[T]) decode(r entityRow) (v T) {
	s.tables.tx.Fail(json.Unmarshal(r.body, &v))
	if r.open && s.tables.tx.Err() == nil {
		s.cache[r.id] = cachedEntity[T]{v, r.ref, true, r.seq}
	}
	return v
}

// list returns at most limit entities in the order of creation: those with the ref, or all if it
// is empty, after the entity with the id in after.
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
	for _, raw := range store.All(s.tables.tx, store.Scalar[[]byte],
		`SELECT body FROM entities WHERE kind = ?1 AND (?2 = '' OR ref = ?2)
		AND n > coalesce((SELECT n FROM entities WHERE kind = ?1 AND id = ?3), 0) ORDER BY n LIMIT ?4`,
		s.kind, ref, after, limit) {
		var v T
		s.tables.tx.Fail(json.Unmarshal(raw, &v))
		list = append(list, v)
	}
	return list
}

// openIDs returns the ids of the open entities, sorted.
func (s *table[T]) openIDs() (ids []string) {
	for id, h := range s.cache {
		if h.Open {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// flush writes the changes in one statement.
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

// evict drops closed entities from memory. They must be written.
func (s *table[T]) evict() {
	for id, h := range s.cache {
		if !h.Open {
			delete(s.cache, id)
		}
	}
}

// loadOpen caches the open entities, and returns them in order.
func (s *table[T]) loadOpen() (list []T) {
	for _, r := range store.All(s.tables.tx, entityColumns,
		`SELECT id, ref, open, seq, body FROM entities WHERE kind = ? AND open = 1 ORDER BY n`, s.kind) {
		list = append(list, s.decode(r))
	}
	return list
}

// flush writes the changes of all tables.
func (s *tables) flush() {
	for _, one := range s.tables {
		one.flush()
	}
}

// evict drops closed entities of all tables from memory.
func (s *tables) evict() {
	for _, one := range s.tables {
		one.evict()
	}
}
