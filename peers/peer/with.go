package peer

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// RunWith is Run beside work that sends. When ctx ends, so does the context of
// work, and the connection only after work has returned: what is being sent then
// still gets its answer. (Where there is no connection then, Send fails at once
// with ErrStopped.) Handlers have Options.StopTimeout from the end of ctx, the time
// that work takes to return included. The end of either ends the other, and
// RunWith returns the first error of the two. Call it instead of Run.
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
