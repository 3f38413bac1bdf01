package bus

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/grant"
	"hubbub/protocol/defaults"
	"hubbub/protocol/redact"
	"hubbub/protocol/wire"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Server. Nil is valid; zero values
// mean the defaults named beside each field.
type Options struct {
	Listen           string           // address; 127.0.0.1:7892
	TLS              *tls.Config      // serves wss; none
	Plaintext        bool             // allows addresses other than loopback without TLS
	AllowOrigins     []string         // full origins, such as https://ops.example.com, in addition to the bus's own
	Credentials      *grant.File      // nil: the bus is open, and listens on loopback only
	CredentialLimits grant.Limits     // of credentials without limits of their own; DefaultCredentialLimits
	Cluster          Cluster          // joins this bus with others; none
	Console          http.Handler     // serves /console/; none
	Redact           *redact.Redactor // removes secrets from rows of the log, not from what is delivered; none
	Name             string           // of this bus, for serverId; random
	Version          string           // for serverInfo; "dev"
	Log              *zerolog.Logger
	OnReady          func(addr net.Addr) // called once, when the bus listens
	OnSweep          func()              // called after every sweep of the sessions, so only while the bus is alive
	OnIdle           func()              // called when traffic has ended, to return memory to the system

	DeliveryTimeout   time.Duration // from acceptance, time in the queue included; 30 s
	InitializeTimeout time.Duration // from the upgrade; 5 s
	WriteTimeout      time.Duration // a peer that reads nothing for this long is disconnected; 10 s
	PingInterval      time.Duration // two missed pongs close a session; 20 s
	StopTimeout       time.Duration // for what is in flight when the bus stops; 5 s
	SweepInterval     time.Duration // how often the bus looks for timeouts; 100 ms

	PeerWindow       int // unanswered deliveries per peer; 256
	PeerQueue        int // deliveries that wait per peer; 1,024
	PeerQueueBytes   int // bytes that wait per peer; 64 MiB
	PeerBuffer       int // unread bytes towards a peer before deliveries wait; 8 MiB
	SlowBytes        int // bytes that wait for all slow peers together; 128 MiB
	MaxFrame         int // bytes; 1 MiB
	MaxSubscriptions int // per session; 1,024
	MaxSessions      int // connections at once; 100,000
}

// The default limits.
const (
	DefaultDeliveryTimeout   = 30 * time.Second
	DefaultInitializeTimeout = 5 * time.Second
	DefaultWriteTimeout      = 10 * time.Second
	DefaultPingInterval      = 20 * time.Second
	DefaultPeerWindow        = 256
	DefaultPeerQueue         = 1024
	DefaultPeerQueueBytes    = 64 << 20
	DefaultPeerBuffer        = 8 << 20
	DefaultSlowBytes         = 128 << 20
	DefaultMaxFrame          = 1 << 20
	DefaultMaxSubscriptions  = 1024
	DefaultMaxSessions       = 100_000
)

// DefaultCredentialLimits are the limits of a credential without limits of its own.
var DefaultCredentialLimits = grant.Limits{
	Sessions:      1000,
	Subscriptions: 10_000,
	Messages:      20_000,
	Bytes:         64 << 20,
	LogBytes:      10 << 30,
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	defaults.Set(&out.Listen, "127.0.0.1:7892")
	defaults.Set(&out.Version, "dev")
	defaults.Set(&out.DeliveryTimeout, DefaultDeliveryTimeout)
	defaults.Set(&out.InitializeTimeout, DefaultInitializeTimeout)
	defaults.Set(&out.WriteTimeout, DefaultWriteTimeout)
	defaults.Set(&out.PingInterval, DefaultPingInterval)
	defaults.Set(&out.StopTimeout, 5*time.Second)
	defaults.Set(&out.SweepInterval, defaultSweepInterval)
	defaults.Set(&out.PeerWindow, DefaultPeerWindow)
	defaults.Set(&out.PeerQueue, DefaultPeerQueue)
	defaults.Set(&out.PeerQueueBytes, DefaultPeerQueueBytes)
	defaults.Set(&out.PeerBuffer, DefaultPeerBuffer)
	defaults.Set(&out.SlowBytes, DefaultSlowBytes)
	defaults.Set(&out.MaxFrame, DefaultMaxFrame)
	defaults.Set(&out.MaxSubscriptions, DefaultMaxSubscriptions)
	defaults.Set(&out.MaxSessions, DefaultMaxSessions)
	out.CredentialLimits = out.CredentialLimits.WithDefaults(DefaultCredentialLimits)
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

// A Log takes the rows of the activity log. See *activitylog.Writer, which implements it, for
// which methods block.
type Log interface {
	TryAppend(rows ...activitylog.Row) bool
	Append(rows ...activitylog.Row)
	Admit() error
	Stats() activitylog.Stats
}
