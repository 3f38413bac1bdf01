package tg

import (
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Bridge. Nil is valid: it polls the
// public Bot API, speaks to the local bus, and admits nobody.
type Options struct {
	Peer *peer.Options   // for the connection to the bus
	API  *botapi.Options // the Bot API to use

	PollTimeout   time.Duration `flag:"poll-timeout" default:"50s" usage:"how long one poll for updates waits"`
	WebhookURL    string        `flag:"webhook-url" usage:"address at which Telegram reaches this program; without one it polls"`
	WebhookListen string        `flag:"webhook-listen" default:"127.0.0.1:8443" usage:"where the webhook listens"`
	WebhookSecret string        // 1 to 256 of A-Z a-z 0-9 _ -; default random

	AllowUsers []int64 `flag:"allow-user" usage:"id of a user whose direct chat is admitted (repeatable; nobody is admitted by default)"`
	AllowChats []int64 `flag:"allow-chat" usage:"id of a group that is admitted with its members (repeatable)"`
	AllowAll   bool    `flag:"allow-all" usage:"admit everybody who finds the bot"`

	// negative: no limit, as with the next two
	MinSendInterval time.Duration `flag:"min-send-interval" default:"1s" usage:"minimum time between two sends to one chat (0: no limit)"`
	GroupPerMinute  int           `flag:"group-per-minute" default:"20" usage:"maximum sends to one group in a minute (0: no limit)"`
	BotPerSecond    int           `flag:"bot-per-second" default:"30" usage:"maximum sends of the bot in a second (0: no limit)"`
	ResendUnknown   bool          `flag:"resend-unknown" usage:"send again if it is unknown whether a send arrived: messages may arrive twice"`

	NoRich bool `flag:"no-rich" usage:"send tables as text in columns, for people whose Telegram shows no rich messages (before June 2026)"`

	FilesListen string `flag:"files-listen" usage:"where files that people send are served to agents (default 127.0.0.1 and a port that stays the same; none: nowhere)"`
	FilesURL    string `flag:"files-url" usage:"address of --files-listen as agents on other machines reach it; if it is private, they need it in --allow-target"`

	Glyphs bridge.Glyphs        // the emoji of signals, in place of the defaults
	Zones  bridge.Zones         // the time zones of chats, by their ids
	Menu   []bridge.CommandHelp // commands for the agent, and other descriptions of the bridge's own

	AlbumWait  time.Duration `default:"1.5s"`  // for more messages of an album
	TypingHold time.Duration `default:"30s"`   // how long one typing indicator lasts
	MaxPending int           `default:"10000"` // replies waiting for Telegram

	OnReady func() // called once, when connected and subscribed
	Log     *zerolog.Logger
}

// NoFiles, as Options.FilesListen, disables the listener for files. Attachments then have
// references only if FilesURL is set.
const NoFiles = bridge.NoFiles

// Limits that are not settings.
const (
	maxAge             = 24 * time.Hour
	typingRefresh      = 4 * time.Second
	draftRefresh       = time.Second            // between two states of a draft
	typingRetry        = 200 * time.Millisecond // before a typing indicator that exceeded the bot's limit is retried
	minPollInterval    = 500 * time.Millisecond // between polls that return nothing
	maxDraftWait       = 5 * time.Second        // of a reply for a draft that is being sent
	maxTypingTime      = 5 * time.Minute
	apiTimeout         = 30 * time.Second // of a call other than a poll
	stopTimeout        = 6 * time.Second  // for calls in progress when the bridge stops
	updateIDLifetime   = 48 * time.Hour   // Telegram repeats an update for 24 hours
	keepUpdates        = 30 * 24 * time.Hour
	conflictPause      = 30 * time.Second
	outboxPoll         = 5 * time.Second // before an operator's change is noticed
	firstConflictPause = 5 * time.Second
	conflictWindow     = 5 * time.Minute // how long without a conflict until a new one counts as the first
	maxBatch           = 100             // updates in one poll
	maxUpdate          = 1 << 20         // bytes
	defaultPause       = 3 * time.Second
	maxAlbumWait       = 10 * time.Second
	maxNotices         = 3 // answers per day to one user who is not admitted
)

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.OnReady, func() {})
	defaults.Log(&d.Log)
	return d
}
