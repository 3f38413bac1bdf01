package bus

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/write"
	"hubbub/bus/grant"
	"hubbub/protocol/defaults"
	"hubbub/protocol/redact"
	"hubbub/protocol/wire"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Server. Nil is valid; the zero value of a field means
// the default in its tag.
type Options struct {
	Listen           string           `flag:"listen" default:"127.0.0.1:7892" usage:"address to listen on"`
	TLS              *tls.Config      // for wss; none
	Plaintext        bool             `flag:"plaintext" usage:"allow other addresses than loopback without TLS"`
	AllowOrigins     []string         `flag:"allow-origin,split" usage:"full origin of a web page that may connect, such as https://ops.example.com (repeatable)"`
	Credentials      *grant.File      // nil: the bus is open, and listens on loopback only
	CredentialLimits grant.Limits     // of credentials without limits of their own
	Cluster          Cluster          // joins this bus with others; none
	Console          http.Handler     // serves /console/; none
	Redact           *redact.Redactor // removes secrets from rows of the log, not from what is delivered; none
	Name             string           `flag:"name" usage:"name of this bus in its answers and rows (default random, kept in the data folder)"`
	Version          string           `default:"dev"` // for serverInfo
	Log              *zerolog.Logger
	OnReady          func(addr net.Addr) // called once, when the bus listens
	OnSweep          func()              // called after every sweep of the sessions, while the bus is alive
	OnIdle           func()              // called when traffic has ended, to return memory to the system

	DeliveryTimeout   time.Duration `flag:"delivery-timeout" positive:"30s" usage:"how long a peer may take to answer a delivery, queue time included"`
	InitializeTimeout time.Duration `flag:"initialize-timeout" positive:"5s" usage:"how long a connection may take to initialize"`
	WriteTimeout      time.Duration `flag:"write-timeout" positive:"10s" usage:"how long a peer may read nothing before its connection is closed"`
	PingInterval      time.Duration `flag:"ping-interval" positive:"20s" usage:"between pings; two unanswered ones close a session"`
	StopTimeout       time.Duration `positive:"5s"`    // for messages in flight when the bus stops
	SweepInterval     time.Duration `positive:"100ms"` // how often the bus looks for timeouts

	PeerWindow       int `flag:"peer-window" positive:"256" usage:"unanswered deliveries per peer"`
	PeerQueue        int `flag:"peer-queue" positive:"1024" usage:"deliveries that wait per peer; one more fails as overflow"`
	PeerQueueBytes   int `flag:"peer-queue-bytes" positive:"64<<20" usage:"bytes that wait per peer"`
	PeerBuffer       int `flag:"peer-buffer" positive:"8<<20" usage:"unread bytes towards a peer before its deliveries wait"`
	SlowBytes        int `flag:"slow-bytes" positive:"128<<20" usage:"bytes that wait for all slow peers together; what is beyond fails as overflow"`
	MaxFrame         int `flag:"max-frame" positive:"1<<20" usage:"largest frame, in bytes"`
	MaxSubscriptions int `flag:"max-subscriptions" positive:"1024" usage:"subscriptions per session"`
	MaxSessions      int `flag:"max-sessions" positive:"100000" usage:"connections at once"`
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Set(&out.OnSweep, func() {})
	defaults.Set(&out.OnIdle, func() {})
	defaults.Log(&out.Log)
	return out
}

func (srv *Server) wire() *wire.Options {
	o := &srv.options
	return &wire.Options{
		MaxFrame:     o.MaxFrame,
		WriteTimeout: o.WriteTimeout,
		MaxBuffered:  o.PeerBuffer,
		Upgrades:     upgrades,
		Backlog:      &srv.backlog,
		Cut:          srv.shutdown.cut,
	}
}

// A Log records the rows of the activity log. *write.Writer implements it, and documents which
// methods block.
type Log interface {
	TryAppend(wait time.Duration, rows ...activitylog.Row) bool
	Append(rows ...activitylog.Row)
	Admit() error
	Stats() write.Stats
}
