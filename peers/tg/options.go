package tg

import (
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/defaults"

	"github.com/go-telegram/bot/models"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Bridge. Nil is valid: it polls the
// public Bot API, speaks to the local bus, and admits nobody.
type Options struct {
	Peer *peer.Options   // for the connection to the bus
	API  *botapi.Options // the Bot API to use

	PollTimeout   time.Duration // of one long poll; default 50s
	WebhookURL    string        // if set, Telegram delivers updates to this address
	WebhookListen string        // address of the webhook's listener; default 127.0.0.1:8443
	WebhookSecret string        // 1 to 256 of A-Z a-z 0-9 _ -; default random

	AllowUsers []int64 // users whose direct chats are admitted
	AllowChats []int64 // groups that are admitted, with all their members
	AllowAll   bool    // admit everybody

	MinSendInterval time.Duration // between sends to one chat; default 1s; negative: no limit
	GroupPerMinute  int           // sends to one group; default 20; negative: no limit
	BotPerSecond    int           // sends in total; default 30; negative: no limit
	ResendUnknown   bool          // repeat sends with an unknown outcome

	NoRich bool // send tables as text, even if Telegram has rich messages

	// address of the listener for files; default 127.0.0.1 with a port that stays the same; NoFiles: none
	FilesListen string
	FilesURL    string // public address of that listener; default http://<FilesListen>

	Glyphs bridge.Glyphs       // the emoji of signals, in place of the defaults
	Menu   []models.BotCommand // commands for the agent, and other descriptions of the bridge's own

	SpawnPatience time.Duration // how long a user waits for an agent before a notice; default 30s
	AlbumWait     time.Duration // for more messages of an album; default 1.5s
	TypingHold    time.Duration // how long one typing indicator lasts; default 30s
	MaxPending    int           // replies waiting for Telegram; default 10,000

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
	conflictWindow     = 5 * time.Minute // after so long without a conflict, a new one is the first
	maxBatch           = 100             // updates in one poll
	maxUpdate          = 1 << 20         // bytes
	defaultPause       = 3 * time.Second
	maxAlbumWait       = 10 * time.Second
	maxNotices         = 3 // answers a day to one user who is not admitted
)

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.PollTimeout, 50*time.Second)
	defaults.Set(&d.AlbumWait, 1500*time.Millisecond)
	defaults.Set(&d.TypingHold, 30*time.Second)
	defaults.Set(&d.MinSendInterval, time.Second)
	defaults.Set(&d.GroupPerMinute, 20)
	defaults.Set(&d.BotPerSecond, 30)
	defaults.Set(&d.MaxPending, 10_000)
	defaults.Set(&d.WebhookListen, "127.0.0.1:8443")
	defaults.Set(&d.OnReady, func() {})
	defaults.Log(&d.Log)
	return d
}
