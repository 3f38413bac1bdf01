package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"hubbub/cmd/internal/demo"
	"hubbub/cmd/internal/program"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// killAgent ends an agent's process as a crash would.
func (s *show) killAgent(ctx context.Context, name string) error {
	pid, err := demo.FindAgent(ctx, s.data, name)
	if err != nil {
		return err
	}
	return demo.Kill(pid)
}

// addAgent asks the spawner for a further agent of a chat, and waits for it.
func (s *show) addAgent(ctx context.Context, topic protocol.Topic, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("no agent within %s", startPatience))
	defer cancel()
	options := s.env.PeerOptions()
	options.Buses = []string{s.plan.bus}
	options.TokenFunc = func() (string, error) { return s.env.SecretFile(program.TokenPath(s.data, "cli")) }
	p := peer.New(newID("demo"), options)
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
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	wg.Go(func() { stop(p.Run(ctx)) })
	result, err := p.Send(ctx, protocol.TopicSpawn, p.NewMessage(protocol.TypeSpawnRequest, protocol.SpawnRequest{Topic: topic, Agent: name}))
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if result.DeliveredTo == 0 {
		return errors.New("the spawner did not take the request")
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
}
