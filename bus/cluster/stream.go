package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/retry"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

// An ActivityStream copies the rows of the activity log to a JetStream stream, so that
// they can be kept in one place, each once. It never slows the log: what the stream does not
// take waits in a queue, rows that do not fit in it are counted, and a log_gap row with the
// count follows as soon as there is room. Rows that were sent again may stand after later ones;
// their ids tell the order.
type ActivityStream struct {
	urls    []string
	stream  string
	bus     string
	run     string // tells the ids of rows of this run from those of others
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

// streamQueue is how many commits may wait, streamPause how long until what the stream did
// not take is sent again.
const (
	streamQueue = 256
	streamPause = 500 * time.Millisecond
)

// NewActivityStream makes an ActivityStream for the rows of one bus. It does no I/O.
func NewActivityStream(urls []string, stream, bus string, opts *Options) *ActivityStream {
	return &ActivityStream{urls: urls, stream: stream, bus: bus, run: string(protocol.NewMessageID()), options: opts.withDefaults(), queue: make(chan committed, streamQueue)}
}

// Enqueue takes one commit, as activitylog's OnCommit. It does not block.
func (s *ActivityStream) Enqueue(first int64, rows []activitylog.Row) {
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

// publish sends one commit until the stream has stored all of it, so that a server that
// dies or a leader that moves costs nothing but time. It counts the rows of one that it gives
// up as ctx ends.
func (s *ActivityStream) publish(ctx context.Context, js jetstream.JetStream, c committed) {
	var rest []*nats.Msg
	if lost := s.takeLost(); lost > 0 {
		row := gap(lost)
		rest = append(rest, s.message(c.first-1, &row, fmt.Sprint("gap before ", c.first)))
	}
	for i := range c.rows {
		rest = append(rest, s.message(c.first+int64(i), &c.rows[i], strconv.FormatInt(c.first+int64(i), 10)))
	}
	for {
		var err error
		if rest, err = s.attempt(ctx, js, rest); len(rest) == 0 {
			return
		}
		s.fault.note(s.options.Log, zerolog.WarnLevel, fmt.Errorf("the activity stream, which is tried again: %w", err), time.Now())
		if retry.Sleep(ctx, streamPause); ctx.Err() != nil {
			s.count(len(rest))
			return
		}
	}
}

// attempt sends messages, and returns those that the stream did not say it had stored, and
// why. It may have: it knows them by their ids when they come again.
func (s *ActivityStream) attempt(ctx context.Context, js jetstream.JetStream, all []*nats.Msg) (rest []*nats.Msg, cause error) {
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := s.ensure(limit, js); err != nil {
		return all, err
	}
	futures := make([]jetstream.PubAckFuture, 0, len(all))
	for _, m := range all {
		f, err := js.PublishMsgAsync(m)
		if err != nil {
			rest, cause = all[len(futures):], err
			break
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		select {
		case <-f.Ok():
			continue
		case err := <-f.Err():
			cause = err
		case <-limit.Done():
			cause = cmp.Or(cause, errors.New("it did not answer in time"))
		}
		rest = append([]*nats.Msg{all[i]}, rest...)
	}
	return rest, cause
}

// ensure creates the stream if it does not exist: of three replicas, if so many servers are
// there.
func (s *ActivityStream) ensure(ctx context.Context, js jetstream.JetStream) (err error) {
	if _, err = js.Stream(ctx, s.stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	for _, replicas := range []int{3, 1} {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: s.stream, Subjects: []string{s.options.Prefix + ".activity.>"}, Replicas: replicas})
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("making the stream %s: %w (does the NATS server run with JetStream?)", s.stream, err)
}

func gap(lost int) activitylog.Row {
	return activitylog.Row{
		At: time.Now().UnixMicro(), Event: activitylog.LogGap,
		Payload: fmt.Appendf(nil, `{"lost":%d,"reason":"the activity stream could not keep up"}`, lost),
	}
}

// message writes a row as `hubbub tail --json` does. id names it in this run of the bus.
func (s *ActivityStream) message(n int64, row *activitylog.Row, id string) *nats.Msg {
	e := row.Entry(n)
	e.Bus = s.bus
	return &nats.Msg{Subject: s.subject(), Data: encode(&e), Header: nats.Header{jetstream.MsgIDHeader: {s.run + " " + id}}}
}
