package broker

import (
	"encoding/json"
	"slices"

	"hubbub/peers/store"
)

// A shelf holds the things of one kind by their ids as they are now: all of them in the
// database, and in memory those that are open, about which something may fall due. Without
// a database, as in tests, all are in memory.
type shelf[T any] struct {
	kind  string
	from  *shelves
	held  map[string]held[T]
	order []string // of the ids, while there is no database
	dirty []string // not written yet, in the order in which they came
}

// A held thing is in memory.
type held[T any] struct {
	Value T
	Ref   string // what lists find it by
	Open  bool   // it stays in memory; what is not open may leave the database with its events
	Seq   int64  // of the event that made it what it is
}

// shelves are those of one state, and the transaction through which they read.
type shelves struct {
	tx  *store.Tx
	all []interface {
		write()
		forget()
	}
}

func newShelf[T any](kind string, from *shelves) *shelf[T] {
	s := &shelf[T]{kind: kind, from: from, held: map[string]held[T]{}}
	if from != nil {
		from.all = append(from.all, s)
	}
	return s
}

// put stores a thing as event seq left it.
func (s *shelf[T]) put(id string, v T, ref string, open bool, seq int64) {
	_, known := s.held[id]
	if !known && s.from == nil {
		s.order = append(s.order, id)
	}
	s.held[id] = held[T]{v, ref, open, seq}
	if s.from != nil && (!known || !slices.Contains(s.dirty, id)) {
		s.dirty = append(s.dirty, id)
	}
}

// get returns a thing, or its zero value if there is none.
func (s *shelf[T]) get(id string) T {
	v, _ := s.find(id)
	return v
}

// find returns a thing, and whether there is one.
func (s *shelf[T]) find(id string) (v T, found bool) {
	if h, ok := s.held[id]; ok {
		return h.Value, true
	}
	if s.from == nil || id == "" {
		return v, false
	}
	stored, found := store.One(s.from.tx, rowOf, `SELECT id, ref, open, seq, body FROM entities WHERE kind = ? AND id = ?`, s.kind, id)
	if found {
		v = s.take(stored)
	}
	return v, found
}

// A thingRow is a thing as it is stored.
type thingRow struct {
	id, ref string
	open    bool
	seq     int64
	body    []byte
}

func rowOf(r *thingRow) []any { return []any{&r.id, &r.ref, &r.open, &r.seq, &r.body} }

// take reads a stored thing, and brings it into memory if it is open.
func (s *shelf[T]) take(r thingRow) (v T) {
	s.from.tx.Fail(json.Unmarshal(r.body, &v))
	if r.open && s.from.tx.Err() == nil {
		s.held[r.id] = held[T]{v, r.ref, true, r.seq}
	}
	return v
}

// list returns at most limit things in the order in which they came, after one of them if
// after is not empty: those that have the ref, or all if it is empty.
func (s *shelf[T]) list(ref, after string, limit int) (list []T) {
	if s.from == nil {
		for _, id := range s.order[slices.Index(s.order, after)+1:] {
			if h := s.held[id]; (ref == "" || h.Ref == ref) && len(list) < limit {
				list = append(list, h.Value)
			}
		}
		return list
	}
	s.write()
	for _, raw := range store.All(s.from.tx, store.Scalar[[]byte], `SELECT body FROM entities WHERE kind = ?1 AND (?2 = '' OR ref = ?2)
		AND n > coalesce((SELECT n FROM entities WHERE kind = ?1 AND id = ?3), 0) ORDER BY n LIMIT ?4`, s.kind, ref, after, limit) {
		var v T
		s.from.tx.Fail(json.Unmarshal(raw, &v))
		list = append(list, v)
	}
	return list
}

// open returns the ids of the things that are open, sorted.
func (s *shelf[T]) open() (ids []string) {
	for id, h := range s.held {
		if h.Open {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// write writes what has changed, in one statement.
func (s *shelf[T]) write() {
	if len(s.dirty) == 0 {
		return
	}
	rows := make([][5]any, 0, len(s.dirty))
	for _, id := range s.dirty {
		h := s.held[id]
		raw, err := json.Marshal(h.Value)
		s.from.tx.Fail(err)
		rows = append(rows, [5]any{id, h.Ref, h.Open, h.Seq, string(raw)})
	}
	list, err := json.Marshal(rows)
	s.from.tx.Fail(err)
	s.from.tx.Exec(`INSERT INTO entities (kind, id, ref, open, seq, body)
		SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?2) WHERE true
		ON CONFLICT (kind, id) DO UPDATE SET ref = excluded.ref, open = excluded.open, seq = excluded.seq, body = excluded.body`,
		s.kind, string(list))
	s.dirty = s.dirty[:0]
}

// forget drops from memory what is written and not open.
func (s *shelf[T]) forget() {
	for id, h := range s.held {
		if !h.Open {
			delete(s.held, id)
		}
	}
}

// read brings what is open into memory, and returns it in order.
func (s *shelf[T]) read() (list []T) {
	for _, r := range store.All(s.from.tx, rowOf, `SELECT id, ref, open, seq, body FROM entities WHERE kind = ? AND open = 1 ORDER BY n`, s.kind) {
		list = append(list, s.take(r))
	}
	return list
}

// written writes what has changed on all shelves.
func (s *shelves) written() {
	for _, one := range s.all {
		one.write()
	}
}

// committed drops from memory what need not be there.
func (s *shelves) committed() {
	for _, one := range s.all {
		one.forget()
	}
}
