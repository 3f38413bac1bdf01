package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"hubbub/bus/grant"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A Server is one bus.
type Server struct {
	options     Options
	log         Log // nil if the bus keeps no activity log
	index       *index
	sessions    *registry
	remotes     *remoteTable
	presence    presence
	dedup       dedupTable
	quotas      quotas
	backlog     wire.Backlog // bytes that wait for slow peers, in their streams and queues
	metrics     metrics
	initialized []byte                    // the result of initialize
	started     atomic.Pointer[time.Time] // set by Run
	// credentialsVersion is the version against which the sweeper last checked the sessions.
	credentialsVersion uint64
	shutdown           shutdown
}

// A shutdown is the state of stopping a bus.
type shutdown struct {
	stopping   atomic.Bool
	cut        chan struct{}  // closed when streams must end at once
	background sync.WaitGroup // close handshakes and pings
	inFlight   *inFlight      // unfinished publications
}

// New returns a bus that records its activity in log, which may be nil. It does no I/O.
func New(log Log, opts *Options) *Server {
	o := opts.withDefaults()
	if o.Name == "" {
		o.Name = NewName()
	}
	srv := &Server{
		options:     o,
		log:         log,
		index:       newIndex(),
		sessions:    newRegistry(o.Name, o.MaxSessions),
		remotes:     &remoteTable{buses: map[string]*remote{}},
		backlog:     wire.Backlog{Max: int64(o.SlowBytes)},
		initialized: initializeResult(o.Name, o.Version),
		shutdown:    shutdown{cut: make(chan struct{}), inFlight: newInFlight()},
	}
	srv.dedup.srv = srv
	srv.presence = presence{srv: srv, watchers: map[*session]*watcher{}}
	srv.quotas = quotas{
		metrics:  &srv.metrics,
		log:      o.Log,
		logged:   log != nil,
		defaults: o.CredentialLimits,
		byName:   map[string]*usage{},
	}
	if o.Cluster != nil {
		o.Cluster.Attach(srv)
	}
	return srv
}

// NewName returns a random name for a bus.
func NewName() string {
	b := make([]byte, 4)
	rand.Read(b) //nolint:errcheck // it never fails
	return "bus-" + hex.EncodeToString(b)
}

// Run listens on Options.Listen and serves until ctx ends. It then stops as the package documents,
// and returns nil.
func (srv *Server) Run(ctx context.Context) error {
	listener, err := net.Listen("tcp", srv.options.Listen)
	if err != nil {
		hint := "--listen must be an address of this machine"
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			hint = "is another bus running? choose another --listen"
		case errors.Is(err, syscall.EACCES):
			hint = "ports below 1024 need a privilege; choose another --listen"
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			return err // the address is not the reason
		}
		return fmt.Errorf("listening on %s: %w (%s)", srv.options.Listen, err, hint)
	}
	return srv.Serve(ctx, listener)
}

// Serve serves on listener until ctx ends, then stops as Run does and closes listener.
// Without credentials it refuses to serve other machines.
func (srv *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer listener.Close() //nolint:errcheck // run has closed it, unless it did not start
	if file := srv.options.Credentials; file != nil {
		if err := file.Reload(); err != nil {
			return err
		}
	}
	if err := srv.checkExposure(listener.Addr()); err != nil {
		return err
	}
	return srv.run(ctx, listener)
}

// ServeOn is Serve with a listener that may be nil. Without a listener, only ServeStream
// adds sessions.
func (srv *Server) ServeOn(ctx context.Context, listener net.Listener) error {
	if listener == nil {
		return srv.run(ctx, nil)
	}
	return srv.Serve(ctx, listener)
}

// answerTimeout is how long a client may take to read an HTTP answer. Sessions have
// Options.WriteTimeout instead.
const answerTimeout = 2 * time.Minute

// run serves until ctx ends.
func (srv *Server) run(ctx context.Context, listener net.Listener) error {
	at := time.Now()
	srv.started.Store(&at)
	var loops sync.WaitGroup
	loopsCtx, endLoops := context.WithCancel(context.WithoutCancel(ctx))
	loops.Go(func() { srv.sweepLoop(loopsCtx) })

	failed := make(chan error, 1)
	httpServer := &http.Server{
		Handler:           srv.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		TLSConfig:         srv.options.TLS,
		ErrorLog:          log.New(httpErrors{srv.options.Log}, "", 0),
	}
	if listener != nil {
		loops.Go(func() { failed <- serveHTTP(httpServer, listener) })
		if srv.options.OnReady != nil {
			srv.options.OnReady(listener.Addr())
		}
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	srv.shutdown.stopping.Store(true)
	srv.sessions.close()
	if listener != nil {
		listener.Close() //nolint:errcheck // nothing to do about it
	}
	srv.drain()
	close(srv.shutdown.cut)
	srv.closeSessions()
	srv.sessions.readers.Wait()
	httpServer.Close() //nolint:errcheck // nothing to do about it
	endLoops()
	loops.Wait()
	srv.shutdown.background.Wait()
	srv.shutdown.inFlight.wait(nil) // another goroutine may still be finishing the last publication
	return err
}

func serveHTTP(s *http.Server, listener net.Listener) error {
	var err error
	if s.TLSConfig != nil {
		err = s.ServeTLS(listener, "", "")
	} else {
		err = s.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drain waits for messages in flight, at most Options.StopTimeout. It then fails the forwards to
// other buses, so that their senders get an answer before their sessions are closed.
func (srv *Server) drain() {
	timer := time.NewTimer(srv.options.StopTimeout)
	defer timer.Stop()
	srv.shutdown.inFlight.wait(timer.C)
	if c := srv.options.Cluster; c != nil {
		c.FailPending("did not answer before the sender's bus stopped")
	}
}

func (srv *Server) closeSessions() {
	b := srv.newBatch()
	for _, s := range srv.sessions.all() {
		s.evict(b, wire.CloseGoingAway, "the bus is stopping")
	}
	b.flush()
}

// acceptsMessages returns an error if the bus does not accept messages now.
func (srv *Server) acceptsMessages() error {
	if srv.shutdown.stopping.Load() {
		return errors.New("the bus is stopping; send again once it is back")
	}
	if srv.log == nil {
		return nil
	}
	return srv.log.Admit()
}

// ServeStream serves one session over a stream, and returns when it has ended. The credential is
// nil on an open bus. ServeStream is for tests and in-process peers; Run must be running.
func (srv *Server) ServeStream(stream jsonrpc.Stream, remote string, credential *grant.Credential) {
	if s := srv.openSession(stream, remote, credential); s != nil {
		defer srv.closeStream(s)
		s.serve()
	}
}

// start serves one session in a new goroutine.
func (srv *Server) start(stream jsonrpc.Stream, remote string, credential *grant.Credential) {
	if s := srv.openSession(stream, remote, credential); s != nil {
		go func() {
			defer srv.closeStream(s)
			s.serve()
		}()
	}
}

// openSession adds a session. If the bus is full or stopping, it closes the stream and
// returns nil. The caller serves the session and then calls closeStream.
func (srv *Server) openSession(stream jsonrpc.Stream, remote string, credential *grant.Credential) *session {
	at := time.Now()
	s := &session{
		server: srv,
		stream: stream,
		conn:   connection{remote: remote, opened: at},
		window: window{backlog: &srv.backlog},
		pings:  pings{last: at},
	}
	s.client.credential.Store(credential)
	s.client.usage = srv.quotas.usageOf(credential, srv.options.Credentials)
	s.self.session = s
	err := s.client.usage.openSession(at)
	if err == nil {
		added, full := srv.sessions.add(s)
		if added {
			srv.recheckNew(s)
			return s
		}
		if full {
			srv.metrics.limit(limitSessions)
		}
		s.client.usage.closeSession()
		err = errors.New("the bus accepts no more connections")
	}
	stream.Close(wire.CloseTryLater, err.Error())
	return nil
}

// recheckNew ends a session whose credential was revoked during its upgrade: the sweep may have
// seen the change before the session.
func (srv *Server) recheckNew(s *session) {
	file := srv.options.Credentials
	if file == nil || file.Open() {
		return
	}
	if _, err := s.recheck(file); err != nil {
		b := srv.newBatch()
		s.evict(b, wire.ClosePolicy, err.Error())
		b.flush()
	}
}

// closeStream counts the stream of a session as closed.
func (srv *Server) closeStream(s *session) {
	s.client.usage.closeSession()
	srv.sessions.removeStream()
}

// unregister takes the identity from a session.
func (srv *Server) unregister(s *session) {
	if srv.sessions.unregister(s) {
		srv.presence.noteChange(s.id)
	}
}
