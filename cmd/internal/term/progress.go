package term

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A Progress is a line on a terminal that says how far something has come, each second from
// the first one on. Nil says nothing. What takes less than a second is not told of.
type Progress struct {
	count atomic.Int64
	end   sync.Once
	stop  chan struct{}
	ended chan struct{} // closed when nothing is written any more
}

// Begin says on a terminal what goes on until End, and how many units of it were done.
func Begin(terminal io.Writer, what, unit string) *Progress {
	p := &Progress{stop: make(chan struct{}), ended: make(chan struct{})}
	go p.tell(terminal, what, unit)
	return p
}

func (p *Progress) tell(terminal io.Writer, what, unit string) {
	defer close(p.ended)
	const wipe = "\r\x1b[K"
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for seconds := 1; ; seconds++ {
		select {
		case <-p.stop:
			if seconds > 1 {
				fmt.Fprint(terminal, wipe) //nolint:errcheck // nobody looks
			}
			return
		case <-ticker.C:
			line := fmt.Sprintf("%s: %d s", what, seconds)
			if n := p.count.Load(); n > 0 {
				line = fmt.Sprintf("%s: %d %s, %d s", what, n, unit, seconds)
			}
			fmt.Fprint(terminal, wipe, line) //nolint:errcheck // nobody looks
		}
	}
}

// Add counts units that were done.
func (p *Progress) Add(n int) {
	if p != nil {
		p.count.Add(int64(n))
	}
}

// End takes the line away. It must be called, before anything else is written.
func (p *Progress) End() {
	if p != nil {
		p.end.Do(func() { close(p.stop) })
		<-p.ended
	}
}
