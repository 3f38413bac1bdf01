package bustest

import (
	"context"
	"sync"
	"testing"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"
)

// A Delivery is one message that a scripted peer has received.
type Delivery = peer.Delivery

// A Scripted is a peer that records its deliveries and answers "processed".
type Scripted struct {
	*peer.Peer
	deliveries chan *Delivery
	mu         sync.Mutex // guards refuse and waits
	refuse     func(*Delivery) error
	timeout    time.Duration
	stop       context.CancelFunc
	done       chan struct{}
}

// defaultTimeout is how long a test waits for a delivery or an answer; see SetTimeout.
const defaultTimeout = time.Minute

// Join connects a scripted peer, subscribed to the patterns.
func (b *Bus) Join(t testing.TB, id protocol.PeerID, patterns ...protocol.Pattern) *Scripted {
	t.Helper()
	return join(t, id, &peer.Options{Dial: b.Dial}, patterns)
}

// JoinWithToken is Join with the token of a credential, for a bus of StartWithCredentials.
func (b *Bus) JoinWithToken(t testing.TB, token string, id protocol.PeerID, patterns ...protocol.Pattern) *Scripted {
	t.Helper()
	return join(t, id, &peer.Options{Buses: []string{b.URL()}, Token: token}, patterns)
}

func join(t testing.TB, id protocol.PeerID, link *peer.Options, patterns []protocol.Pattern) *Scripted {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &Scripted{
		Peer:       peer.New(id, link),
		deliveries: make(chan *Delivery, 10_000), timeout: defaultTimeout, stop: stop, done: make(chan struct{}),
	}
	s.HandleAny(s.record)
	if err := s.Subscribe(ctx, patterns...); err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	go func() {
		defer close(s.done)
		if err := s.Run(ctx); err != nil {
			t.Logf("scripted peer %s ended: %v", id, err)
		}
	}()
	t.Cleanup(s.Leave)
	ready, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	if err := s.Ready(ready); err != nil {
		t.Fatalf("%s does not connect: %v", id, err)
	}
	return s
}

func (s *Scripted) record(_ context.Context, d *Delivery) error {
	s.mu.Lock()
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		if err := refuse(d); err != nil {
			return err
		}
	}
	s.deliveries <- d
	return nil
}

// Refuse makes the peer refuse the deliveries for which f returns an error. A nil f stops that.
func (s *Scripted) Refuse(f func(*Delivery) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = f
}

// SetTimeout sets how long the test waits for later deliveries and answers.
func (s *Scripted) SetTimeout(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeout = d
}

func (s *Scripted) currentTimeout() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timeout
}

// Leave disconnects the peer and waits for its end.
func (s *Scripted) Leave() {
	s.stop()
	<-s.done
}

// Send sends a message from the peer itself.
func (s *Scripted) Send(
	t testing.TB, topic protocol.Topic, kind protocol.MessageType, content any,
) protocol.SendResult {
	t.Helper()
	return s.SendAs(t, s.ID(), topic, kind, content)
}

// SendAs sends a message from an identity that the peer may speak for.
func (s *Scripted) SendAs(
	t testing.TB, from protocol.PeerID, topic protocol.Topic, kind protocol.MessageType, content any,
) protocol.SendResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), s.currentTimeout())
	defer cancel()
	result, err := s.Peer.Send(ctx, topic, protocol.NewMessage(kind, from, content))
	if err != nil {
		t.Fatalf("%s sends %s to %s: %v", from, kind, topic, err)
	}
	return result
}

// Next waits for the next delivery.
func (s *Scripted) Next(t testing.TB) *Delivery {
	t.Helper()
	timer := time.NewTimer(s.currentTimeout())
	defer timer.Stop()
	select {
	case d := <-s.deliveries:
		return d
	case <-timer.C:
		t.Fatalf("%s got nothing", s.ID())
		return nil
	}
}

// NextOf waits for the next delivery of a type and drops the others before it.
func (s *Scripted) NextOf(t testing.TB, kind protocol.MessageType) *Delivery {
	t.Helper()
	for {
		if d := s.Next(t); d.Message.Type == kind {
			return d
		}
	}
}

// Pending returns the number of recorded deliveries that Next has not returned.
func (s *Scripted) Pending() int { return len(s.deliveries) }
