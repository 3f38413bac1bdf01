package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"

	"hubbub/activitylog"
	"hubbub/bus"
	"hubbub/bus/console"
	"hubbub/bus/grant"
	"hubbub/bus/report"
	"hubbub/cmd/internal/letters"
	"hubbub/peers/outbox"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// A view is the web console and what it reads.
type view struct {
	console *console.Console
	server  atomic.Pointer[bus.Server] // nil until the bus is made
	log     *activitylog.Reader        // nil without an activity log
}

// newView makes the console and sets it in the options of the bus. With --no-console it
// returns nil.
func (s *settings) newView(data string, log *zerolog.Logger) *view {
	if s.noConsole {
		return nil
	}
	v := &view{}
	if !s.noLog {
		v.log = activitylog.Open(filepath.Join(data, "activity.db"))
	}
	v.console = console.New(v, v.log, &console.Options{Gate: gate{s.bus.Credentials}, DeadLetters: deadLetters{letters.Folder(data)}, Log: log})
	s.bus.Console = v.console
	return v
}

// start makes the console show a bus. It returns a function that ends that.
func (v *view) start(server *bus.Server) (end func()) {
	if v == nil {
		return func() {}
	}
	v.server.Store(server)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = v.console.Run(ctx) // it returns nil
	}()
	return func() {
		cancel()
		<-done
		if v.log != nil {
			v.log.Close()
		}
	}
}

// Peers implements console.Bus.
func (v *view) Peers() []report.Peer {
	if server := v.server.Load(); server != nil {
		return server.Peers()
	}
	return nil
}

// Counters implements console.Bus.
func (v *view) Counters() report.Counters {
	if server := v.server.Load(); server != nil {
		return server.Counters()
	}
	return report.Counters{}
}

// A gate admits the holders of the bus's credentials.
type gate struct{ file *grant.File }

// Open implements console.Gate.
func (g gate) Open() bool { return g.file.Open() }

// Lookup implements console.Gate.
func (g gate) Lookup(token string) (console.Access, bool) {
	c, ok := g.file.Lookup(token)
	if !ok {
		return console.Access{}, false
	}
	see, act := rights(c)
	return console.Access{
		Name: c.Name, See: see, Act: act,
		Current: func() bool {
			now, ok := g.file.Current(c)
			if !ok {
				return false
			}
			seeNow, actNow := rights(now)
			return see == seeNow && act == actNow
		},
	}, true
}

// rights returns what a credential allows in the console. Its holder may see everything
// if it may subscribe to everything, and act if it is an operator who may also send
// everywhere.
func rights(c *grant.Credential) (see, act bool) {
	const everything = protocol.Pattern("*")
	everywhere := slices.ContainsFunc(c.Publish, func(p string) bool { return protocol.Pattern(p).Covers(everything) })
	see = c.MaySubscribe(everything)
	return see, see && everywhere && c.MayBe("cli:console")
}

// deadLetters are the dead letters of the programs that share the data folder, as with
// `hubbub up`: what `hubbub outbox` shows. The programs may be running.
type deadLetters struct{ letters.Folder }

var _ console.DeadLetters = deadLetters{}

// List implements console.DeadLetters.
func (d deadLetters) List(ctx context.Context, limit int) ([]console.DeadLetter, error) {
	items, err := d.Folder.List(ctx, outbox.StateDead, outbox.StateUnknown)
	if errors.Is(err, letters.ErrNoProgram) {
		err = nil // ErrUnreachable says that
	}
	if !d.HasBridge() {
		err = errors.Join(console.ErrUnreachable, err)
	}
	list := make([]console.DeadLetter, 0, min(len(items), limit))
	for i := range items[:min(len(items), limit)] {
		w := &items[i]
		list = append(list, console.DeadLetter{
			ID: w.Name(), Queue: w.Queue, Destination: w.Destination, State: string(w.State), Attempts: w.Attempts,
			QueuedAt: w.QueuedAt, Agent: w.Agent, Text: w.Text, Error: w.Error,
		})
	}
	return list, err
}
