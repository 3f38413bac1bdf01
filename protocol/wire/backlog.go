package wire

import "sync/atomic"

// A Backlog counts the bytes that wait for slow peers in all streams that share it. Its methods
// may be called from any goroutine. A nil Backlog counts nothing.
type Backlog struct {
	Max   int64 // above it, slow streams stop reading until their bytes are sent; 0 means no limit
	bytes atomic.Int64
}

// Add adds or subtracts bytes.
func (b *Backlog) Add(n int) {
	if b != nil && n != 0 {
		b.bytes.Add(int64(n))
	}
}

// Bytes returns the number of waiting bytes.
func (b *Backlog) Bytes() int64 {
	if b == nil {
		return 0
	}
	return b.bytes.Load()
}

// Full reports whether the given number of further bytes would exceed the limit.
func (b *Backlog) Full(more int) bool {
	return b != nil && b.Max > 0 && b.bytes.Load()+int64(more) > b.Max
}
