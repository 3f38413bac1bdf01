package busclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// spawnTimeout bounds the start of an agent.
const spawnTimeout = 30 * time.Second

// StartAgent asks the spawner to start an agent for a topic, and waits until the agent is on the
// bus.
func StartAgent(ctx context.Context, options *peer.Options, topic protocol.Topic, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, spawnTimeout, fmt.Errorf("no agent started within %s", spawnTimeout))
	defer cancel()
	p := peer.New(NewID("start"), options)
	results := make(chan protocol.SpawnResult, 1)
	p.Handle(protocol.TypeSpawnResult, func(_ context.Context, d *peer.Delivery) error {
		var r protocol.SpawnResult
		if err := d.Decode(&r); err != nil {
			return err
		}
		select {
		case results <- r:
		default: // one result is enough
		}
		return nil
	})
	if err := p.Subscribe(ctx, protocol.Pattern(p.ID())); err != nil {
		return err
	}
	return p.RunWith(ctx, func(ctx context.Context) error {
		result, err := p.Send(
			ctx, protocol.TopicSpawn, p.NewMessage(protocol.TypeSpawnRequest,
				protocol.SpawnRequest{Topic: topic, Agent: name}),
		)
		switch {
		case err != nil:
			return errors.Join(err, context.Cause(ctx))
		case result.DeliveredTo == 0:
			return errors.New(
				"no spawner received the request: hubbub-system starts agents, and `hubbub peers` shows it as " +
					"agent:system",
			)
		}
		select {
		case r := <-results:
			if r.Status != protocol.SpawnSpawned {
				return fmt.Errorf("the spawner says: %s", r.Error)
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}
