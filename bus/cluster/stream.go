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

// An ActivityStream copies the rows of the activity log to a JetStream stream, each once, to
// collect them in one place. It never slows the log. Rows wait in a queue until the stream
// accepts them. Rows that do not fit in the queue are counted, and a log_gap row with the count
// follows when there is room. Rows that were sent again may come after later rows; their ids give
// the order.
type ActivityStream struct {
	urls    []string
	stream  string
	bus     string
	run     string // identifies the rows of this run
	options Options

	queue     chan commitRows
	natsFault fault

	mu   sync.Mutex // guards lost
	lost int
}

// commitRows are the rows of one commit of the activity log.
type commitRows struct {
	firstID int64
	rows    []activitylog.Row
}

// streamQueue is the number of commits that may wait. streamRetryInterval is the time between two
// attempts to send.
const (
	streamQueue         = 256
	streamRetryInterval = 500 * time.Millisecond
)

// NewActivityStream returns an ActivityStream for the rows of one bus. It does no I/O.
func NewActivityStream(urls []string, stream, bus string, opts *Options) *ActivityStream {
	return &ActivityStream{
		urls:    urls,
		stream:  stream,
		bus:     bus,
		run:     string(protocol.NewMessageID()),
		options: opts.withDefaults(),
		queue:   make(chan commitRows, streamQueue),
	}
}

// Enqueue queues one commit. It implements OnCommit of the log's writer, and does not block.
func (s *ActivityStream) Enqueue(first int64, rows []activitylog.Row) {
	c := commitRows{first, append([]activitylog.Row(nil), rows...)}
	select {
	case s.queue <- c:
	default:
		s.addLost(len(rows))
	}
}

func (s *ActivityStream) addLost(lost int) {
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

// subject returns the subject for the rows of this bus.
func (s *ActivityStream) subject() string { return s.options.Prefix + ".activity." + encodeName(s.bus) }

func (s *ActivityStream) connect() (*nats.Conn, error) {
	return connect(s.urls, "hubbub-bus activity "+s.bus, &s.options)
}

// Run publishes rows until ctx ends, and then the queued ones, for at most 2 s. It continues if
// NATS cannot be reached.
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

// publish sends one commit until the stream has stored all of it. So if a server dies or the
// leader moves, only time is lost. If ctx ends, publish counts the remaining rows as lost.
func (s *ActivityStream) publish(ctx context.Context, js jetstream.JetStream, c commitRows) {
	var rest []*nats.Msg
	if lost := s.takeLost(); lost > 0 {
		row := gap(lost)
		rest = append(rest, s.message(c.firstID-1, &row, fmt.Sprint("gap before ", c.firstID)))
	}
	for i := range c.rows {
		rest = append(rest, s.message(c.firstID+int64(i), &c.rows[i], strconv.FormatInt(c.firstID+int64(i), 10)))
	}
	for {
		var err error
		if rest, err = s.attempt(ctx, js, rest); len(rest) == 0 {
			return
		}
		err = fmt.Errorf("the activity stream will be tried again: %w", err)
		s.natsFault.report(s.options.Log, zerolog.WarnLevel, err, time.Now())
		if retry.Sleep(ctx, streamRetryInterval); ctx.Err() != nil {
			s.addLost(len(rest))
			return
		}
	}
}

// attempt sends messages. It returns the messages that the stream has not confirmed, and the
// reason. If the stream has stored them, it recognizes them by their ids when they are sent
// again.
func (s *ActivityStream) attempt(
	ctx context.Context, js jetstream.JetStream, all []*nats.Msg,
) (rest []*nats.Msg, cause error) {
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

// ensure creates the stream if it does not exist, with three replicas if there are enough
// servers.
func (s *ActivityStream) ensure(ctx context.Context, js jetstream.JetStream) (err error) {
	if _, err = js.Stream(ctx, s.stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	for _, replicas := range []int{3, 1} {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name:     s.stream,
			Subjects: []string{s.options.Prefix + ".activity.>"},
			Replicas: replicas,
		})
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("creating the stream %s: %w (does the NATS server run with JetStream?)", s.stream, err)
}

func gap(lost int) activitylog.Row {
	return activitylog.Row{
		At: time.Now().UnixMicro(), Event: activitylog.LogGap,
		Payload: fmt.Appendf(nil, `{"lost":%d,"reason":"the activity stream could not keep up"}`, lost),
	}
}

// message encodes a row as `hubbub tail --json` does. id identifies the row in this run.
func (s *ActivityStream) message(n int64, row *activitylog.Row, id string) *nats.Msg {
	e := row.Entry(n)
	e.Bus = s.bus
	return &nats.Msg{
		Subject: s.subject(),
		Data:    encode(&e),
		Header:  nats.Header{jetstream.MsgIDHeader: {s.run + " " + id}},
	}
}
