// Command hubbub-broker runs the collaboration broker. It keeps work, questions and claims, and
// wakes the responsible agent.
package main

import (
	"context"
	"errors"
	"time"

	"hubbub/activitylog"
	"hubbub/cmd/internal/program"
	"hubbub/peers/broker"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

func main() {
	var opts broker.Options
	var standby program.Standby
	var kept struct {
		Events string `flag:"event-keep" default:"90d" usage:"how long events and finished records are kept: an age such as 90d, or forever"`
	}
	program.Main(program.Program{
		Name:     "hubbub-broker",
		Summary:  "keeps work, questions and claims, and wakes the responsible agent",
		Settings: []any{&opts, &kept, &standby},
		Check: func(context.Context, *program.Env) (err error) {
			if opts.Keep, err = parseKeep(kept.Events); err != nil {
				return err
			}
			return standby.Check()
		},
		Run: func(ctx context.Context, env *program.Env) (err error) { return run(ctx, env, &opts, &standby) },
	})
}

// parseKeep parses --event-keep. A negative result means forever.
func parseKeep(text string) (time.Duration, error) {
	k, err := activitylog.ParseRetention(text)
	switch {
	case err != nil || k.Bytes != 0:
		return 0, program.Usage("--event-keep %q is neither an age such as 90d, nor forever", text)
	case k.Age == 0:
		return -1, nil
	}
	return k.Age, nil
}

func run(ctx context.Context, env *program.Env, opts *broker.Options, standby *program.Standby) (err error) {
	release, err := env.AwaitData(ctx)
	if err != nil {
		return err
	}
	defer release()
	db, err := store.Open(env.DataFile("broker.db"), broker.Schema)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	options := env.PeerOptions()
	options.Concurrency, options.Queue = 256, 4096
	options.StopTimeout = 2 * time.Second // the broker has already waited for them
	log := env.Log
	opts.Log, opts.OnReady = &log, env.Ready
	return standby.Run(ctx, env, "broker", func(ctx context.Context) error {
		return broker.New(db, peer.New(protocol.PeerBroker, options), opts).Run(ctx)
	})
}
