// Command hubbub-bus runs the bus: peers connect to it over WebSocket, subscribe and send.
package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"hubbub/activitylog"
	"hubbub/bus"
	"hubbub/bus/grant"
	"hubbub/cmd/internal/program"
	"hubbub/protocol/redact"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"
)

func main() { program.Main(busProgram()) }

// Bounds of the steps of a stop. Close handshakes take 1 s more, and the copies of the last rows
// (NATS, traces) 2 s. The sum is less than program.Main allows, even if no peer answers and
// nothing takes the rows. While rows wait for a disk that makes progress, the log extends it.
const (
	drainTime = 3 * time.Second // for the messages in flight
	logTime   = 3 * time.Second // for the rows, if the log fails
)

// settings are the values of the flags.
type settings struct {
	bus     bus.Options
	log     activitylog.Options
	noLog   bool
	keep    string
	tlsCert string
	tlsKey  string
	cluster clusterSettings

	noConsole bool
	noRedact  bool
}

func busProgram() program.Program {
	var s settings
	return program.Program{
		Name:    "hubbub-bus",
		Summary: "routes messages between peers and records every step in its activity log",
		NoBus:   true,
		Flags:   s.flags,
		Check:   s.checkHere,
		Run:     s.run,
	}
}

func (s *settings) flags(fs *pflag.FlagSet) {
	o := &s.bus
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:7892", "address to listen on")
	fs.StringVar(&o.Name, "name", "", "name of this bus in its answers and rows (default random, kept in the data folder)")
	fs.StringVar(&s.tlsCert, "tls-cert", "", "certificate file (PEM), to serve wss; it is read again when it changes")
	fs.StringVar(&s.tlsKey, "tls-key", "", "key file (PEM) of --tls-cert")
	fs.BoolVar(&o.Plaintext, "plaintext", false, "allow other addresses than loopback without TLS")
	fs.StringSliceVar(&o.AllowOrigins, "allow-origin", nil,
		"full origin of a web page that may connect, such as https://ops.example.com (repeatable)")
	fs.DurationVar(&o.DeliveryTimeout, "delivery-timeout", bus.DefaultDeliveryTimeout,
		"how long a peer may take to answer a delivery, queue time included")
	fs.DurationVar(&o.InitializeTimeout, "initialize-timeout", bus.DefaultInitializeTimeout,
		"how long a connection may take to initialize")
	fs.DurationVar(&o.WriteTimeout, "write-timeout", bus.DefaultWriteTimeout,
		"a peer that reads nothing for so long is closed")
	fs.DurationVar(&o.PingInterval, "ping-interval", bus.DefaultPingInterval,
		"between pings; two unanswered ones close a session")
	fs.IntVar(&o.PeerWindow, "peer-window", bus.DefaultPeerWindow, "unanswered deliveries per peer")
	fs.IntVar(&o.PeerQueue, "peer-queue", bus.DefaultPeerQueue,
		"deliveries that wait per peer; one more fails as overflow")
	fs.IntVar(&o.PeerQueueBytes, "peer-queue-bytes", bus.DefaultPeerQueueBytes, "bytes that wait per peer")
	fs.IntVar(&o.PeerBuffer, "peer-buffer", bus.DefaultPeerBuffer,
		"unread bytes towards a peer before its deliveries wait")
	fs.IntVar(&o.SlowBytes, "slow-bytes", bus.DefaultSlowBytes,
		"bytes that wait for all slow peers together; what is beyond fails as overflow")
	fs.IntVar(&o.MaxFrame, "max-frame", bus.DefaultMaxFrame, "largest frame, in bytes")
	fs.IntVar(&o.MaxSubscriptions, "max-subscriptions", bus.DefaultMaxSubscriptions, "subscriptions per session")
	fs.IntVar(&o.MaxSessions, "max-sessions", bus.DefaultMaxSessions, "connections at once")
	o.CredentialLimits = bus.DefaultCredentialLimits
	for _, bound := range s.credentialBounds() {
		fs.Int64Var((*int64)(bound.value), bound.flag, int64(*bound.value), bound.usage)
	}
	fs.IntVar(&s.log.QueueRows, "activity-queue", activitylog.DefaultQueueRows,
		"rows that may wait for the activity log")
	fs.IntVar(&s.log.QueueBytes, "activity-queue-bytes", activitylog.DefaultQueueBytes,
		"bytes that may wait for the activity log")
	fs.DurationVar(&s.log.Hold, "activity-hold", activitylog.DefaultHold,
		"how long publishers wait for a commit of the activity log that takes long, before rows are lost")
	fs.Int64Var(&s.log.MaxWAL, "activity-wal", activitylog.DefaultMaxWAL,
		"bytes that the activity log's write-ahead file may grow to while a reader keeps it from being cut")
	fs.Int64Var(&s.log.SegmentRows, "activity-segment-rows", activitylog.DefaultSegmentRows,
		"rows of the activity log's live file, before it is sealed and a new one begins")
	fs.Int64Var(&s.log.SegmentBytes, "activity-segment-bytes", activitylog.DefaultSegmentBytes,
		"bytes of the live file, likewise")
	fs.DurationVar(&s.log.SegmentAge, "activity-segment-age", activitylog.DefaultSegmentAge,
		"time since the first row of the live file, likewise")
	fs.StringVar(&s.keep, "activity-keep", activitylog.DefaultRetention,
		"how much of the activity log is kept: an age such as 90d, bytes such as 20GiB, or forever")
	fs.BoolVar(&s.log.Required, "activity-required", false, "refuse messages while the activity log cannot keep up")
	fs.BoolVar(&s.noRedact, "no-redact", false,
		"write secrets to the activity log as they are; otherwise what has the shape of one is replaced by its name")
	fs.BoolVar(&s.noConsole, "no-console", false, "serve no web console at /console/")
	s.cluster.flags(fs)
	fs.BoolVar(&s.noLog, "no-activity-log", false, "write no activity log (for measuring what it costs)")
}

// A credentialBound is a flag with a bound of each credential.
type credentialBound struct {
	flag  string
	value *grant.Limit
	usage string
}

func (s *settings) credentialBounds() []credentialBound {
	b := &s.bus.CredentialLimits
	const unless = ", unless credentials.toml says otherwise"
	return []credentialBound{
		{"credential-sessions", &b.Sessions, "connections of one credential at once" + unless},
		{"credential-subscriptions", &b.Subscriptions, "subscriptions of all sessions of one credential" + unless},
		{"credential-messages", &b.Messages, "messages a second of one credential, twice as many at once" + unless},
		{"credential-bytes", &b.Bytes, "bytes of messages a second of one credential, twice as many at once" + unless},
		{"credential-log-bytes", &b.LogBytes, "bytes a day that one credential may add to the activity log" + unless},
	}
}

// run opens the log and serves until ctx ends. The log is closed after the bus, so that it has
// everything that the bus did.
func (s *settings) run(ctx context.Context, env *program.Env) error {
	release, err := env.AwaitData(ctx) // the activity log has one writer
	if err != nil {
		return err
	}
	defer release()
	data := env.Data
	o := &s.bus
	if o.Name == "" {
		if o.Name, err = keptName(data); err != nil {
			return err
		}
	}
	o.Credentials = grant.NewFile(filepath.Join(data, grant.FileName))
	if !s.noRedact {
		o.Redact = redact.New()
	}
	o.StopTimeout, s.log.StopTimeout, s.log.OnStopExtended = drainTime, logTime, env.ExtendStop
	o.Version, o.Log, o.OnSweep = program.Version(), &env.Log, env.Pulse
	joined, err := s.cluster.join(o, &s.log, &env.Log)
	if err != nil {
		return err
	}
	if err := joined.exportSpans(&s.log, &env.Log); err != nil {
		return err
	}
	o.OnIdle = debug.FreeOSMemory
	defer runtime.KeepAlive(headroom())
	o.OnReady = func(addr net.Addr) {
		env.Log.Info().Str("listen", addr.String()).Str("data", data).Msg("listening")
		env.Ready()
	}
	ctx, joined.failed = context.WithCancel(ctx)
	defer joined.failed()
	return errors.Join(s.serve(ctx, env, data, joined), joined.wait())
}

func (s *settings) serve(ctx context.Context, env *program.Env, data string, joined *joined) error {
	o := &s.bus
	view := s.newView(data, &env.Log)
	var rows bus.Log
	endLog := func() error { return nil }
	if !s.noLog {
		s.log.Bus, s.log.Log = o.Name, &env.Log
		path := filepath.Join(data, "activity.db")
		if err := activitylog.CheckVersion(path); err != nil {
			return err
		}
		size, _ := activitylog.DiskUsageOf(ctx, path) //nolint:errcheck // the writer says what is wrong with it
		log := activitylog.NewWriter(path, &s.log)
		env.Log.Info().Str("path", path).Stringer("keep", s.log.Retention).Str("disk",
			s.log.Retention.Describe(size, time.Now())).
			Msg("activity log: what is older leaves with its segment (--activity-keep)")
		logCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() { done <- log.Run(logCtx) }()
		rows, endLog = log, func() error {
			cancel()
			return <-done
		}
		select {
		case <-log.Opened(): // so that "ready" means that rows can be written
		case <-ctx.Done():
			return endLog()
		}
	}
	server := bus.New(rows, o)
	joined.start()
	defer joined.stop() // once the bus and its log have ended
	endView := view.start(server)
	err := server.Run(ctx)
	endView()
	return errors.Join(err, endLog())
}

func (s *settings) loadTLS(log *zerolog.Logger) error {
	if s.tlsCert == "" && s.tlsKey == "" {
		return nil
	}
	if s.tlsCert == "" || s.tlsKey == "" {
		return program.Usage("--tls-cert and --tls-key belong together")
	}
	certificate, err := program.LoadCertificate(s.tlsCert, s.tlsKey, log)
	if err != nil {
		return err
	}
	s.bus.TLS = certificate.Config()
	return nil
}
