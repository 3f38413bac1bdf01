package harness

import lru "github.com/hashicorp/golang-lru/v2"

// NewCache makes a cache of a positive size. It evicts the least recently used entry, and may be
// used from any goroutine.
func NewCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return cache
}
