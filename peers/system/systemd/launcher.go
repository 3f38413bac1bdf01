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

// A Scope says whose manager runs the units.
type Scope int

// The scopes.
const (
	ScopeAuto   Scope = iota // the system's for root, else the user's
	ScopeSystem              // the system's manager; needs root, or permission by polkit
	ScopeUser                // the manager of this user's session
)

// Options are the optional settings of a Launcher. Nil is valid.
type Options struct {
	Scope       Scope
	User        string        // that agents run as with the system's manager; default: a user of its own for each
	StopTimeout time.Duration // after SIGTERM, before SIGKILL; default 8s
	Log         *zerolog.Logger
}

// A Launcher starts agents as units.
type Launcher struct {
	folder  string
	opts    Options
	log     *zerolog.Logger
	updates chan *dbus.PropertiesUpdate // of units, from D-Bus
	lost    chan error                  // signals that updates were dropped

	mu      sync.Mutex // guards the fields below
	conn    *dbus.Conn // nil while there is none
	closed  bool
	waiters map[*unit]notify.Signal
}

// New makes a launcher that keeps its files below folder. It does no I/O.
func New(folder string, opts *Options) *Launcher {
	o := defaults.Of(opts)
	if o.Scope == ScopeAuto {
		o.Scope = ScopeUser
		if os.Geteuid() == 0 {
			o.Scope = ScopeSystem
		}
	}
	defaults.Positive(&o.StopTimeout, 8*time.Second)
	defaults.Log(&o.Log)
	return &Launcher{
		folder: folder, opts: o, log: o.Log, waiters: map[*unit]notify.Signal{},
		updates: make(chan *dbus.PropertiesUpdate, 256), lost: make(chan error, 1),
	}
}

// pollInterval is how often units are looked at even if D-Bus reported no change: the
// connection may have been lost.
const pollInterval = 2 * time.Second

// Run wakes waiting instances when their units change, until ctx ends. Then it closes
// the connection.
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

// connection returns the connection to D-Bus. It opens one if there is none.
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
	// A connection ends with its context, so it gets none of a caller's.
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

// Outlives reports that units go on without the spawner.
func (l *Launcher) Outlives() bool { return true }

func unitName(name system.AgentName) string { return "hubbub-agent-" + string(name) + ".service" }

// Paths returns the paths of an agent's files, as its unit sees them.
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
