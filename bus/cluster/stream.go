package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"hubbub/activitylog"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// An ActivityStream copies the rows of the activity log to a JetStream stream, so that
// they can be kept in one place. It never slows the log: rows that do not fit in its
// queue are counted, and a log_gap row with the count follows as soon as there is room.
type ActivityStream struct {
	urls    []string
	stream  string
	bus     string
	options Options

	queue chan committed
	fault trouble

	mu   sync.Mutex // guards lost
	lost int
}

// committed is one commit of the activity log.
type committed struct {
	first int64
	rows  []activitylog.Row
}

// streamQueue is how many commits may wait.
const streamQueue = 256

// NewActivityStream makes an ActivityStream for the rows of one bus. It does no I/O.
func NewActivityStream(urls []string, stream, bus string, opts *Options) *ActivityStream {
	return &ActivityStream{urls: urls, stream: stream, bus: bus, options: opts.withDefaults(), queue: make(chan committed, streamQueue)}
}

// Offer takes one commit, as activitylog's OnCommit. It does not block.
func (s *ActivityStream) Offer(first int64, rows []activitylog.Row) {
	c := committed{first, append([]activitylog.Row(nil), rows...)}
	select {
	case s.queue <- c:
	default:
		s.count(len(rows))
	}
}

func (s *ActivityStream) count(lost int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost += lost
}

func (s *ActivityStream) takeLost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost := s.lost
	s.lost = 0
	return lost
}

// subject is where the rows of this bus are published.
func (s *ActivityStream) subject() string { return s.options.Prefix + ".activity." + token(s.bus) }

func (s *ActivityStream) connect() (*nats.Conn, error) {
	return connect(s.urls, "hubbub-bus activity "+s.bus, &s.options)
}

// Run publishes rows until ctx ends, and then those in the queue, for at most 2 s. It
// does not end if NATS cannot be reached.
func (s *ActivityStream) Run(ctx context.Context) error {
	nc, err := s.connect()
	if err != nil {
		return fmt.Errorf("the activity stream: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("the activity stream: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			s.flush(ctx, js)
			return nil
		case c := <-s.queue:
			s.publish(ctx, js, c)
		}
	}
}

func (s *ActivityStream) flush(ctx context.Context, js jetstream.JetStream) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for limit.Err() == nil {
		select {
		case c := <-s.queue:
			s.publish(limit, js, c)
		default:
			return
		}
	}
}

// publish sends one commit and waits until the stream has stored it. It counts the rows
// that the stream does not accept.
func (s *ActivityStream) publish(ctx context.Context, js jetstream.JetStream, c committed) {
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.ensure(limit, js); err != nil {
		s.count(len(c.rows))
		s.fault.note(s.options.Log, zerolog.WarnLevel, fmt.Errorf("the activity stream: %w", err), time.Now())
		return
	}
	if lost := s.takeLost(); lost > 0 {
		c.rows = append([]activitylog.Row{gap(lost)}, c.rows...)
		c.first--
	}
	futures := make([]jetstream.PubAckFuture, 0, len(c.rows))
	for i := range c.rows {
		f, err := js.PublishAsync(s.subject(), s.line(c.first+int64(i), &c.rows[i]))
		if err != nil {
			s.count(len(c.rows) - i)
			break
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case <-f.Err():
			s.count(1)
		case <-limit.Done():
			s.count(1)
		}
	}
}

// ensure creates the stream if it does not exist.
func (s *ActivityStream) ensure(ctx context.Context, js jetstream.JetStream) error {
	if _, err := js.Stream(ctx, s.stream); err == nil {
		return nil
	}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: s.stream, Subjects: []string{s.options.Prefix + ".activity.>"}})
	if err != nil {
		return fmt.Errorf("making the stream %s: %w (does the NATS server run with JetStream?)", s.stream, err)
	}
	return nil
}

func gap(lost int) activitylog.Row {
	return activitylog.Row{
		At: time.Now().UnixMicro(), Event: activitylog.LogGap,
		Payload: fmt.Appendf(nil, `{"lost":%d,"reason":"the activity stream could not keep up"}`, lost),
	}
}

// line writes a row as `hubbub tail --json` does.
func (s *ActivityStream) line(id int64, row *activitylog.Row) []byte {
	e := row.Entry(id)
	e.Bus = s.bus
	return encode(&e)
}
