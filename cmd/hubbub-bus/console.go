package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"hubbub/activitylog/read"
	"hubbub/bus"
	"hubbub/bus/console"
	"hubbub/bus/grant"
	"hubbub/bus/report"
	"hubbub/cmd/internal/deadletter"
	"hubbub/cmd/internal/directchat"
	client "hubbub/peers/collab"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"

	"github.com/rs/zerolog"
)

// A view is the web console with its data sources.
type view struct {
	console *console.Console
	server  atomic.Pointer[bus.Server] // nil until the bus exists
	log     *read.Reader               // nil without an activity log
	streams sync.WaitGroup             // of visitors that ask the broker
}

// newView makes the console and adds it to the options of the bus. With --no-console it returns
// nil.
func (s *settings) newView(data string, log *zerolog.Logger) *view {
	if s.NoConsole {
		return nil
	}
	v := &view{}
	if !s.NoLog {
		v.log = read.Open(filepath.Join(data, "activity.db"))
	}
	v.console = console.New(v, v.log, &console.Options{
		Credentials: consoleCredentials{s.bus.Credentials, v},
		DeadLetters: deadLetters{deadletter.Folder(data)},
		ActingAs:    &brokerClient{view: v},
		Log:         log,
	})
	s.bus.Console = v.console
	return v
}

// start connects the console to a bus. It returns a function that disconnects it.
func (v *view) start(server *bus.Server) (end func()) {
	if v == nil {
		return func() {}
	}
	v.server.Store(server)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = v.console.Run(ctx) // never fails
	}()
	return func() {
		cancel()
		<-done
		v.streams.Wait()
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

// consoleCredentials admit the holders of the bus's credentials to the console.
type consoleCredentials struct {
	file *grant.File
	view *view
}

// Open implements console.Credentials.
func (c consoleCredentials) Open() bool { return c.file.Open() }

// Lookup implements console.Credentials.
func (c consoleCredentials) Lookup(token string) (console.Access, bool) {
	held, ok := c.file.Lookup(token)
	if !ok {
		return console.Access{}, false
	}
	see, act := rights(held)
	return console.Access{
		Name:     held.Name,
		MayRead:  see,
		MayAct:   act,
		ActingAs: &brokerClient{c.view, c.file, held, ""},
		Valid: func() bool {
			now, ok := c.file.Current(held)
			if !ok {
				return false
			}
			seeNow, actNow := rights(now)
			return see == seeNow && act == actNow
		},
	}, true
}

// rights returns the rights of a credential in the console. Its holder may see everything if it
// may subscribe to everything. It may act if it is an operator that may also send everywhere.
func rights(c *grant.Credential) (see, act bool) {
	const everything = protocol.Pattern("*")
	everywhere := slices.ContainsFunc(c.Publish, func(p string) bool { return protocol.Pattern(p).Covers(everything) })
	see = c.MaySubscribe(everything)
	return see, see && everywhere && c.MayBe("cli:console")
}

// A brokerClient opens a session for each request, with the rights of a credential, or on an open
// bus with all rights.
type brokerClient struct {
	view       *view
	file       *grant.File
	credential *grant.Credential // nil on an open bus
	as         protocol.PeerID   // the acting person, if the credential grants it; empty: the holder
}

var _ console.ActingAs = (*brokerClient)(nil)

// Call implements collab.Asker.
func (v *brokerClient) Call(ctx context.Context, method string, params any) (result json.RawMessage, err error) {
	p, _, err := v.peer(newRun())
	if err != nil {
		return nil, err
	}
	client := client.New(p.ID(), p.Send, nil)
	p.Handle(protocol.TypeCollabResult, client.Take)
	if err := p.Subscribe(ctx, protocol.Pattern(p.ID())); err != nil {
		return nil, err
	}
	err = p.RunWith(ctx, func(ctx context.Context) error {
		var err error
		result, err = client.Call(ctx, method, params)
		return err
	})
	return result, err
}

// DirectChat implements console.ActingAs. Each agent has its own chat with the holder, with one
// message at a time. A second window ends the wait of the first.
func (v *brokerClient) DirectChat(ctx context.Context, agent protocol.PeerID, text string) (answer string, err error) {
	p, person, err := v.peer(directchat.Suffix(agent))
	switch {
	case err != nil:
		return "", err
	case !strings.HasSuffix(string(p.ID()), directchat.Suffix(agent)):
		return "", fmt.Errorf("the credential may not be cli:NAME%s, to which the agent answers: give it the "+
			"identity cli:*",
			directchat.Suffix(agent))
	}
	said, answers := directchat.NewMessage(p.ID(), person, text), make(chan string, 1)
	for _, t := range []protocol.MessageType{protocol.TypeTGReply, protocol.TypeChatReply} {
		p.Handle(t, func(_ context.Context, d *peer.Delivery) error {
			var r protocol.ChatReply
			if err := d.Decode(&r); err != nil || d.Message.From != agent || r.InReplyTo != string(said.MessageID) ||
				directchat.ReplyText(&r) == "" {
				return err
			}
			select {
			case answers <- directchat.ReplyText(&r):
			default: // the first one is shown
			}
			return nil
		})
	}
	if err := p.Subscribe(ctx, protocol.Pattern(p.ID())); err != nil {
		return "", err
	}
	err = p.RunWith(ctx, func(ctx context.Context) error {
		result, err := p.Send(ctx, agent.Topic(), said)
		if err == nil {
			err = directchat.CheckSent(agent, &result)
		}
		if err != nil {
			return err
		}
		select {
		case answer = <-answers:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return answer, err
}

// As implements console.ActingAs.
func (v *brokerClient) As(person protocol.PeerID) console.ActingAs {
	other := *v
	other.as = person
	return &other
}

// ResetBudget implements console.ActingAs.
func (v *brokerClient) ResetBudget(ctx context.Context, agent protocol.PeerID) error {
	p, person, err := v.peer(newRun())
	if err != nil {
		return err
	}
	return p.RunWith(ctx, func(ctx context.Context) error {
		result, err := p.Send(ctx, agent.Topic(), p.NewMessage(protocol.TypeConfigure, protocol.Configure{
			TalkTo: agent.Topic(),
			Halt:   "anew",
			By:     person,
		}))
		if err == nil {
			err = directchat.CheckSent(agent, &result)
		}
		return err
	})
}

// newRun returns the unique end of a request's identity.
func newRun() string { return "." + strings.ToLower(rand.Text()[:10]) }

// peer makes the client of one request. Its identity is the person's, with the suffix if that is
// granted.
func (v *brokerClient) peer(suffix string) (p *peer.Peer, person string, err error) {
	server, holder := v.view.server.Load(), v.credential
	if holder != nil {
		now, ok := v.file.Current(holder)
		if !ok {
			return nil, "", errors.New("the credential is no longer valid")
		}
		holder = now
	}
	if server == nil {
		return nil, "", errors.New("the bus has not started")
	}
	id := consoleIdentity(holder, suffix, v.as)
	person, _, _ = strings.Cut(id.Name(), ".")
	return peer.New(id, &peer.Options{Dial: func(context.Context) (jsonrpc.Stream, error) {
		ours, theirs := wire.Pipe(nil)
		v.view.streams.Go(func() { server.ServeStream(theirs, "console", holder) })
		return ours, nil
	}}), person, nil
}

// consoleIdentity returns the identity with which the holder of a credential asks: that of the
// named person if it is granted, else the holder's name. Records show who decided.
func consoleIdentity(c *grant.Credential, run string, as protocol.PeerID) protocol.PeerID {
	names := []protocol.PeerID{"cli:console"}
	if c != nil {
		names = slices.Insert(names, 0, protocol.PeerID("cli:"+c.Name))
	}
	if as != "" {
		names = slices.Insert(names, 0, as)
	}
	for _, name := range names {
		id := name + protocol.PeerID(run)
		if (c == nil || c.MayBe(id)) && protocol.CheckTopic(string(id)) == nil {
			return id
		}
	}
	return "cli:console"
}

// deadLetters are the dead letters of the programs that share the data folder, as listed by
// `hubbub outbox`. The programs may be running.
type deadLetters struct{ deadletter.Folder }

var _ console.DeadLetters = deadLetters{}

// List implements console.DeadLetters.
func (d deadLetters) List(ctx context.Context, limit int) ([]console.DeadLetter, error) {
	items, err := d.Folder.List(ctx, outbox.StateDead, outbox.StateUnknown)
	if errors.Is(err, deadletter.ErrNoProgram) {
		err = nil // reported by ErrUnreachable
	}
	if !d.HasBridge() {
		err = errors.Join(console.ErrUnreachable, err)
	}
	list := make([]console.DeadLetter, 0, min(len(items), limit))
	for i := range items[:min(len(items), limit)] {
		w := &items[i]
		list = append(list, console.DeadLetter{
			ID:          w.Name(),
			Queue:       w.Queue,
			Destination: w.Destination,
			State:       string(w.State),
			Attempts:    w.Attempts,
			QueuedAt:    w.QueuedAt,
			Agent:       w.Agent,
			Text:        w.Text,
			Error:       w.Error,
		})
	}
	return list, err
}
