// Command hubbub-tg is the bridge between one Telegram bot and the bus.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"

	"github.com/spf13/pflag"
)

// settings are the flags of this program alone.
type settings struct {
	apiURL        string
	pollTimeout   time.Duration
	webhookURL    string
	webhookListen string
	webhookSecret string // file
	allowUsers    []int64
	allowChats    []int64
	allowAll      bool
	interval      time.Duration
	perMinute     int
	perSecond     int
	resend        bool
	filesListen   string
	filesURL      string
	standby       program.Standby
}

func main() {
	var s settings
	program.Main(program.Program{
		Name:    "hubbub-tg",
		Summary: "connects a Telegram bot to the bus; its token comes in TELEGRAM_BOT_TOKEN or in the file that TELEGRAM_BOT_TOKEN_FILE names",
		Flags:   s.add,
		Run:     s.run,
	})
}

func (s *settings) add(fs *pflag.FlagSet) {
	fs.StringVar(&s.apiURL, "api-url", botapi.DefaultURL, "address of the Bot API")
	fs.DurationVar(&s.pollTimeout, "poll-timeout", 50*time.Second, "how long one poll for updates waits")
	fs.StringVar(&s.webhookURL, "webhook-url", "", "address at which Telegram reaches this program; without one it polls")
	fs.StringVar(&s.webhookListen, "webhook-listen", "127.0.0.1:8443", "where the webhook listens")
	fs.StringVar(&s.webhookSecret, "webhook-secret-file", "", "file with the webhook's secret (or the variable TELEGRAM_WEBHOOK_SECRET; default random)")
	fs.Int64SliceVar(&s.allowUsers, "allow-user", nil, "id of a user whose direct chat is admitted (repeatable; nobody is admitted by default)")
	fs.Int64SliceVar(&s.allowChats, "allow-chat", nil, "id of a group that is admitted with its members (repeatable)")
	fs.BoolVar(&s.allowAll, "allow-all", false, "admit everybody who finds the bot")
	fs.DurationVar(&s.interval, "min-send-interval", time.Second, "least time between two sends to one chat (0: no limit)")
	fs.IntVar(&s.perMinute, "group-per-minute", 20, "most sends to one group in a minute (0: no limit)")
	fs.IntVar(&s.perSecond, "bot-per-second", 30, "most sends of the bot in a second (0: no limit)")
	fs.BoolVar(&s.resend, "resend-unknown", false, "send again where nobody knows whether a send arrived: messages may come twice")
	fs.StringVar(&s.filesListen, "files-listen", "", "where files that people send are served to agents (default 127.0.0.1 and a port that stays; none: nowhere)")
	fs.StringVar(&s.filesURL, "files-url", "", "address of --files-listen as agents on other machines reach it")
	s.standby.Flags(fs)
}

func (s *settings) run(ctx context.Context, env *program.Env) error {
	token, err := env.Secret("TELEGRAM_BOT_TOKEN")
	if err != nil {
		return err
	}
	if token == "" {
		return errors.New("no bot token: set TELEGRAM_BOT_TOKEN to the token from @BotFather, or TELEGRAM_BOT_TOKEN_FILE to a file that holds it")
	}
	secret, err := env.Secret("TELEGRAM_WEBHOOK_SECRET")
	if err == nil && s.webhookSecret != "" {
		secret, err = env.SecretFile(s.webhookSecret)
	}
	if err != nil {
		return err
	}
	if err := s.check(secret); err != nil {
		return err
	}
	release, err := env.OwnData()
	if err != nil {
		return err
	}
	defer release()
	db, err := tg.Open(env.DataFile(tg.Database))
	if err != nil {
		return err
	}
	if !s.allowAll && len(s.allowUsers)+len(s.allowChats) == 0 {
		env.Log.Warn().Msg("nobody is allowed by --allow-user or --allow-chat: only who sends a code of `hubbub pair` is heard")
	}
	bot, _, _ := strings.Cut(token, ":") // the public part: the bot's id
	err = s.standby.Run(ctx, env, "tg:"+bot, func(ctx context.Context) error {
		return tg.New(token, db, s.options(env, secret)).Run(ctx)
	})
	return errors.Join(err, db.Close())
}

func (s *settings) check(secret string) error {
	switch {
	case s.pollTimeout < time.Second || s.pollTimeout > 50*time.Second:
		return program.Usage("--poll-timeout must be between 1s and 50s; Telegram waits no longer")
	case s.interval < 0 || s.perMinute < 0 || s.perSecond < 0:
		return program.Usage("--min-send-interval, --group-per-minute and --bot-per-second must not be negative")
	}
	for _, address := range []struct{ flag, raw string }{{"api-url", s.apiURL}, {"webhook-url", s.webhookURL}, {"files-url", s.filesURL}} {
		u, err := url.Parse(address.raw)
		if address.raw != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return program.Usage("--%s %q is not an address such as https://hubbub.example.com", address.flag, address.raw)
		}
	}
	if err := tg.CheckWebhookSecret(secret); err != nil {
		return fmt.Errorf("--webhook-secret-file: %w", err)
	}
	return nil
}

func (s *settings) options(env *program.Env, secret string) *tg.Options {
	return &tg.Options{
		Peer: env.PeerOptions(), API: &botapi.Options{URL: s.apiURL}, Log: &env.Log, OnReady: env.Ready,
		PollTimeout: s.pollTimeout, WebhookURL: s.webhookURL, WebhookListen: s.webhookListen, WebhookSecret: secret,
		AllowUsers: s.allowUsers, AllowChats: s.allowChats, AllowAll: s.allowAll,
		MinSendInterval: orNone(s.interval), GroupPerMinute: orNone(s.perMinute), BotPerSecond: orNone(s.perSecond),
		ResendUnknown: s.resend, FilesListen: s.filesListen, FilesURL: s.filesURL,
	}
}

// orNone turns the flags' "no limit" into the options', where zero is the default.
func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}
