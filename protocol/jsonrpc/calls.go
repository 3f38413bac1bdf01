package jsonrpc

import "strconv"

// Calls is the table of requests that wait for their answers. Ids count up
// from 1. It has no lock of its own: its owner guards it. The zero value is
// ready.
type Calls[T any] struct {
	last    uint64
	waiting map[uint64]T
}

// Add enters a request and returns its id.
func (c *Calls[T]) Add(call T) uint64 {
	if c.waiting == nil {
		c.waiting = make(map[uint64]T)
	}
	c.last++
	c.waiting[c.last] = call
	return c.last
}

// Take removes the request with that id. It reports false where nobody waits:
// the answer came late, twice or unasked.
func (c *Calls[T]) Take(id uint64) (T, bool) {
	call, ok := c.waiting[id]
	if ok {
		delete(c.waiting, id)
	}
	return call, ok
}

// Len returns how many requests wait.
func (c *Calls[T]) Len() int { return len(c.waiting) }

// TakeAll empties the table.
func (c *Calls[T]) TakeAll() map[uint64]T {
	all := c.waiting
	c.waiting = nil
	return all
}

// All yields the waiting requests in no order.
func (c *Calls[T]) All(yield func(uint64, T) bool) {
	for id, call := range c.waiting {
		if !yield(id, call) {
			return
		}
	}
}

// ParseCallID reads an id that Add made back from an answer.
func ParseCallID(id ID) (uint64, bool) {
	if len(id) == 0 || id[0] < '1' || id[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(id), 10, 64)
	return n, err == nil
}
