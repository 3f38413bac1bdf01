package mx

import (
	"net/http"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Bridge. A token or a user with a password is needed;
// without others it speaks to the local bus and admits nobody.
type Options struct {
	Peer *peer.Options // for the connection to the bus

	Token     string            // access token of the bot
	User      string            `flag:"user" usage:"id of the bot, such as @hubbub:example.org; needed with MATRIX_PASSWORD, or with the token of an application service"`
	Password  string            // of User
	Transport http.RoundTripper // default: http.DefaultTransport

	AllowUsers []string `flag:"allow-user" usage:"id of a user who may invite the bot to rooms and write to it (repeatable; nobody is admitted by default)"`
	AllowRooms []string `flag:"allow-room" usage:"id of a room that is admitted with its members (repeatable)"`
	AllowAll   bool     `flag:"allow-all" usage:"admit everybody who invites the bot"`

	Glyphs bridge.Glyphs // emoji of signals, in place of the defaults
	Zones  bridge.Zones  // time zones of rooms, by their ids

	Encryption bool   `flag:"encryption" usage:"read and write in encrypted rooms (needs a hubbub-matrix built by make encryption)"`
	Folder     string // of the keys; needed with Encryption

	FilesListen string `flag:"files-listen" usage:"where files that people send are served to agents (default 127.0.0.1 and a port that stays the same; none: nowhere)"`
	FilesURL    string `flag:"files-url" usage:"address of --files-listen as agents on other machines reach it; if it is private, they need it in --allow-target"`

	SyncTimeout time.Duration `default:"30s"`   // of one long poll
	MaxPending  int           `default:"10000"` // replies waiting for Matrix

	OnReady func()          // called once, when connected and subscribed
	Crash   func(at string) // set by crash tests
	Log     *zerolog.Logger
}

// Limits that are not settings.
const (
	maxAge        = 24 * time.Hour // of a reply that waits for Matrix
	requestTime   = 30 * time.Second
	keepInbox     = 30 * 24 * time.Hour
	maxSync       = 64 << 20 // bytes of one sync, and of any other answer
	maxEvent      = 64 << 10 // bytes of one event, as Matrix limits it
	maxBackfill   = 1000     // events of one room, read after a gap
	maxText       = 16 << 10 // bytes of the text of one message
	maxMembers    = 20       // of a room whose read receipts reach agents
	maxNotices    = 3        // answers per day to one chat that is not admitted
	typingTime    = 30 * time.Second
	typingRefresh = 20 * time.Second
	maxTyping     = 5 * time.Minute
)

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.OnReady, func() {})
	defaults.Set(&d.Crash, func(string) {})
	defaults.Log(&d.Log)
	d.Glyphs = defaultGlyphs.With(d.Glyphs)
	return d
}

// defaultGlyphs are the emoji of signals. Matrix accepts any.
var defaultGlyphs = bridge.Glyphs{
	"seen": "👀", "agree": "👍", "working": "🔧", "queued": "🕐", "claimed": "✋", "done": "✅", "declined": "🙅",
	"blocked": "🚧", "unclear": "❓",
}
