package bus_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/timetest"
	"hubbub/protocol/wire"
)

// used returns the current use of a limit.
func used(b *bustest.Bus, limit string) int { return int(b.Server().Counters().Used[limit]) }

// buffered returns the number of bytes that wait for a peer in its stream.
func buffered(b *bustest.Bus, id string) int {
	for _, p := range b.Server().Peers() {
		if p.ID == id {
			return p.Buffered
		}
	}
	return 0
}

// TestQueueBytes_AtLimitAndPast fills the bytes of the queue exactly with two
// waiting deliveries, and then lowers the limit by one byte.
func TestQueueBytes_AtLimitAndPast(t *testing.T) {
	const text = "some words"
	size := len(`{"topic":"agent:silent","payload":}`) + len(payload("m1", "cli:op", text))
	for limit, wait := range map[int]int{2 * size: 2, 2*size - 1: 1} {
		b := bustest.Start(t, &bus.Options{PeerWindow: 1, PeerQueueBytes: limit})
		rawPeer(t, b, "agent:silent", "agent:silent")
		sender := rawPeer(t, b, "cli:op")
		for n := range wait + 2 { // one in the window, and one too many
			sender.write(sendFrame(n+1, "agent:silent", "cli:op", text))
		}
		m, err := sender.read()
		if err != nil || m.ID.String() != fmt.Sprint(wait+2) || !strings.Contains(string(m.Result), `"overflow"`) {
			t.Errorf("%d bytes: the first answer is %s: %s, %v; want the overflow of %d", limit, m.ID, m.Result, err, wait+2)
		}
		if q, bytes := used(b, "peer_queue"), used(b, "peer_queue_bytes"); q != wait || bytes != wait*size || used(b, "peer_window") != 1 {
			t.Errorf("%d bytes: %d deliveries of %d bytes wait; want %d of %d", limit, q, bytes, wait, wait*size)
		}
		if n := b.Server().Counters().Limits["peer_queue"]; n != 1 {
			t.Errorf("the bound was reached %d times; want once", n)
		}
	}
}

// TestSlowBytes_AtLimitAndPast makes a delivery wait for each of two silent peers, and then
// lowers the limit by one byte. Another peer does not notice that the limit is reached.
func TestSlowBytes_AtLimitAndPast(t *testing.T) {
	const text = "some words"
	size := len(`{"topic":"agent:silent1","payload":}`) + len(payload("m1", "cli:op", text))
	for limit, wait := range map[int]int{2 * size: 2, 2*size - 1: 1} {
		b := bustest.Start(t, &bus.Options{PeerWindow: 1, SlowBytes: limit})
		rawPeer(t, b, "agent:silent1", "agent:silent1")
		rawPeer(t, b, "agent:silent2", "agent:silent2")
		quick := rawPeer(t, b, "agent:quick", "agent:quick")
		sender := rawPeer(t, b, "cli:op")
		for n, topic := range []string{"agent:silent1", "agent:silent2", "agent:silent1", "agent:silent2", "agent:silent1"} {
			sender.write(sendFrame(n+1, topic, "cli:op", text))
		}
		for n := wait + 3; n <= 5; n++ {
			m, err := sender.read()
			if err != nil || m.ID.String() != fmt.Sprint(n) || !strings.Contains(string(m.Result), `"overflow"`) {
				t.Errorf("%d bytes: an answer is %s: %s, %v; want the overflow of %d", limit, m.ID, m.Result, err, n)
			}
		}
		if bytes, times := used(b, "slow_bytes"), b.Server().Counters().Limits["slow_bytes"]; bytes != wait*size || times != uint64(3-wait) {
			t.Errorf("%d bytes: %d wait, and the bound was reached %d times; want %d and %d", limit, bytes, times, wait*size, 3-wait)
		}
		sender.write(sendFrame(6, "agent:quick", "cli:op", text))
		m, err := quick.read()
		if err != nil {
			t.Fatal(err)
		}
		quick.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true}}`)
		if m, err := sender.read(); err != nil || !strings.Contains(string(m.Result), `"deliveredTo":1`) {
			t.Errorf("%d bytes: beside slow peers, a message is answered %s, %v", limit, m.Result, err)
		}
	}
}

// TestSlowPeers_ShareOneLimit sends messages to peers that read nothing: the bytes that wait
// for all of them are bounded, except for the frames of one publication, and a peer that reads
// gets everything. After the peers that read nothing have left, nothing is counted any more.
func TestSlowPeers_ShareOneLimit(t *testing.T) {
	const deaf, limit, size = 12, 8 << 20, 256 << 10
	b := bustest.Start(t, &bus.Options{SlowBytes: limit})
	var peers []*raw
	for i := range deaf {
		peers = append(peers, socketPeer(t, b, fmt.Sprintf("agent:deaf%d", i), "room:all"))
	}
	quick := socketPeer(t, b, "agent:quick", "room:all")
	sender := rawPeer(t, b, "cli:op")
	most := 0
	for n := range 40 {
		sender.write(sendFrame(n+1, "room:all", "cli:op", strings.Repeat("x", size)))
		m, err := quick.read()
		if err != nil {
			t.Fatal(err)
		}
		quick.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true}}`)
		waitFor(t, func() bool { return buffered(b, "agent:quick") == 0 }) // the bus knows that it was read
		most = max(most, used(b, "slow_bytes"))
	}
	if most > limit+deaf*(size+1024) || most < limit/2 {
		t.Errorf("%d bytes wait; want about %d", most, limit)
	}
	var closing sync.WaitGroup
	for _, p := range peers {
		closing.Go(func() { p.stream.Close(wire.CloseNormal, "") })
	}
	closing.Wait()
	waitFor(t, func() bool { return used(b, "slow_bytes") == 0 })
}

// TestPeerBuffer_AtLimitAndPast uses a peer that reads nothing. The next
// delivery is written while fewer bytes than the bound are unread; else it waits
// until the peer has read.
func TestPeerBuffer_AtLimitAndPast(t *testing.T) {
	const text = "some words"
	frame := len(jsonrpc.AppendRequest(nil, 1, protocol.MethodProcessMessage,
		[]byte(`{"topic":"agent:deaf","payload":`+payload("m1", "cli:op", text)+`}`)))
	for limit, written := range map[int]int{frame + 1: 2, frame: 1} {
		b := bustest.Start(t, &bus.Options{PeerBuffer: limit})
		deaf := rawPeer(t, b, "agent:deaf", "agent:deaf")
		sender := rawPeer(t, b, "cli:op")
		for n := range 3 {
			sender.write(sendFrame(n+1, "agent:deaf", "cli:op", text))
		}
		waitFor(t, func() bool { return used(b, "peer_queue") == 3-written })
		if w, bytes := used(b, "peer_window"), used(b, "peer_buffer_bytes"); w != written || bytes != written*frame {
			t.Errorf("a buffer of %d: %d deliveries of %d bytes were written; want %d of %d", limit, w, bytes, written, written*frame)
		}
		for range 3 { // what waits goes out as the peer reads and answers
			m, err := deaf.read()
			if err != nil {
				t.Fatal(err)
			}
			deaf.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		}
		for range 3 {
			if m, err := sender.read(); err != nil || !strings.Contains(string(m.Result), `"deliveredTo":1`) {
				t.Errorf("a buffer of %d: %s, %v; want it delivered", limit, m.Result, err)
			}
		}
	}
}

// A pausedPeer stream does not answer its first pings.
type pausedPeer struct {
	jsonrpc.Stream
	misses atomic.Int32
	unread atomic.Int32 // how often it says that there is more to read
}

// Ping waits for a pong.
func (d *pausedPeer) Ping(ctx context.Context) error {
	if d.misses.Add(-1) < 0 {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// HasUnread reports whether the session has input to read.
func (d *pausedPeer) HasUnread() bool { return d.unread.Add(-1) >= 0 }

// TestPing_AtLimitAndPast misses one ping, which is forgiven, and then two. It misses five
// while there is input that the session has not yet read.
func TestPing_AtLimitAndPast(t *testing.T) {
	for misses, behind := range map[int32]int32{1: 0, 2: 0, 5: 5} {
		lives := misses-behind < 2
		synctest.Test(t, func(t *testing.T) {
			b := bustest.StartInMemory(t, &bus.Options{PingInterval: 20 * time.Second})
			ours, theirs := wire.Pipe(nil)
			d := &pausedPeer{Stream: theirs}
			d.misses.Store(misses)
			d.unread.Store(behind)
			var serving sync.WaitGroup
			serving.Go(func() { b.Server().ServeStream(d, "in memory", nil) })
			open(t, ours, "agent:pausedPeer")
			start := time.Now()
			ended := make(chan error, 1)
			serving.Go(func() {
				_, err := ours.Read()
				ended <- err
			})
			select {
			case err := <-ended:
				if took := time.Since(start); lives || wire.CloseCode(err) != wire.ClosePolicy || took < 60*time.Second || took > 61*time.Second {
					t.Errorf("%d misses: it ended after %s with %v; want 1008 after three intervals, or life", misses, took, err)
				}
			case <-time.After(10 * time.Minute):
				if !lives || d.misses.Load() > -5 {
					t.Errorf("%d misses: the session lives after 10 minutes, and was pinged %d times", misses, misses-d.misses.Load())
				}
			}
			if n := b.Server().Counters().Limits["ping"]; (n == 0) != lives {
				t.Errorf("%d misses: the bound was reached %d times", misses, n)
			}
			ours.Close(wire.CloseNormal, "")
			serving.Wait()
		})
	}
}

// TestCluster_CountsAnswersInTime initializes, and answers a delivery, just before the
// deadline.
func TestCluster_CountsAnswersInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		s, err := b.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		timetest.Advance(5*time.Second - time.Millisecond)
		late := open(t, s, "agent:late", "agent:late")
		sender := b.Join(t, "cli:op")
		var sending sync.WaitGroup
		sending.Go(func() {
			m := sender.Peer.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{})
			if r, err := sender.Peer.Send(context.Background(), "agent:late", m); err != nil || r.DeliveredTo != 1 {
				t.Errorf("%+v, %v; want it delivered", r, err)
			}
		})
		m, err := late.read()
		if err != nil {
			t.Fatal(err)
		}
		timetest.Advance(30*time.Second - time.Millisecond)
		late.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
		sending.Wait()
	})
}

// TestFailures_FitFrame uses peers that refuse with long reasons: few of
// them, many, and more than half a frame can name.
func TestFailures_FitFrame(t *testing.T) {
	const frame = 4096
	reason := strings.Repeat("no ", 100)
	for count, want := range map[int]struct{ named, reasons int }{
		5: {5, 5}, 10: {10, 0}, 80: {40, 0},
	} {
		b := bustest.Start(t, &bus.Options{MaxFrame: frame})
		for i := range count {
			b.Join(t, protocol.PeerID(fmt.Sprintf("agent:%d", i)), "collab:all").Refuse(func(*bustest.Delivery) error { return peer.Reject(reason) })
		}
		sender := b.Join(t, "cli:op")
		r := sender.Send(t, "collab:all", protocol.TypeAgentEvent, protocol.AgentOnline{})
		reasons := 0
		for _, f := range r.Failures {
			if f.Error != "" {
				reasons++
			}
			if f.Status != protocol.OutcomeRejected || !strings.HasPrefix(string(f.Peer), "agent:") {
				t.Errorf("%d peers: a failure is %+v", count, f)
			}
		}
		if len(r.Failures) != want.named || r.Omitted != count-want.named || reasons != want.reasons {
			t.Errorf("%d peers: %d failures and %d omitted, %d with a reason; want %d and %d", count, len(r.Failures), r.Omitted, reasons, want.named, want.reasons)
		}
	}
}
