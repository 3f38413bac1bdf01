package main

import (
	"context"
	"errors"
	"fmt"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// startAgent has the spawner start an agent that talks to a topic, and waits until it is on
// the bus.
func startAgent(ctx context.Context, options *peer.Options, topic protocol.Topic, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no agent within %s", startTimeout))
	defer cancel()
	p := peer.New(newID("start"), options)
	results := make(chan protocol.SpawnResult, 1)
	p.Handle(protocol.TypeSpawnResult, func(_ context.Context, d *peer.Delivery) error {
		var r protocol.SpawnResult
		if err := d.Decode(&r); err != nil {
			return err
		}
		select {
		case results <- r:
		default: // one is enough
		}
		return nil
	})
	if err := p.Subscribe(ctx, protocol.Pattern(p.ID())); err != nil {
		return err
	}
	return p.RunWith(ctx, func(ctx context.Context) error {
		result, err := p.Send(ctx, protocol.TopicSpawn, p.NewMessage(protocol.TypeSpawnRequest, protocol.SpawnRequest{Topic: topic, Agent: name}))
		switch {
		case err != nil:
			return errors.Join(err, context.Cause(ctx))
		case result.DeliveredTo == 0:
			return errors.New("the spawner did not take the request: hubbub-system starts agents, and `hubbub peers` shows it as agent:system")
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
