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

	"hubbub/activitylog/read"
	"hubbub/activitylog/write"
	"hubbub/bus"
	"hubbub/bus/grant"
	"hubbub/cmd/internal/program"
	"hubbub/protocol/redact"

	"github.com/rs/zerolog"
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
	log     write.Options
	NoLog   bool   `flag:"no-activity-log" usage:"write no activity log (for measuring what it costs)"`
	Keep    string `flag:"activity-keep" default:"90d" usage:"how much of the activity log is kept: an age such as 90d, bytes such as 20GiB, or forever"`
	TLSCert string `flag:"tls-cert" usage:"certificate file (PEM), to serve wss; it is read again when it changes"`
	TLSKey  string `flag:"tls-key" usage:"key file (PEM) of --tls-cert"`
	cluster clusterSettings

	NoConsole bool `flag:"no-console" usage:"serve no web console at /console/"`
	NoRedact  bool `flag:"no-redact" usage:"write secrets to the activity log unchanged; otherwise each text that looks like a secret is replaced by the name of its kind"`
}

func busProgram() program.Program {
	var s settings
	return program.Program{
		Name:     "hubbub-bus",
		Summary:  "routes messages between peers and records every step in its activity log",
		NoBus:    true,
		Settings: s.all(),
		Check:    s.checkHere,
		Run:      s.run,
	}
}

// all returns all settings, in the order of the flags.
func (s *settings) all() []any { return []any{&s.bus, &s.log, s, &s.cluster} }

// run opens the log and serves until ctx ends. The log is closed after the bus, so that it
// records everything that the bus did.
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
	if !s.NoRedact {
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
	if ctx.Err() != nil {
		return nil // do not open a log only to close it: that takes seven syncs
	}
	o := &s.bus
	view := s.newView(data, &env.Log)
	var rows bus.Log
	endLog := func() error { return nil }
	if !s.NoLog {
		s.log.Bus, s.log.Log = o.Name, &env.Log
		path := filepath.Join(data, "activity.db")
		if err := write.CheckVersion(path); err != nil {
			return err
		}
		size, _ := read.DiskUsageOf(ctx, path) //nolint:errcheck // the writer says what is wrong with it
		log := write.NewWriter(path, &s.log)
		env.Log.Info().Str("path", path).Stringer("keep", s.log.Retention).Str("disk",
			s.log.Retention.Describe(size, time.Now())).
			Msg("activity log: older rows are removed with their segment (--activity-keep)")
		logCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 1)
		go func() { done <- log.Run(logCtx) }()
		served := make(chan struct{})
		context.AfterFunc(ctx, func() { log.ExtendStop(served) })
		rows, endLog = log, func() error {
			close(served)
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
	if s.TLSCert == "" && s.TLSKey == "" {
		return nil
	}
	if s.TLSCert == "" || s.TLSKey == "" {
		return program.Usage("--tls-cert and --tls-key belong together")
	}
	certificate, err := program.LoadCertificate(s.TLSCert, s.TLSKey, log)
	if err != nil {
		return err
	}
	s.bus.TLS = certificate.Config()
	return nil
}
