package systemd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"hubbub/peers/system"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"

	"github.com/coreos/go-systemd/v22/dbus"
	"github.com/rs/zerolog"
)

// A Scope selects the manager that runs the units.
type Scope int

// The scopes.
const (
	ScopeAuto   Scope = iota // the system manager for root, else the user manager
	ScopeSystem              // the system manager; needs root or permission from polkit
	ScopeUser                // the manager of this user's session
)

// Options are the optional settings of a Launcher. Nil is valid.
type Options struct {
	Scope       Scope
	User        string        `flag:"agent-user" usage:"with systemd: user that agents run as (default one of their own each)"`
	StopTimeout time.Duration `positive:"8s"` // after SIGTERM, before SIGKILL
	Log         *zerolog.Logger
}

// A Launcher starts agents as units.
type Launcher struct {
	folder  string
	opts    Options
	log     *zerolog.Logger
	updates chan *dbus.PropertiesUpdate // of units, from D-Bus
	lost    chan error                  // reports dropped updates

	mu      sync.Mutex // guards the fields below
	conn    *dbus.Conn // nil without a connection
	closed  bool
	waiters map[*unit]notify.Signal
}

// New returns a launcher with its files below folder. It does no I/O.
func New(folder string, opts *Options) *Launcher {
	o := defaults.Of(opts)
	if o.Scope == ScopeAuto {
		o.Scope = ScopeUser
		if os.Geteuid() == 0 {
			o.Scope = ScopeSystem
		}
	}
	defaults.Log(&o.Log)
	return &Launcher{
		folder: folder, opts: o, log: o.Log, waiters: map[*unit]notify.Signal{},
		updates: make(chan *dbus.PropertiesUpdate, 256), lost: make(chan error, 1),
	}
}

// pollInterval is how often units are checked even without a change reported by D-Bus, in case
// the connection was lost.
const pollInterval = 2 * time.Second

// Run notifies waiting instances of changes to their units, until ctx ends. It then closes the
// connection.
func (l *Launcher) Run(ctx context.Context) error {
	l.removeLeftovers()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	defer l.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case update := <-l.updates:
			l.notify(update.UnitName)
		case <-l.lost:
			l.notify("")
		case <-ticker.C:
			l.notify("")
		}
	}
}

// notify makes the instances that wait for a unit check it. An empty name means all units.
func (l *Launcher) notify(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for u, c := range l.waiters {
		if name == "" || u.name == name {
			c.Notify()
		}
	}
}

// connection returns the connection to D-Bus, and opens one if necessary.
func (l *Launcher) connection() (*dbus.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, context.Canceled
	case l.conn != nil && l.conn.Connected():
		return l.conn, nil
	case l.conn != nil:
		l.conn.Close()
		l.conn = nil
	}
	// A connection ends with its context, so it must not get the caller's.
	open := dbus.NewSystemConnectionContext
	if l.opts.Scope == ScopeUser {
		open = dbus.NewUserConnectionContext
	}
	conn, err := open(context.Background())
	if err == nil {
		if err = conn.Subscribe(); err != nil {
			conn.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reaching systemd over D-Bus: %w", err)
	}
	conn.SetPropertiesSubscriber(l.updates, l.lost)
	l.conn = conn
	return conn, nil
}

func (l *Launcher) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn != nil {
		l.conn.Close()
	}
}

// Outlives reports that units keep running without the spawner.
func (l *Launcher) Outlives() bool { return true }

func unitName(name system.AgentName) string { return "hubbub-agent-" + string(name) + ".service" }

// Paths returns the paths of an agent's files as its unit sees them.
func (l *Launcher) Paths(name system.AgentName) system.Paths {
	if l.opts.Scope == ScopeSystem {
		return system.Paths{
			Log:       "journalctl --unit " + unitName(name),
			Data:      "/var/lib/hubbub-agent-" + string(name),
			TokenFile: "/run/credentials/" + unitName(name) + "/token",
		}
	}
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	if runtime == "" {
		runtime = fmt.Sprintf("/run/user/%d", os.Geteuid())
	}
	return system.Paths{
		Log:       "journalctl --user --unit " + unitName(name),
		Data:      filepath.Join(l.folder, "agents", string(name)),
		TokenFile: filepath.Join(runtime, "credentials", unitName(name), "token"),
	}
}
