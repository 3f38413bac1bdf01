package peer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

func TestRunWith_AwaitsAnswersOfPendingSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		slow := peer.New("agent:slow", &peer.Options{Dial: b.Dial})
		slow.HandleAny(func(context.Context, *peer.Delivery) error { time.Sleep(3 * time.Second); return nil })
		if err := slow.Subscribe(t.Context(), "agent:slow"); err != nil {
			t.Fatal(err)
		}
		run(t, slow)

		p := peer.New("cli:x", &peer.Options{Dial: b.Dial})
		ctx, stop := context.WithCancel(t.Context())
		var sent protocol.SendResult
		err := p.RunWith(ctx, func(ctx context.Context) (err error) {
			time.AfterFunc(time.Second, stop)
			sent, err = p.Send(context.WithoutCancel(ctx), "agent:slow", p.NewMessage(protocol.TypeConfigure, note{}))
			if ctx.Err() == nil {
				t.Error("the context of the work goes on")
			}
			return err
		})
		if err != nil || sent.DeliveredTo != 1 {
			t.Errorf("%+v, %v", sent, err)
		}
	})
}

func TestRunWith_EndsAtOnceWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := func(context.Context) (jsonrpc.Stream, error) { return nil, errors.New("no bus") }
		p := peer.New("cli:x", &peer.Options{Dial: away})
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		err := p.RunWith(ctx, func(ctx context.Context) error {
			_, err := p.Send(context.WithoutCancel(ctx), "agent:x", p.NewMessage(protocol.TypeConfigure, note{}))
			if !errors.Is(err, peer.ErrStopped) {
				t.Errorf("Send: %v; want ErrStopped", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestRunWith_EitherEndsTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		own := errors.New("the work is done for")
		err := peer.New("cli:x", &peer.Options{Dial: b.Dial}).RunWith(t.Context(), func(context.Context) error { return own })
		if !errors.Is(err, own) {
			t.Errorf("%v; want the error of the work", err)
		}
		synctest.Wait() // what it had begun to say may reach the bus after its end
		first := peer.New("cli:x", &peer.Options{Dial: b.Dial})
		err = first.RunWith(t.Context(), func(ctx context.Context) error {
			if err := first.Ready(ctx); err != nil {
				t.Error(err)
			}
			run(t, peer.New("cli:x", &peer.Options{Dial: b.Dial}))
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, peer.ErrReplaced) {
			t.Errorf("%v; want ErrReplaced", err)
		}
	})
}

// TestRunWith_SharesOneStopTimeout uses work and a handler that both outlast
// the stop: their waits do not add up.
func TestRunWith_SharesOneStopTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p, started := newUnstoppable(t, b, 5*time.Second)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- p.RunWith(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(4 * time.Second)
				return nil
			})
		}()
		if err := p.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		sender := b.Join(t, "cli:s")
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			sender.Peer.Send(context.Background(), "agent:x", sender.NewMessage(protocol.TypeAgentEvent, note{})) //nolint:errcheck // it fails
		}()
		<-started
		at := time.Now()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(at); took < 5*time.Second || took > 6*time.Second { // and the close handshake
			t.Errorf("the stop took %s; want 5s", took)
		}
		<-sent
	})
}
