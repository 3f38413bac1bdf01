package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"hubbub/protocol/defaults"
)

// A Child is one program to run.
type Child struct {
	Name  string   // short, for the log: "bus"
	Path  string   // of the binary
	Args  []string // without the program's name
	Env   []string // the whole environment, KEY=VALUE
	Stage int      // from 0; see the package's guarantees
}

// Options are the optional settings of a Fleet. Nil is valid.
type Options struct {
	Line       func(name string, line []byte) // takes each line of a child's log; calls for one child do not overlap
	Event      func(name, text string)        // takes events of a child, as sentences
	MinBackoff time.Duration                  `positive:"500ms"` // pause before the first restart
	MaxBackoff time.Duration                  `positive:"30s"`   // longest pause
	// consecutive ends before a child pauses or, in the first stage, stays down
	MaxFailures int           `positive:"6"`
	RestPause   time.Duration `positive:"5m"` // between two starts of a child that pauses
	// for all stages to stop; less than the 9.5 s of a program, and each half is more than the 4 s
	// within which a bus says that its stop takes longer
	StopTimeout time.Duration `positive:"9.2s"`

	OnStopExtended func(until time.Time) // called when a child's stop takes longer
}

func (o *Options) withDefaults() Options {
	d := defaults.Of(o)
	defaults.Set(&d.Line, func(string, []byte) {})
	defaults.Set(&d.Event, func(string, string) {})
	defaults.Set(&d.OnStopExtended, func(time.Time) {})
	return d
}

// ErrNoChild means that no child has the given name.
var ErrNoChild = errors.New("no such program")

// A Fleet is a set of children. Its methods may be called from any goroutine.
type Fleet struct {
	children    []*member
	stages      int
	stopTimeout time.Duration
}

// New makes a fleet. It starts nothing.
func New(children []Child, opts *Options) *Fleet {
	o := opts.withDefaults()
	f := &Fleet{stopTimeout: o.StopTimeout}
	for _, c := range children {
		f.children = append(f.children, newMember(c, o))
		f.stages = max(f.stages, c.Stage+1)
	}
	return f
}

// Run starts the children and keeps them running until ctx ends (nil), or until
// a child of the first stage stays down.
func (f *Fleet) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stops := make([]context.CancelFunc, f.stages)
	stopped := make([]sync.WaitGroup, f.stages)
	for stage := range f.stages {
		// A stage outlives ctx: it stops when the next stage has ended.
		stageCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		stops[stage] = stop
		for _, c := range f.group(stage) {
			stopped[stage].Go(func() {
				if err := c.run(stageCtx); err != nil && stage == 0 {
					fail(fmt.Errorf("%s stays down: %w", c.Name, err))
				}
			})
		}
		f.waitStage(ctx, stage)
	}
	<-ctx.Done()
	until := time.Now().Add(f.stopTimeout)
	for stage := f.stages - 1; stage >= 0; stage-- {
		left := time.Until(until)
		for _, c := range f.group(stage) {
			c.setStopTimeout(left / time.Duration(stage+1))
		}
		stops[stage]()
		stopped[stage].Wait()
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (f *Fleet) group(n int) []*member {
	var list []*member
	for _, c := range f.children {
		if c.Stage == n {
			list = append(list, c)
		}
	}
	return list
}

// waitStage waits until every child of a stage is ready or has failed too often.
func (f *Fleet) waitStage(ctx context.Context, n int) {
	for _, c := range f.group(n) {
		_ = c.waitReady(ctx) // an Event reported the reason; the next stage starts anyway
	}
}

// Ready waits until a child has reported that it is ready since its last start.
func (f *Fleet) Ready(ctx context.Context, name string) error {
	c, err := f.member(name)
	if err != nil {
		return err
	}
	return c.waitReady(ctx)
}

// PID returns the process id of a child, or 0 if it does not run.
func (f *Fleet) PID(name string) int {
	c, err := f.member(name)
	if err != nil {
		return 0
	}
	return c.pid()
}

func (f *Fleet) member(name string) (*member, error) {
	for _, c := range f.children {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", name, ErrNoChild)
}
