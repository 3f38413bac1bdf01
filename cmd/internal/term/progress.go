package term

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A Progress shows on a terminal how far an operation has progressed. It updates every second and
// shows nothing in the first second. A nil Progress shows nothing.
type Progress struct {
	count atomic.Int64
	end   sync.Once
	stop  chan struct{}
	ended chan struct{} // closed after the last write
}

// Begin shows the progress of what until End. unit names what Add counts.
func Begin(terminal io.Writer, what, unit string) *Progress {
	p := &Progress{stop: make(chan struct{}), ended: make(chan struct{})}
	go p.run(terminal, what, unit)
	return p
}

func (p *Progress) run(terminal io.Writer, what, unit string) {
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

// Add counts finished units.
func (p *Progress) Add(n int) {
	if p != nil {
		p.count.Add(int64(n))
	}
}

// End removes the progress line. It must be called before anything else is written.
func (p *Progress) End() {
	if p != nil {
		p.end.Do(func() { close(p.stop) })
		<-p.ended
	}
}
