package main

import (
	"context"
	"errors"

	"hubbub/bus/console"
	"hubbub/cmd/internal/letters"
	"hubbub/peers/outbox"
)

// deadLetters are the dead letters of the programs that share the data folder, as with
// `hubbub up`: what `hubbub outbox` shows. The programs may be running.
type deadLetters struct{ letters.Folder }

var _ console.DeadLetters = deadLetters{}

// List implements console.DeadLetters.
func (d deadLetters) List(ctx context.Context, limit int) ([]console.DeadLetter, error) {
	items, err := d.Folder.List(ctx, outbox.StateDead, outbox.StateUnknown)
	if errors.Is(err, letters.ErrNoProgram) {
		err = nil // ErrUnreachable says that
	}
	if !d.HasBridge() {
		err = errors.Join(console.ErrUnreachable, err)
	}
	list := make([]console.DeadLetter, 0, min(len(items), limit))
	for i := range items[:min(len(items), limit)] {
		w := &items[i]
		list = append(list, console.DeadLetter{
			ID: w.Name(), Queue: w.Queue, Destination: w.Destination, State: string(w.State), Attempts: w.Attempts,
			QueuedAt: w.QueuedAt, Agent: w.Agent, Text: w.Text, Error: w.Error,
		})
	}
	return list, err
}
