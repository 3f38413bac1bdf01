package jsonrpc

import "strconv"

// Calls is a table of requests that wait for their answers. Ids count up from 1. The owner must
// guard the table with a lock. The zero value is an empty table.
type Calls[T any] struct {
	last    uint64
	waiting map[uint64]T
}

// Add adds a request and returns its id.
func (c *Calls[T]) Add(call T) uint64 {
	if c.waiting == nil {
		c.waiting = make(map[uint64]T)
	}
	c.last++
	c.waiting[c.last] = call
	return c.last
}

// Take removes and returns the request with that id. It returns false for an answer that is late,
// repeated or unexpected.
func (c *Calls[T]) Take(id uint64) (T, bool) {
	call, ok := c.waiting[id]
	if ok {
		delete(c.waiting, id)
	}
	return call, ok
}

// Has reports whether the request with that id waits.
func (c *Calls[T]) Has(id uint64) bool {
	_, ok := c.waiting[id]
	return ok
}

// Len returns the number of waiting requests.
func (c *Calls[T]) Len() int { return len(c.waiting) }

// TakeAll empties the table and returns its requests.
func (c *Calls[T]) TakeAll() map[uint64]T {
	all := c.waiting
	c.waiting = nil
	return all
}

// All yields the waiting requests, in no particular order.
func (c *Calls[T]) All(yield func(uint64, T) bool) {
	for id, call := range c.waiting {
		if !yield(id, call) {
			return
		}
	}
}

// ParseCallID parses an id made by Add, from an answer.
func ParseCallID(id ID) (uint64, bool) {
	if len(id) == 0 || id[0] < '1' || id[0] > '9' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(id), 10, 64)
	return n, err == nil
}
