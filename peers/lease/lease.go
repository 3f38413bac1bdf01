package lease

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/protocol/defaults"
	"hubbub/protocol/retry"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// Options are the optional settings of a Lease. Nil is valid.
type Options struct {
	Prefix string        `default:"hubbub"` // of the bucket's name
	TTL    time.Duration `positive:"6s"`    // until an unrenewed lease expires, at least 1 s
	NATS   []nats.Option
	Log    *zerolog.Logger
}

func (o *Options) withDefaults() Options {
	out := defaults.Of(o)
	out.TTL = max(out.TTL, time.Second)
	defaults.Log(&out.Log)
	return out
}

// A Lease is the right to be the only active program for a purpose.
type Lease struct {
	urls    []string
	what    string
	holder  string
	options Options
}

// New makes a lease for a purpose, such as "tg:123456". Other programs log the name of the
// holder. New does no I/O.
func New(urls []string, what, holder string, opts *Options) *Lease {
	return &Lease{urls: urls, what: what, holder: holder, options: opts.withDefaults()}
}

// ErrLost is the cancellation cause of work when the lease is lost.
var ErrLost = errors.New("the lease was lost: another program may be the active one now")

// Run waits for the lease and calls work while it holds the lease. It repeats that until ctx ends
// or work returns without having lost the lease, and returns the error of work. The context of
// work ends when the lease is lost.
func (l *Lease) Run(ctx context.Context, work func(context.Context) error) error {
	var unreached atomic.Bool // and logged
	reached := func(*nats.Conn) { unreached.Store(false) }
	nc, err := nats.Connect(strings.Join(l.urls, ","), append([]nats.Option{
		nats.Name("hubbub lease " + l.what), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), nats.ReconnectWait(500 * time.Millisecond),
		nats.ConnectHandler(reached), nats.ReconnectHandler(reached),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) {
			if !errors.Is(err, nats.ErrNoServers) && !unreached.Swap(true) { // it would hide the reason
				l.options.Log.Warn().Str("lease", l.what).Err(err).Msg("NATS not reached; trying again")
			}
		}),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(2 * time.Second),
	}, l.options.NATS...)...)
	if err != nil {
		return fmt.Errorf("the lease server: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("the lease server: %w", err)
	}
	standby := false
	for {
		g, err := l.acquire(ctx, js)
		if err == nil {
			l.options.Log.Info().Str("lease", l.what).Msg("lease taken: this program is active")
			lost, err := l.hold(ctx, g, work)
			if !lost || ctx.Err() != nil {
				return err
			}
			l.options.Log.Warn().Str("lease", l.what).Err(err).Msg("lease lost: this program stands by")
		} else if !standby {
			err = cmp.Or(nc.LastError(), err) // such as that NATS refuses the credentials
			l.options.Log.Info().Str("lease",
				l.what).Err(err).Msg("lease held by another program, or out of reach: this program stands by")
		}
		standby = true
		if !retry.Sleep(ctx, l.options.TTL/12) {
			return nil
		}
	}
}

// A grant is a lease that this program holds.
type grant struct {
	kv       jetstream.KeyValue
	revision uint64
	asked    time.Time // when the last successful request was sent; NATS counts the TTL from its arrival
}

// acquire takes the lease if nobody holds it.
func (l *Lease) acquire(ctx context.Context, js jetstream.JetStream) (*grant, error) {
	limit, cancel := context.WithTimeout(ctx, l.options.TTL/3)
	defer cancel()
	kv, err := l.openBucket(limit, js)
	if err != nil {
		return nil, fmt.Errorf("the bucket of leases: %w (does the NATS server run with JetStream?)", err)
	}
	g := &grant{kv: kv, asked: time.Now()}
	g.revision, err = kv.Create(limit, l.key(), []byte(l.holder))
	if errors.Is(err, jetstream.ErrKeyExists) {
		if e, err := kv.Get(limit, l.key()); err == nil {
			return nil, fmt.Errorf("%s has it", e.Value())
		}
	}
	return g, err
}

// openBucket creates the bucket if it does not exist, with three replicas if there are enough
// servers. The bucket is on disk, because a server that restarts within the TTL must not forget
// who holds the lease.
func (l *Lease) openBucket(ctx context.Context, js jetstream.JetStream) (jetstream.KeyValue, error) {
	name := bucket(l.options.Prefix)
	kv, err := js.KeyValue(ctx, name)
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return kv, err
	}
	for _, replicas := range []int{3, 1} {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:   name,
			TTL:      l.options.TTL,
			History:  1,
			Storage:  jetstream.FileStorage,
			Replicas: replicas,
		})
		if err == nil {
			break
		}
	}
	return kv, err
}

// bucket returns the bucket's name for a cluster. It replaces the characters of the cluster's
// name that are not allowed in a bucket name.
func bucket(cluster string) string {
	plain := func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return -1
		}
		return r
	}
	if strings.Map(plain, cluster) != "" {
		cluster = hex.EncodeToString([]byte(cluster))
	}
	return cluster + "-leases"
}

func (l *Lease) key() string { return hex.EncodeToString([]byte(l.what)) }

// hold calls work and renews the lease meanwhile. It returns true if work ended because the lease
// was lost.
func (l *Lease) hold(ctx context.Context, g *grant, work func(context.Context) error) (lost bool, err error) {
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var renewing sync.WaitGroup
	stop := make(chan struct{})
	renewing.Go(func() { l.renew(g, stop, cancel) })
	err = work(working)
	close(stop)
	renewing.Wait()
	if errors.Is(context.Cause(working), ErrLost) {
		return true, ErrLost
	}
	limit, done := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer done()
	if e := g.kv.Delete(limit, l.key(), jetstream.LastRevision(g.revision)); e != nil {
		l.options.Log.Debug().Err(e).Str("lease", l.what).Msg("lease not released; it will expire")
	}
	return false, err
}

// renew renews the lease until stop is closed. It ends the work when two thirds of the TTL have
// passed since the last successful request was sent.
func (l *Lease) renew(g *grant, stop <-chan struct{}, end context.CancelCauseFunc) {
	ticker := time.NewTicker(l.options.TTL / 6)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		asked := time.Now()
		limit, cancel := context.WithTimeout(context.Background(), l.options.TTL/6)
		next, err := g.kv.Update(limit, l.key(), []byte(l.holder), g.revision)
		cancel()
		var api *jetstream.APIError
		switch {
		case err == nil:
			g.revision, g.asked = next, asked
		case errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence:
			end(ErrLost) // another program has taken it, or it has expired
			return
		case time.Since(g.asked) > l.options.TTL*2/3:
			end(ErrLost)
			return
		}
	}
}
