package tg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// ErrToken ends Run: Telegram does not know the bot token.
var ErrToken = errors.New("the bot token is not accepted by Telegram; check TELEGRAM_BOT_TOKEN, or make a new token with /token at @BotFather")

// A Bridge connects one bot to the bus.
type Bridge struct {
	token string
	db    *sql.DB
	opts  Options
	log   zerolog.Logger

	bot  int64
	me   models.User
	api  *botapi.Client
	peer *peer.Peer

	forward  *outbox.Outbox // to the agents
	telegram *outbox.Outbox // to Telegram
	status   *outbox.Outbox // delivery_status to the agents

	limiter  *rate.Limiter
	typing   *typing
	broker   *broker
	files    *files
	chats    chan struct{} // wakes chatLoop
	arrived  chan struct{} // wakes intakeLoop
	quit     <-chan struct{}
	fatal    context.CancelCauseFunc
	conflict time.Time    // when another poller was last noticed; pollLoop's own
	polled   atomic.Int64 // time of the last good answer to a poll, microseconds

	crash func(point string) // set by tests
}

// New makes a bridge for the bot of a token, on a database of Open. It does no
// I/O.
func New(token string, db *sql.DB, opts *Options) *Bridge {
	b := &Bridge{
		token: token, db: db, opts: opts.withDefaults(),
		chats: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		crash: func(string) {},
	}
	b.log = *b.opts.Log
	b.api = botapi.New(token, b.opts.API)
	b.limiter = rate.NewLimiter(rate.Inf, 1)
	if n := b.opts.BotPerSecond; n > 0 {
		b.limiter = rate.NewLimiter(rate.Limit(n), max(1, n/10))
	}
	b.typing = newTyping(b)
	b.files = newFiles(b)
	return b
}

// become makes the bridge that of one bot, whose queues carry its id.
func (b *Bridge) become(bot int64) {
	b.bot = bot
	log := &b.log
	b.forward = outbox.New(b.db, b.sendForward, &outbox.Options{
		Name: b.queue(queueForward), Poll: outboxPoll, MaxBackoff: maxBackoffBus, MaxAge: maxAge, MaxPending: 1_000_000, MaxPerDestination: 100_000,
		Parallel: 32, AttemptTimeout: time.Minute, OnSettled: b.forwardSettled, Log: log,
		AfterSettled: func(outbox.Item, outbox.State, error) { b.telegram.Wake() },
	})
	b.telegram = outbox.New(b.db, b.sendTelegram, &outbox.Options{
		Name: b.queue(queueTelegram), Poll: outboxPoll, MaxAge: maxAge, MaxPending: b.opts.MaxPending, Parallel: 32,
		AttemptTimeout: time.Minute, StopTimeout: stopGrace, OnSettled: b.telegramSettled, Log: log,
		AfterSettled: func(outbox.Item, outbox.State, error) { b.status.Wake() },
	})
	b.status = outbox.New(b.db, b.sendStatus, &outbox.Options{
		Name: b.queue(queueStatus), Poll: outboxPoll, MaxBackoff: 30 * time.Second, MaxAge: maxAge, MaxPending: 1_000_000, MaxPerDestination: 100_000,
		Parallel: 8, AttemptTimeout: time.Minute, Log: log,
	})
}

// The names of the bridge's queues, in the order in which operators see them.
const (
	queueTelegram = "telegram"
	queueForward  = "agents"
	queueStatus   = "status"
)

// queue is the name of one of this bot's queues in the database: bots that share
// a database do not touch each other's.
func (b *Bridge) queue(name string) string { return name + ":" + id(b.bot) }

// Run bridges until ctx ends; then it returns nil. It ends with an error when
// Telegram refuses the token (ErrToken), and when the bus refuses the bridge for
// good: peer.ErrReplaced, peer.ErrUnauthorized, peer.ErrRefused.
func (b *Bridge) Run(ctx context.Context) error {
	if err := b.checkToken(); err != nil {
		return fmt.Errorf("TELEGRAM_BOT_TOKEN: %w", err)
	}
	defer b.api.Close()
	ctx, b.fatal = context.WithCancelCause(ctx)
	defer b.fatal(nil)
	b.quit = ctx.Done()
	if err := b.identify(ctx); err != nil {
		return stopped(ctx, err)
	}
	if err := b.connect(ctx); err != nil {
		return stopped(ctx, err)
	}
	listener, err := b.files.open(ctx)
	if err != nil {
		return stopped(ctx, err)
	}
	err = b.peer.RunWith(ctx, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, loop := range []func(context.Context) error{
			b.readyOnce, b.receiveLoop, b.intakeLoop, b.chatLoop, b.forward.Run, b.telegram.Run, b.status.Run,
			b.typing.loop, b.pruneLoop, b.commandsOnce,
			func(ctx context.Context) error { return b.files.serve(ctx, listener) },
		} {
			g.Go(func() error { return loop(ctx) })
		}
		return g.Wait()
	})
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, ErrToken) {
		err = cause
	}
	return stopped(ctx, err)
}

// stopped drops the error of a clean stop.
func stopped(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrToken) {
		return nil
	}
	return err
}

// connect makes the one connection for all chats of the bot.
func (b *Bridge) connect(ctx context.Context) error {
	var opts peer.Options
	if b.opts.Peer != nil {
		opts = *b.opts.Peer
	}
	theirs := opts.OnConnect
	opts.OnConnect = func(ctx context.Context) {
		if theirs != nil {
			theirs(ctx)
		}
		b.connected(ctx)
	}
	b.peer = peer.New(protocol.PeerID("tg:"+id(b.bot)), &opts)
	b.broker = newBroker(b)
	for t, h := range map[protocol.MessageType]peer.Handler{
		protocol.TypeTGReply:       b.takeReply,
		protocol.TypeRouteAssigned: b.takeRoute,
		protocol.TypeSpawnResult:   b.takeSpawnResult,
		protocol.TypeCollabResult:  b.broker.takeResult,
		// Agents tell of each other's events; a chat has no use for them.
		protocol.TypeAgentEvent:     ignore,
		protocol.TypeDeliveryStatus: ignore,
	} {
		b.peer.Handle(t, h)
	}
	b.peer.HandleAny(func(_ context.Context, d *peer.Delivery) error {
		return peer.Reject(fmt.Sprintf("a Telegram chat takes no %s", d.Message.Type))
	})
	return b.peer.Subscribe(ctx, "tg:*")
}

func ignore(context.Context, *peer.Delivery) error { return nil }

// connected ends every wait that was for the bus.
func (b *Bridge) connected(ctx context.Context) {
	err := errors.Join(
		b.forward.Hurry(ctx, ""),
		b.status.Hurry(ctx, ""),
		exec(ctx, b.db, `UPDATE chats SET next_at = ?1 WHERE bot = ?2 AND state IN ('asking','waiting') AND next_at > ?1`, now(), b.bot),
	)
	if err != nil && ctx.Err() == nil {
		b.log.Warn().Err(err).Msg("what waited for the bus is not hurried")
	}
	wake(b.chats)
}

func (b *Bridge) readyOnce(ctx context.Context) error {
	if err := b.peer.Ready(ctx); err != nil {
		return nil //nolint:nilerr // Run's own error says why
	}
	if b.opts.OnReady != nil {
		b.opts.OnReady()
	}
	return nil
}

// identify asks who the bot is. Once known, it is remembered for starts while
// Telegram cannot be reached.
func (b *Bridge) identify(ctx context.Context) error {
	for try := 1; ; try++ {
		err := b.call(ctx, "getMe", nil, &b.me)
		switch {
		case err == nil && b.me.ID != 0:
			return b.rememberBot(ctx)
		case err == nil:
			return errors.New("the Bot API does not say who the bot is; is --api-url right?")
		case botapi.Unauthorized(err):
			return ErrToken
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if b.recallBot(ctx) {
			b.log.Warn().Err(err).Msg("Telegram cannot be reached; going on with what is known of the bot")
			return nil
		}
		wait := pauseAfter(err, try)
		b.log.Warn().Err(err).Dur("retry_in", wait).Msg("Telegram cannot be reached")
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// checkToken finds a text that is no token before anything else is tried.
func (b *Bridge) checkToken() error {
	if err := botapi.CheckToken(b.token); err != nil {
		return err
	}
	if o := b.opts.API; o != nil && (o.URL != "" && o.URL != botapi.DefaultURL || o.Transport != nil) {
		return nil
	}
	_, err := botapi.BotID(b.token)
	return err
}

func (b *Bridge) rememberBot(ctx context.Context) error {
	b.become(b.me.ID)
	raw, err := json.Marshal(b.me)
	if err != nil {
		return err
	}
	b.log.Info().Int64("bot", b.bot).Str("username", b.me.Username).Msg("this is the bot")
	err = exec(ctx, b.db, `INSERT INTO bots (bot, token_hash, me) VALUES (?1, ?2, ?3) ON CONFLICT (bot) DO UPDATE SET token_hash = ?2, me = ?3`,
		b.bot, hashToken(b.token), string(raw))
	if err != nil {
		return fmt.Errorf("writing to the database: %w", err)
	}
	return nil
}

// recallBot finds the bot of the token in what is known from earlier.
func (b *Bridge) recallBot(ctx context.Context) bool {
	var known string
	err := b.db.QueryRowContext(ctx, `SELECT me FROM bots WHERE token_hash = ?`, hashToken(b.token)).Scan(&known)
	if err != nil || json.Unmarshal([]byte(known), &b.me) != nil {
		return false
	}
	b.become(b.me.ID)
	return true
}

// hashToken tells tokens apart without keeping them.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte("hubbub bot token " + token))
	return hex.EncodeToString(sum[:])
}

// call makes a Bot API call with the usual time limit.
func (b *Bridge) call(ctx context.Context, method string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return b.api.Call(ctx, method, params, result)
}
