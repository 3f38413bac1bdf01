package broker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// BenchmarkPosts makes 2,000 posts from 50 clients over a real bus on loopback. Each is answered
// after its commit, and every tenth wakes an agent. The latency of a post is from its send to the
// arrival of its collab_result.
func BenchmarkPosts(b *testing.B) {
	for range b.N {
		benchmarkPosts(b, 2000, 50)
	}
}

func benchmarkPosts(b *testing.B, posts, clients int) {
	b.StopTimer()
	hub := bustest.Start(b, nil)
	r := start(b, hub, filepath.Join(b.TempDir(), "broker.db"), nil)
	defer r.stop()
	lead := join(b, hub, "agent:lead")
	defer lead.Leave()
	lead.do("identity.announce", object{"endpointId": "e1"})
	lead.do("conversation.create", object{"id": "c", "kind": "group"})
	all := make([]*poster, clients)
	for i := range all {
		all[i] = newPoster(b, hub, protocol.PeerID(fmt.Sprint("cli:c", i)))
		defer all[i].leave()
	}
	b.StartTimer()
	begun := time.Now()
	took := make(chan time.Duration, posts)
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			for n := range posts / clients {
				text := "a message of usual length, about something that happened today"
				if (n+i)%10 == 0 {
					text = "@lead " + text
				}
				took <- p.post(b, fmt.Sprint("m-", i, "-", n), text)
			}
		})
	}
	wg.Wait()
	total := time.Since(begun)
	b.StopTimer()
	close(took)
	var list []time.Duration
	for d := range took {
		list = append(list, d)
	}
	slices.Sort(list)
	b.ReportMetric(float64(posts)/total.Seconds(), "posts/s")
	b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(list[len(list)*99/100].Microseconds())/1000, "p99-ms")
}

// A poster sends one request at a time.
type poster struct {
	*peer.Peer
	answered chan protocol.CollabResult
	stop     context.CancelFunc
	done     chan struct{}
}

func newPoster(b *testing.B, hub *bustest.Bus, id protocol.PeerID) *poster {
	ctx, stop := context.WithCancel(context.Background())
	p := &poster{
		Peer: peer.New(id, &peer.Options{Buses: []string{hub.URL()}}), answered: make(chan protocol.CollabResult, 1),
		stop: stop, done: make(chan struct{}),
	}
	p.Handle(protocol.TypeCollabResult, func(_ context.Context, d *peer.Delivery) error {
		var r protocol.CollabResult
		err := d.Decode(&r)
		p.answered <- r
		return err
	})
	if err := p.Subscribe(ctx, protocol.Pattern(id)); err != nil {
		b.Fatal(err)
	}
	go func() { defer close(p.done); p.Run(ctx) }() //nolint:errcheck // it ends with ctx
	if err := p.Ready(ctx); err != nil {
		b.Fatal(err)
	}
	return p
}

func (p *poster) leave() { p.stop(); <-p.done }

func (p *poster) post(b *testing.B, id, text string) time.Duration {
	params, err := json.Marshal(object{"id": id, "conversationId": "c", "text": text, "surface": "human"})
	if err != nil {
		b.Error(err)
	}
	begun := time.Now()
	m := p.NewMessage(protocol.TypeCollabRequest, protocol.CollabRequest{Method: "message.post", Params: params, RequestID: id})
	if _, err := p.Send(context.Background(), protocol.TopicBroker, m); err != nil {
		b.Error(err)
	}
	if r := <-p.answered; !r.OK {
		b.Errorf("%+v", r.Error)
	}
	return time.Since(begun)
}
