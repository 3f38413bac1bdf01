package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A cutOffServer has a bucket that answers its first request late, and no later ones.
type cutOffServer struct {
	jetstream.JetStream
	bucket jetstream.KeyValue
}

func (s cutOffServer) KeyValue(context.Context, string) (jetstream.KeyValue, error) {
	return s.bucket, nil
}

type cutOffBucket struct {
	jetstream.KeyValue
	delay time.Duration
}

func (b cutOffBucket) Create(context.Context, string, []byte, ...jetstream.KVCreateOpt) (uint64, error) {
	time.Sleep(b.delay)
	return 1, nil
}

func (b cutOffBucket) Update(ctx context.Context, _ string, _ []byte, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestHold_EndsBeforeLeaseExpires checks that the work of a holder that NATS answers late, and then
// no longer, ends before its lease can expire.
func TestHold_EndsBeforeLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(nil, "broker", "a", nil)
		asked := time.Now()
		g, err := l.acquire(t.Context(), cutOffServer{bucket: cutOffBucket{delay: l.options.TTL/3 - 1}})
		if err != nil {
			t.Fatal(err)
		}
		lost, err := l.hold(t.Context(), g, func(ctx context.Context) error { <-ctx.Done(); return nil })
		if held := time.Since(asked); !lost || held >= l.options.TTL {
			t.Errorf("the work ended %s after the request: lost %t, %v", held, lost, err)
		}
	})
}
