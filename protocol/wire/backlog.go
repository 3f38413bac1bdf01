package wire

import "sync/atomic"

// A Backlog counts the bytes that wait for slow sides, over all streams that share it. Its
// methods may be called from any goroutine; nil counts nothing.
type Backlog struct {
	Max   int64 // at which streams that are behind read no more, until theirs are taken; 0 is no bound
	bytes atomic.Int64
}

// Add adds bytes, or takes them off.
func (b *Backlog) Add(n int) {
	if b != nil && n != 0 {
		b.bytes.Add(int64(n))
	}
}

// Bytes returns how many wait.
func (b *Backlog) Bytes() int64 {
	if b == nil {
		return 0
	}
	return b.bytes.Load()
}

// Full reports whether so many more would be beyond the bound.
func (b *Backlog) Full(more int) bool {
	return b != nil && b.Max > 0 && b.bytes.Load()+int64(more) > b.Max
}
