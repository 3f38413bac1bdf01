package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// conclude prints how to read it all again, if the folder stays.
func (s *show) conclude(stays, kept bool) {
	if !stays && !kept {
		return
	}
	where := "Read it again:"
	commands := []string{"stats", "tail"}
	if stays {
		where = "Look at it from another terminal:"
		commands = append(commands, "peers --bus "+s.plan.bus)
	}
	fmt.Fprintf(s.env.Stdout, "\nAll of it is in the activity log. %s\n\n", where)
	for _, c := range commands {
		fmt.Fprintf(s.env.Stdout, "  hubbub %s --data %s\n", c, s.data)
	}
}

// typing takes lines from the terminal until its end.
func (s *show) typing(ctx context.Context, stdin *os.File) error {
	return eachTyped(ctx, stdin, func(text string, group bool) error {
		chat := s.stage.API.DM(s.stage.You)
		if group {
			chat = s.stage.Group
		}
		s.stage.Say(chat, s.stage.You, text)
		return nil
	})
}

// eachTyped calls say with each line that is typed and not empty, until their end
// or that of ctx; "/group TEXT" is for the group.
func eachTyped(ctx context.Context, stdin *os.File, say func(text string, group bool) error) error {
	lines := readLines(ctx, stdin)
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

// readLines reads lines until the end of f. Its goroutine may outlive ctx: a
// read from a terminal cannot be interrupted. It ends with the process.
func readLines(ctx context.Context, f *os.File) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(f)
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
