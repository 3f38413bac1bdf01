package harness

import (
	"slices"
	"sync"
)

// A Recent is a map of bounded size: the entry that was put longest ago goes when it
// is full. Its methods may be called from any goroutine.
type Recent[K comparable, V any] struct {
	limit  int
	mu     sync.Mutex
	values map[K]V
	order  []K // of the last Put, the oldest first
}

// NewRecent makes a map of at most limit entries.
func NewRecent[K comparable, V any](limit int) *Recent[K, V] {
	return &Recent[K, V]{limit: limit, values: map[K]V{}}
}

// Put sets a value, which is then the youngest.
func (r *Recent[K, V]) Put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removeLocked(key)
	r.values[key], r.order = value, append(r.order, key)
	if len(r.order) > r.limit {
		r.removeLocked(r.order[0])
	}
}

// Get returns a value, if it is there.
func (r *Recent[K, V]) Get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.values[key]
	return value, ok
}

// Take returns a value and forgets it.
func (r *Recent[K, V]) Take(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, ok := r.values[key]
	r.removeLocked(key)
	return value, ok
}

func (r *Recent[K, V]) removeLocked(key K) {
	if _, known := r.values[key]; known {
		delete(r.values, key)
		r.order = slices.DeleteFunc(r.order, func(k K) bool { return k == key })
	}
}
