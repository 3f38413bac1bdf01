package proc

import "bytes"

// A LineWriter calls OnLine for each non-empty line written to it, without the line end. It is
// for one goroutine.
type LineWriter struct {
	Max    int                         // bytes at which a line is cut; default 64 KiB
	OnLine func(line []byte, cut bool) // must not retain the line

	rest []byte // the line whose end has not been written yet
	cut  bool
}

// Write accepts any part of the text.
func (l *LineWriter) Write(b []byte) (int, error) {
	n := len(b)
	limit := l.Max
	if limit <= 0 {
		limit = 64 << 10
	}
	for {
		head, tail, found := bytes.Cut(b, []byte("\n"))
		room := min(len(head), limit-len(l.rest))
		l.rest = append(l.rest, head[:room]...)
		l.cut = l.cut || room < len(head)
		if !found {
			return n, nil
		}
		l.Flush()
		b = tail
	}
}

// Flush passes on the last line if it had no line end.
func (l *LineWriter) Flush() {
	if line := bytes.TrimRight(l.rest, "\r"); len(line) > 0 {
		l.OnLine(line, l.cut)
	}
	l.rest, l.cut = l.rest[:0], false
}
