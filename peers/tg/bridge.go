package tg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"
	"hubbub/protocol/notify"
	"hubbub/protocol/retry"
)

// ErrToken ends Run: Telegram does not accept the bot token.
var ErrToken = errors.New("the bot token is not accepted by Telegram; check TELEGRAM_BOT_TOKEN, or make a new token " +
	"with /token at @BotFather")

// A Bridge connects one bot to the bus.
type Bridge struct {
	*account
	peer   *peer.Peer
	out    *outbound
	ingest *ingester

	conflict time.Time // when another poller was last noticed; used only by pollLoop
}

// New returns a Bridge for the bot of a token, on a database opened by Open. It does no I/O.
func New(token string, db *store.DB, opts *Options) *Bridge {
	o := opts.withDefaults()
	a := &account{token: token, db: db, opts: o, log: o.Log, api: botapi.New(token, o.API), crash: func(string) {}}
	return &Bridge{account: a}
}

// setBot makes the bridge serve one bot. The bot's ID is part of the names of its queues.
func (b *Bridge) setBot(bot int64) {
	b.bot = bot
	b.pairing = &bridge.Pairing{Name: id(bot), Log: b.log}
	b.files = b.newFileServer()
	b.out = newOutbound(b.account)
	b.router = bridge.New(b.db, &adapter{b.out}, &bridge.Options{
		Name: id(b.bot), People: people(b.opts.AllowUsers), Commands: b.out,
		Crash: b.crash, Log: b.log,
	})
	b.ingest = &ingester{outbound: b.out, arrived: notify.New()}
}

// people returns the identities of users on the bus.
func people(users []int64) (list []protocol.PeerID) {
	for _, user := range users[:min(len(users), 50)] {
		list = append(list, peerOf(user))
	}
	return list
}

// queueTelegram is the name of the queue of calls to Telegram.
const queueTelegram = "telegram"

// Run serves the bot until ctx ends; then it returns nil. It returns an error if Telegram does
// not accept the token (ErrToken), or if the bus refuses the bridge permanently:
// peer.ErrReplaced, peer.ErrUnauthorized, peer.ErrRefused.
func (b *Bridge) Run(ctx context.Context) error {
	if err := botapi.CheckToken(b.token, b.opts.API); err != nil {
		return fmt.Errorf("TELEGRAM_BOT_TOKEN: %w", err)
	}
	defer b.api.Close()
	ctx, b.fatal = context.WithCancelCause(ctx)
	defer b.fatal(nil)
	b.quit = ctx.Done()
	return bridge.Ended(ctx, b.run(ctx), ErrToken)
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
	receive := b.pollLoop
	if b.opts.WebhookURL != "" {
		receive = b.webhookLoop
	}
	return bridge.Serve(ctx, b.peer, b.opts.OnReady, receive, b.ingest.run, b.router.Run, b.out.telegram.Run,
		b.out.typing.run, b.pruneLoop, b.ingest.publishMenu, serveFiles)
}

// connect sets up the one connection that serves all chats of the bot.
func (b *Bridge) connect(ctx context.Context) error {
	b.peer = bridge.NewPeer(peerOf(b.bot), b.opts.Peer, b.router, "a Telegram chat")
	b.peer.Handle(protocol.TypeTGReply, b.out.replies().Take(b.router))
	b.peer.Handle(protocol.TypeChatMessage, b.ingest.takeHookMessage)
	b.out.typing.tracksPresence = b.peer.PresenceSynced
	b.peer.HandlePresence(b.out.typing.onPresence)
	return b.peer.Subscribe(ctx, "tg:*")
}

// identify asks Telegram for the bot's account, and stores it for starts while Telegram cannot be
// reached.
func (b *Bridge) identify(ctx context.Context) error {
	for try := 1; ; try++ {
		err := b.call(ctx, "getMe", nil, &b.me)
		switch {
		case err == nil && b.me.ID != 0:
			return b.saveBot(ctx)
		case err == nil:
			return errors.New("the Bot API returned no bot; check --api-url")
		case botapi.Unauthorized(err):
			return ErrToken
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if b.restoreBot(ctx) {
			b.log.Warn().Err(err).Msg("Telegram not reached; continuing with the stored account of the bot")
			return nil
		}
		wait := pauseAfter(err, try)
		b.log.Warn().Err(err).Dur("pause_ms", wait).Msg("Telegram not reached; trying again")
		if !retry.Sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

func (b *Bridge) saveBot(ctx context.Context) error {
	b.setBot(b.me.ID)
	b.log.Info().Int64("bot", b.bot).Str("username", b.me.Username).Msg("bot identified")
	err := store.Exec(ctx, b.db,
		`INSERT INTO bots (bot, token_hash, me) VALUES (?1, ?2, ?3) ON CONFLICT (bot) DO UPDATE SET token_hash = ?2, me = ?3`,
		b.bot, digest("hubbub bot token "+b.token), string(mustJSON(b.me)))
	if err != nil {
		return fmt.Errorf("writing to the database: %w", err)
	}
	return nil
}

// restoreBot restores the stored account of the token's bot, and reports whether there was one.
func (b *Bridge) restoreBot(ctx context.Context) bool {
	known, err := store.ReadValue[[]byte](ctx, b.db,
		`SELECT me FROM bots WHERE token_hash = ?`, digest("hubbub bot token "+b.token))
	if err != nil {
		b.log.Error().Err(err).Msg("reading the bot of an earlier start failed; asking Telegram")
		return false
	}
	if json.Unmarshal(known, &b.me) != nil {
		return false
	}
	b.setBot(b.me.ID)
	return true
}
