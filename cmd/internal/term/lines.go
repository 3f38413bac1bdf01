package term

import (
	"bufio"
	"context"
	"io"
)

// ReadLines returns the lines of r. Its goroutine may outlive ctx, because a read from a terminal
// cannot be interrupted. It ends with the process.
func ReadLines(ctx context.Context, r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(r)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}
