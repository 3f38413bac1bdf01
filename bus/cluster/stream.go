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
// follows when there is room. A log_gap row with its id also replaces a row that is larger than
// the NATS server or the stream accepts. Rows that were sent again may come after later rows;
// their ids give the order.
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
	var rest []streamMessage
	if lost := s.takeLost(); lost > 0 {
		row := gap(lost, "the activity stream could not keep up")
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
	ctx context.Context, js jetstream.JetStream, all []streamMessage,
) (rest []streamMessage, cause error) {
	limit, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	stream, err := s.ensure(limit, js)
	if err != nil {
		return all, err
	}
	maxBytes := js.Conn().MaxPayload()
	if n := stream.CachedInfo().Config.MaxMsgSize; n > 0 {
		maxBytes = min(maxBytes, int64(n))
	}
	futures := make([]jetstream.PubAckFuture, 0, len(all))
	for i := range all {
		if int64(all[i].Size()) > maxBytes {
			all[i] = s.withoutRow(all[i], maxBytes)
		}
		f, err := js.PublishMsgAsync(all[i].Msg)
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
		rest = append([]streamMessage{all[i]}, rest...)
	}
	return rest, cause
}

// ensure returns the stream. It creates the stream if it does not exist, with three replicas if
// there are enough servers.
func (s *ActivityStream) ensure(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, s.stream)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return stream, err
	}
	for _, replicas := range []int{3, 1} {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name:     s.stream,
			Subjects: []string{s.options.Prefix + ".activity.>"},
			Replicas: replicas,
		})
		if err == nil {
			return stream, nil
		}
	}
	return nil, fmt.Errorf("creating the stream %s: %w (does the NATS server run with JetStream?)", s.stream, err)
}

func gap(lost int, reason string) activitylog.Row {
	return activitylog.Row{
		At: time.Now().UnixMicro(), Event: activitylog.LogGap,
		Payload: fmt.Appendf(nil, `{"lost":%d,"reason":%q}`, lost, reason),
	}
}

// A streamMessage is a row as a message for the stream.
type streamMessage struct {
	*nats.Msg
	row int64  // id of the row
	id  string // identifies the message in this run
}

// message encodes a row as `hubbub tail --json` does. It does not use encode, which escapes the
// characters <, > and & of the payload and so makes it up to six times as large.
func (s *ActivityStream) message(n int64, row *activitylog.Row, id string) streamMessage {
	e := row.Entry(n)
	e.Bus = s.bus
	data, err := e.MarshalJSON()
	if err != nil {
		panic(fmt.Sprintf("a row cannot be marshalled: %v", err))
	}
	m := &nats.Msg{
		Subject: s.subject(),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {s.run + " " + id}},
	}
	return streamMessage{Msg: m, row: n, id: id}
}

// withoutRow returns the log_gap row that replaces a row larger than maxBytes.
func (s *ActivityStream) withoutRow(m streamMessage, maxBytes int64) streamMessage {
	err := fmt.Errorf("the activity stream takes at most %d bytes per row: larger rows are only in the bus's log "+
		"(raise max_payload of the NATS server, or max_msg_size of the stream)", maxBytes)
	s.natsFault.report(s.options.Log, zerolog.WarnLevel, err, time.Now())
	row := gap(1, fmt.Sprintf("the row has %d bytes, and the activity stream takes at most %d; the log of the bus has it",
		len(m.Data), maxBytes))
	return s.message(m.row, &row, m.id)
}
