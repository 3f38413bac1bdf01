package mx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"

	"github.com/rs/zerolog"
	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/id"
)

// A Bridge connects one bot to the bus.
type Bridge struct {
	*account
	peer     *peer.Peer
	out      *outbound
	ingest   *ingester
	typeists *typeists
}

// New returns a Bridge for a bot of a homeserver, on a database opened by Open. It does no I/O.
// The homeserver is an address such as https://matrix.example.org.
func New(homeserver string, db *store.DB, opts *Options) (*Bridge, error) {
	o := opts.withDefaults()
	api, err := mautrix.NewClient(homeserver, "", "")
	if err != nil {
		return nil, fmt.Errorf("the address of the homeserver: %w", err)
	}
	api.Client = &http.Client{Transport: o.Transport}
	api.Log = zerolog.Nop() // its lines have the texts of people
	api.IgnoreRateLimit = true
	api.StateStore = nil
	b := &Bridge{account: &account{db: db, opts: o, log: o.Log, api: api, crash: o.Crash}}
	b.setBot("", "")
	return b, nil
}

// setBot sets the bot that the bridge serves.
func (b *account) setBot(user, device string) {
	b.bot, b.api.UserID, b.api.DeviceID = id.UserID(user), id.UserID(user), id.DeviceID(device)
}

// build makes the parts of the bridge.
func (b *Bridge) build() {
	b.pairing = &bridge.Pairing{Log: b.log}
	b.files = &bridge.FileServer{
		Path: "/matrix-files/", Listen: b.opts.FilesListen, URL: b.opts.FilesURL, DB: b.db, Fetch: b.fetchFile,
		Log: b.log,
	}
	b.out = newOutbound(b.account)
	var people []protocol.PeerID
	for _, user := range b.opts.AllowUsers[:min(len(b.opts.AllowUsers), 50)] {
		people = append(people, peerOf(user))
	}
	b.router = bridge.New(b.db, &adapter{b.out}, &bridge.Options{
		People: people, Commands: b.out, Prefix: prefix, SlowAfter: b.opts.SpawnPatience, Crash: b.crash, Log: b.log,
	})
	b.typeists = &typeists{out: b.out, wake: notify.New(), here: map[typeist]time.Time{}}
	b.ingest = &ingester{outbound: b.out, arrived: notify.New(), typeists: b.typeists}
}

// Run serves the bot until ctx ends; then it returns nil. It returns an error if the homeserver
// does not accept the token (ErrToken), or if the bus refuses the bridge for good:
// peer.ErrReplaced, peer.ErrUnauthorized, peer.ErrRefused. When the token of a login expires, it
// logs in again.
func (b *Bridge) Run(ctx context.Context) error {
	for {
		err, expired := b.serve(ctx)
		if !expired || b.opts.Token != "" || ctx.Err() != nil {
			return err
		}
		b.log.Warn().Err(err).Msg("the token of the bot has expired; logging in again")
		if !retry.Sleep(ctx, backoff.Min) {
			return nil
		}
	}
}

// serve serves the bot once, and reports whether the homeserver stopped accepting its token.
func (b *Bridge) serve(ctx context.Context) (err error, expired bool) {
	ctx, b.fatal = context.WithCancelCause(ctx)
	defer b.fatal(nil)
	b.build()
	err = bridge.Ended(ctx, b.run(ctx), ErrToken)
	return err, errors.Is(context.Cause(ctx), ErrToken)
}

func (b *Bridge) run(ctx context.Context) error {
	if err := b.identify(ctx); err != nil {
		return err
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	serveFiles, err := b.files.Open(ctx)
	if err != nil {
		return err
	}
	return bridge.Serve(ctx, b.peer, b.opts.OnReady, b.syncLoop, b.ingest.run, b.router.Run, b.out.matrix.Run,
		b.out.typing.run, b.typeists.run, b.pruneLoop, serveFiles)
}

// connect sets up the one connection that serves all rooms of the bot.
func (b *Bridge) connect(ctx context.Context) error {
	b.peer = bridge.NewPeer(peerOf(string(b.bot)), b.opts.Peer, b.router, "a room of Matrix")
	b.typeists.peer = b.peer
	b.peer.Handle(protocol.TypeChatReply, b.out.takeReply)
	b.peer.Handle(protocol.TypeChatMessage, b.ingest.takeHookMessage)
	b.peer.HandlePresence(b.out.typing.onPresence)
	return b.peer.Subscribe(ctx, "mx:*")
}

// pruneLoop deletes old records once a day. Events are kept.
func (b *Bridge) pruneLoop(ctx context.Context) error { return bridge.PruneDaily(ctx, b.log, b.prune) }

func (b *Bridge) prune(ctx context.Context) error {
	now := time.Now()
	old := now.Add(-bridge.KeepRecords)
	err := store.Autocommit(ctx, b.db, func(tx *store.Tx) {
		tx.Exec(`DELETE FROM inbox WHERE received_at < ? AND state <> 'new'`, now.Add(-keepInbox).UnixMicro())
		tx.Exec(`DELETE FROM sends WHERE reply IN (SELECT id FROM replies WHERE received_at < ?)`, old.UnixMicro())
		tx.Exec(`DELETE FROM replies WHERE received_at < ?`, old.UnixMicro())
	})
	if err != nil {
		return err
	}
	return b.router.Prune(ctx, old)
}
