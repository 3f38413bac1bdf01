package demo

import (
	"context"
	"sync"

	"hubbub/protocol/notify"
)

// maxLines bounds the feed. It drops older lines.
const maxLines = 10_000

// A feed has the visible lines of all chats, in order.
type feed struct {
	mu      sync.Mutex
	lines   []Line // at most maxLines
	last    int    // number of the newest line
	changed notify.Broadcast
}

// add appends a line and numbers it.
func (f *feed) add(l Line) Line {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	l.N = f.last
	f.lines = append(f.lines, l)
	if len(f.lines) > maxLines {
		f.lines = append([]Line(nil), f.lines[len(f.lines)-maxLines:]...)
	}
	f.changed.Notify()
	return l
}

// after returns the lines after number n, and a channel that is closed when there are more.
func (f *feed) after(n int) ([]Line, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := len(f.lines) - (f.last - n)
	if from = max(from, 0); from >= len(f.lines) {
		return nil, f.changed.C()
	}
	return append([]Line(nil), f.lines[from:]...), f.changed.C()
}

// newest returns the number of the newest line.
func (f *feed) newest() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// wait waits until there are lines after number n, or until ctx ends.
func (f *feed) wait(ctx context.Context, n int) ([]Line, error) {
	for {
		lines, more := f.after(n)
		if len(lines) > 0 {
			return lines, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
