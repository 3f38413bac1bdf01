package tg

import (
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol/defaults"

	"github.com/go-telegram/bot/models"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Bridge. Nil is valid: it polls the
// public Bot API, speaks to the local bus, and admits nobody.
type Options struct {
	Peer *peer.Options   // of the connection to the bus
	API  *botapi.Options // address of the Bot API

	PollTimeout   time.Duration // of one long poll; default 50s
	WebhookURL    string        // set: Telegram delivers to this address instead
	WebhookListen string        // where the webhook listens; default 127.0.0.1:8443
	WebhookSecret string        // 1 to 256 of A-Z a-z 0-9 _ -; default random

	AllowUsers []int64 // whose direct chats are admitted
	AllowChats []int64 // groups that are admitted with their members
	AllowAll   bool    // admit everybody

	MinSendInterval time.Duration // between sends to one chat; default 1s, negative: none
	GroupPerMinute  int           // sends to one group; default 20, negative: no limit
	BotPerSecond    int           // sends in all; default 30, negative: no limit
	ResendUnknown   bool          // repeat sends whose outcome is unknown

	NoRich bool // show tables as text in columns, also where Telegram has rich messages

	FilesListen string // where references to files are served; default 127.0.0.1 with a port that stays; NoFiles: nowhere
	FilesURL    string // address of that listener for others; default http://<FilesListen>

	Glyphs map[string]string   // emoji of signals, in place of the usual ones
	Menu   []models.BotCommand // commands that go to the agent, and other words for the bridge's own

	SpawnPatience time.Duration // until a user is told that no agent came; default 30s
	AlbumWait     time.Duration // for more pictures of an album; default 1.5s
	TypingHold    time.Duration // how long one sign of typing lasts; default 30s
	MaxPending    int           // replies that wait for Telegram; default 10,000

	OnReady func() // called once, when connected and subscribed
	Log     *zerolog.Logger
}

// NoFiles as Options.FilesListen means that files are not served, and
// attachments have no reference unless FilesURL says where they are served.
const NoFiles = "none"

// Bounds that are not settings.
const (
	maxAge             = 24 * time.Hour
	typingRefresh      = 4 * time.Second
	draftRefresh       = time.Second            // between two states of a draft
	typingRetry        = 200 * time.Millisecond // until a sign is tried again for which the bot's limit had no room
	minPollInterval    = 500 * time.Millisecond // between polls that find nothing
	maxDraftWait       = 5 * time.Second        // of an answer with a draft that is on its way
	maxTypingTime      = 5 * time.Minute
	apiTimeout         = 30 * time.Second // of a call other than a poll
	stopTimeout        = 6 * time.Second  // for calls under way when the bridge stops
	updateIDLifetime   = 48 * time.Hour   // Telegram repeats an update for 24 hours
	keepUpdates        = 30 * 24 * time.Hour
	conflictPause      = 30 * time.Second
	outboxPoll         = 5 * time.Second // until what an operator changed is noticed
	firstConflictPause = 5 * time.Second
	conflictWindow     = 5 * time.Minute // a conflict is the first one after so long without
	maxBatch           = 100             // updates of one poll
	maxUpdate          = 1 << 20         // bytes
	maxEvent           = 1000 << 10      // bytes of a tg_message's content, below the bus's smallest limit for a frame
	defaultPause       = 3 * time.Second
	maxReason          = 300   // characters of why something failed
	maxQuote           = 1_000 // characters of a message that is answered
	maxReplyText       = 64 << 10
	maxGuessesPerHour  = 5
	maxAlbumWait       = 10 * time.Second
	maxNotices         = 3 // command answers to one stranger a day
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
