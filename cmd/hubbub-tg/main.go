// Command hubbub-tg is the bridge between one Telegram bot and the bus.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/peers/bridge"
	"hubbub/peers/tg"
	"hubbub/peers/tg/botapi"
)

// settings are the values of the flags.
type settings struct {
	tg            tg.Options
	api           botapi.Options
	WebhookSecret string `flag:"webhook-secret-file" usage:"file with the webhook's secret (or the variable TELEGRAM_WEBHOOK_SECRET; default random)"`
	token         string
	Glyphs        []string `flag:"glyph" usage:"emoji that shows and means a signal, as SIGNAL=EMOJI (repeatable); Telegram accepts only some"`
	Zones         []string `flag:"chat-time-zone" usage:"time zone of the people of a chat, as CHAT=ZONE (repeatable), such as -100123=Europe/Berlin"`
	Menu          []string `flag:"menu" usage:"command that Telegram's menu shows and the agent gets, as NAME=DESCRIPTION (repeatable); a name of the bridge's own changes its description"`
	standby       program.Standby
}

func main() {
	s := new(settings)
	program.Main(program.Program{
		Name: "hubbub-tg",
		Summary: "connects a Telegram bot to the bus; its token comes in TELEGRAM_BOT_TOKEN or in the file that " +
			"TELEGRAM_BOT_TOKEN_FILE names",
		Settings: []any{&s.api, &s.tg, s, &s.standby},
		Check:    s.check,
		Run:      s.run,
	})
}

// check checks the settings, and completes them.
func (s *settings) check(_ context.Context, env *program.Env) (err error) {
	if s.token, err = env.Secret("TELEGRAM_BOT_TOKEN"); err != nil {
		return err
	}
	if s.token == "" {
		return program.Usage("no bot token: set TELEGRAM_BOT_TOKEN to the token from @BotFather, or " +
			"TELEGRAM_BOT_TOKEN_FILE to a file that holds it")
	}
	if _, err := botapi.BotID(s.token); err != nil {
		return env.WrongSecret("TELEGRAM_BOT_TOKEN", err)
	}
	if err := s.complete(env); err != nil {
		return err
	}
	if s.tg.WebhookURL != "" {
		if err := env.CheckListen("webhook-listen", s.tg.WebhookListen); err != nil {
			return err
		}
	}
	if s.tg.FilesListen != "none" {
		if err := env.CheckListen("files-listen", s.tg.FilesListen); err != nil {
			return err
		}
	}
	return s.standby.Check()
}

func (s *settings) run(ctx context.Context, env *program.Env) error {
	token := s.token
	release, err := env.AwaitData(ctx)
	if err != nil {
		return err
	}
	defer release()
	db, err := tg.Open(env.DataFile(tg.Database))
	if err != nil {
		return err
	}
	if !s.tg.AllowAll && len(s.tg.AllowUsers)+len(s.tg.AllowChats) == 0 {
		env.Log.Warn().Msg("nobody is allowed by --allow-user or --allow-chat: only senders of a code of `hubbub " +
			"pair` are admitted")
	}
	bot, _, _ := strings.Cut(token, ":") // the public part: the bot's id
	err = s.standby.RunBridge(ctx, env, "tg:"+bot, tg.ErrToken, func(ctx context.Context, ready func()) error {
		s.tg.OnReady = ready
		return tg.New(token, db, &s.tg).Run(ctx)
	})
	return errors.Join(err, db.Close())
}

// complete checks the flags and adds defaults.
func (s *settings) complete(env *program.Env) (err error) {
	o := &s.tg
	o.WebhookSecret, err = env.Secret("TELEGRAM_WEBHOOK_SECRET")
	if err == nil && s.WebhookSecret != "" {
		if o.WebhookSecret, err = env.SecretFile(s.WebhookSecret); err != nil {
			err = program.Usage("--webhook-secret-file: %w", err)
		}
	}
	switch {
	case err != nil:
		return err
	case o.PollTimeout < time.Second || o.PollTimeout > 50*time.Second:
		return program.Usage("--poll-timeout must be between 1s and 50s; Telegram waits no longer")
	}
	if o.Zones, err = bridge.ParseZones(s.Zones); err != nil {
		return program.Usage("--chat-time-zone: %s", err)
	}
	if o.Glyphs, err = bridge.ParseGlyphs(s.Glyphs); err != nil {
		return program.Usage("--glyph: %s", err)
	}
	if o.Menu, err = tg.ParseMenu(s.Menu); err != nil {
		return program.Usage("--menu: %s", err)
	}
	if err = program.CheckURLs("api-url", s.api.URL, "webhook-url", o.WebhookURL, "files-url", o.FilesURL); err != nil {
		return err
	}
	if err := tg.CheckWebhookSecret(o.WebhookSecret); err != nil {
		if s.WebhookSecret == "" {
			return env.WrongSecret("TELEGRAM_WEBHOOK_SECRET", err)
		}
		return program.Retryable(fmt.Errorf("--webhook-secret-file: %w", err))
	}
	// Where a flag means "no limit", the options would use their default.
	o.MinSendInterval = cmp.Or(o.MinSendInterval, -1)
	o.GroupPerMinute = cmp.Or(o.GroupPerMinute, -1)
	o.BotPerSecond = cmp.Or(o.BotPerSecond, -1)
	o.Peer, o.API, o.Log, o.OnReady = env.PeerOptions(), &s.api, &env.Log, env.Ready
	return nil
}
