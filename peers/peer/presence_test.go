package peer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// TestPresence_OutlivesARestartOfTheBus checks that peers that left during the restart are
// reported after the bus has listed all peers that are present.
func TestPresence_OutlivesARestartOfTheBus(t *testing.T) {
	b := bustest.Start(t, nil)
	changes := make(chan string, 100)
	p := peer.New("agent:eye", &peer.Options{Buses: []string{b.URL()}})
	p.HandlePresence(func(news protocol.Presence) { changes <- news.State + " " + string(news.Peer) })
	run(t, p)
	want := func(w string) {
		t.Helper()
		if got := <-changes; got != w {
			t.Fatalf("told %q; want %q", got, w)
		}
	}
	want("joined agent:eye")
	a := b.Join(t, "agent:a")
	want("joined agent:a")
	once, err := wire.Dial(t.Context(), b.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { once.Close(wire.CloseNormal, "") })
	if err := once.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:z"}}`)); err != nil {
		t.Fatal(err)
	}
	once.Flush()
	want("joined agent:z")
	a.Leave()
	want("left agent:a")
	b.Restart(t)
	want("joined agent:eye") // the bus has another name now
	want("left agent:z")
	b.Join(t, "agent:a")
	want("joined agent:a")
}

// TestPresence_ConnectionEndsBeforeTheAnswer ends a connection when the peer asks for presence.
// While the next attempt takes its time, the peer must not count as connected.
func TestPresence_ConnectionEndsBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		dials := 0
		p := peer.New("agent:eye", &peer.Options{Dial: func(ctx context.Context) (jsonrpc.Stream, error) {
			if dials++; dials > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			s, err := b.Dial(ctx)
			return watched{s, func(frame string) {
				if strings.Contains(frame, string(protocol.TopicPresence)) {
					s.Close(wire.CloseNormal, "the bus is stopping")
				}
			}}, err
		}})
		p.HandlePresence(func(protocol.Presence) {})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait()
		soon, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := p.Ready(soon); !errors.Is(err, peer.ErrNotConnected) {
			t.Errorf("Ready = %v; want ErrNotConnected", err)
		}
		_, err := p.Send(soon, "agent:x", p.NewMessage(protocol.TypeAgentEvent, note{}))
		if !errors.Is(err, peer.ErrNotConnected) {
			t.Errorf("Send = %v; want ErrNotConnected, because nothing was sent", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}
