package mx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
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
	peer   *peer.Peer
	out    *outbound
	ingest *ingester
	people *typingList // who are typing
}

// New returns a Bridge for a bot of a homeserver, on a database opened by Open. It does no I/O.
// The homeserver is an address such as https://matrix.example.org.
func New(homeserver string, db *store.DB, opts *Options) (*Bridge, error) {
	o := opts.withDefaults()
	o.OnReady = sync.OnceFunc(o.OnReady) // Run may connect again
	api, err := mautrix.NewClient(homeserver, "", "")
	if err != nil {
		return nil, fmt.Errorf("the address of the homeserver: %w", err)
	}
	api.Client = &http.Client{Transport: o.Transport}
	api.Log = zerolog.Nop() // its lines contain texts of people
	api.IgnoreRateLimit, api.ResponseSizeLimit = true, maxSync
	api.StateStore = nil
	b := &Bridge{account: &account{db: db, opts: o, log: o.Log, api: api, crash: o.Crash}}
	api.SetAppServiceUserID = o.Token != "" && o.User != ""
	b.setBot(o.User, "")
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
		People: people, Commands: b.out, Prefix: prefix, Crash: b.crash, Log: b.log,
	})
	b.people = newTypingList(typingShownFor, b.notifyTyping)
	b.ingest = &ingester{outbound: b.out, arrived: notify.New()}
}

// Run serves the bot until ctx ends; then it returns nil. It returns an error if the homeserver
// does not accept the token (ErrToken), or if the bus refuses the bridge permanently:
// peer.ErrReplaced, peer.ErrUnauthorized, peer.ErrRefused. When the token of a login expires, it
// logs in again.
func (b *Bridge) Run(ctx context.Context) error {
	for {
		expired, err := b.serve(ctx)
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
func (b *Bridge) serve(ctx context.Context) (expired bool, err error) {
	ctx, b.fatal = context.WithCancelCause(ctx)
	defer b.fatal(nil)
	b.build()
	err = bridge.Ended(ctx, b.run(ctx), ErrToken)
	return errors.Is(context.Cause(ctx), ErrToken), err
}

func (b *Bridge) run(ctx context.Context) error {
	if err := b.identify(ctx); err != nil {
		return err
	}
	if b.opts.Encryption {
		if b.api.DeviceID == "" {
			return fmt.Errorf("%w: it has no device, so it cannot encrypt (--encryption)", ErrToken)
		}
		c, err := newCipher(ctx, b.account)
		if err != nil {
			return err
		}
		defer c.close() //nolint:errcheck // each of its transactions is on disk
		b.cipher = c
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	serveFiles, err := b.files.Open(ctx)
	if err != nil {
		return err
	}
	return bridge.Serve(ctx, b.peer, b.opts.OnReady, b.syncLoop, b.ingest.run, b.router.Run, b.out.matrix.Run,
		b.out.typing.run, b.people.run, b.pruneLoop, serveFiles)
}

// connect sets up the one connection that serves all rooms of the bot.
func (b *Bridge) connect(ctx context.Context) error {
	b.peer = bridge.NewPeer(peerOf(string(b.bot)), b.opts.Peer, b.router, "a room of Matrix")
	b.peer.Handle(protocol.TypeChatReply, b.out.replies().Take(b.router))
	b.peer.Handle(protocol.TypeChatMessage, b.ingest.takeHookMessage)
	b.peer.HandlePresence(b.out.onPresence)
	return b.peer.Subscribe(ctx, "mx:*")
}

// pruneLoop deletes old records once a day. Events are kept.
func (b *Bridge) pruneLoop(ctx context.Context) error {
	return bridge.PruneDaily(ctx, b.router, func(tx *store.Tx) {
		tx.Exec(`DELETE FROM inbox WHERE received_at < ? AND state <> 'new'`, time.Now().Add(-keepInbox).UnixMicro())
	})
}
