package peer

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// RunWith calls Run and, at the same time, work, which sends messages. When ctx ends, the context
// of work ends, but the connection stays open until work has returned, so work gets the answers
// to what it has sent. If there is no connection then, Send fails with ErrStopped. Handlers have
// Options.StopTimeout from the end of ctx, including the time that work takes to return. If Run
// or work ends, the other ends, too, and RunWith returns the first error of the two. Call it
// instead of Run.
func (p *Peer) RunWith(ctx context.Context, work func(ctx context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	link, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	defer context.AfterFunc(ctx, func() {
		at := time.Now()
		p.stopping.Store(&at)
		if p.current() == nil {
			hangUp()
		}
	})()
	g.Go(func() error { return p.Run(link) })
	g.Go(func() error {
		defer hangUp()
		return work(ctx)
	})
	return g.Wait()
}
