package demo

import (
	"context"
	"io"
	"strings"

	"hubbub/cmd/internal/term"
)

// ForEachLine calls say for each line of stdin that is not blank, until the input or ctx ends. A
// line "/group TEXT" is for the group.
func ForEachLine(ctx context.Context, stdin io.Reader, say func(text string, group bool) error) error {
	lines := term.ReadLines(ctx, stdin)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			text, group := strings.CutPrefix(line, "/group ")
			if strings.TrimSpace(text) == "" {
				continue
			}
			if err := say(text, group); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
