package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// keepRecords is how long the settled replies and events of chats are kept. They identify the
// author of a quoted message, and replies that are sent again.
const KeepRecords = 90 * 24 * time.Hour

// NewPeer makes the one peer that serves all chats of a bridge, with its router attached. The bridge
// then adds its own handlers; chat names what rejects every other message, such as "a Telegram
// chat".
func NewPeer(id protocol.PeerID, options *peer.Options, r *Router, chat string) *peer.Peer {
	o := defaults.Of(options)
	theirs := o.OnConnect
	o.OnConnect = func(ctx context.Context) {
		if theirs != nil {
			theirs(ctx)
		}
		r.OnConnected(ctx)
	}
	p := peer.New(id, &o)
	r.Attach(p)
	// Agents publish events for each other; a chat does not need them.
	ignore := func(context.Context, *peer.Delivery) error { return nil }
	p.Handle(protocol.TypeAgentEvent, ignore)
	p.Handle(protocol.TypeDeliveryStatus, ignore)
	p.HandleAny(func(_ context.Context, d *peer.Delivery) error {
		return peer.Reject(fmt.Sprintf("%s does not accept %s", chat, d.Message.Type))
	})
	return p
}

// Serve runs the peer and the loops of a bridge until ctx ends or one of them fails. It calls
// onReady once, when the peer is connected and subscribed.
func Serve(ctx context.Context, p *peer.Peer, onReady func(), loops ...func(context.Context) error) error {
	reportReady := func(ctx context.Context) error {
		if p.Ready(ctx) == nil { // after an error, RunWith's own error says why
			onReady()
		}
		return nil
	}
	return p.RunWith(ctx, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, loop := range append(loops, reportReady) {
			g.Go(func() error { return loop(ctx) })
		}
		return g.Wait()
	})
}

// Ended returns why a bridge has ended, given the error of its loops: the cause of its context if
// that is fatal, nothing if the context ended, and else the error.
func Ended(ctx context.Context, err, fatal error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, fatal):
		return cause
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	}
	return err
}

// PruneDaily calls prune, which deletes the old records of a bridge, now and once a day.
func PruneDaily(ctx context.Context, log *zerolog.Logger, prune func(context.Context) error) error {
	for {
		if err := prune(ctx); err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("pruning failed; trying again tomorrow")
		}
		if !retry.Sleep(ctx, 24*time.Hour) {
			return nil
		}
	}
}

// ApplyStored applies what a bridge has stored on arrival, in batches, until ctx ends. applyBatch
// returns how much it applied; after none, the next batch waits for arrived. If the database cannot
// be written, the batch is retried. what names its parts in the log.
func ApplyStored(ctx context.Context, log *zerolog.Logger, what string, arrived notify.Signal,
	applyBatch func(context.Context) (int, error)) error {
	failures := 0
	for ctx.Err() == nil {
		n, err := applyBatch(ctx)
		if err != nil && ctx.Err() == nil {
			failures++
			pause := applyBackoff.After(failures)
			log.Error().Err(err).Dur("pause_ms", pause).Msgf("applying stored %s failed; trying again", what)
			retry.Sleep(ctx, pause)
			continue
		}
		failures = 0
		if n > 0 {
			continue
		}
		select {
		case <-arrived.C():
		case <-ctx.Done():
		}
	}
	return nil
}

var applyBackoff = retry.Backoff{Min: time.Second, Max: time.Minute}
