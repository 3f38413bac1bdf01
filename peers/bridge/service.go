package bridge

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// keepRecords is how long the settled replies and events of chats are kept. They identify the
// author of a quoted message, and replies that are sent again.
const keepRecords = 90 * 24 * time.Hour

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

// PruneDaily deletes the old records of a chat's bridge, now and once a day: its replies, what the
// function deletes, and those of the router. Events are kept.
func PruneDaily(ctx context.Context, r *Router, others func(*store.Tx)) error {
	for {
		if err := PruneReplies(ctx, r, others); err != nil && ctx.Err() == nil {
			r.log.Warn().Err(err).Msg("pruning failed; trying again tomorrow")
		}
		if !retry.Sleep(ctx, 24*time.Hour) {
			return nil
		}
	}
}

// PruneReplies deletes once what PruneDaily deletes every day.
func PruneReplies(ctx context.Context, r *Router, others func(*store.Tx)) error {
	old := time.Now().Add(-keepRecords)
	err := store.Autocommit(ctx, r.db, func(tx *store.Tx) {
		others(tx)
		tx.Exec(`DELETE FROM sends WHERE reply IN (SELECT id FROM replies WHERE received_at < ?)`, old.UnixMicro())
		tx.Exec(`DELETE FROM replies WHERE received_at < ? AND id NOT IN (SELECT reply FROM sends)`, old.UnixMicro())
	})
	if err != nil {
		return err
	}
	return r.Prune(ctx, old)
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
		if n == 0 {
			arrived.Wait(ctx, 0)
		}
	}
	return nil
}

var applyBackoff = retry.Backoff{Min: time.Second, Max: time.Minute}

// Guard calls a function that acts on what somebody else sent, and turns a panic into an error. what
// names the action in the error and the log.
func Guard(log *zerolog.Logger, what string, act func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Msg(what + " panicked")
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return act()
}
