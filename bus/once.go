package bus

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

const (
	onceFor     = 10 * time.Minute // how long a repeat gets the first outcome
	onceBytes   = 64 << 20         // of answers, and of what is known of each message
	onceShare   = onceBytes / 4    // of one credential
	onceWaiters = 16               // repeats of one message that may wait for its outcome
	onceEntry   = 256              // bytes, beside the texts
)

var (
	errOnceFull    = errors.New("too many messages with once within ten minutes; send it again later")
	errOnceShare   = errors.New("too many messages of this credential with once within ten minutes; send it again later")
	errOnceWaiters = errors.New("too many repeats of this message wait for its outcome")
	errOnceCluster = errors.New("once is not kept across the buses of a cluster yet; send it without once")
)

// A first is a message that was sent with once, and what its sender was told.
type first struct {
	from, id string
	by       *account // nil if it needs no credential
	at       time.Time
	answer   []byte // the result of sendMessage; nil until it is known
	waiting  []repeat
}

// A repeat waits for the outcome of the first.
type repeat struct {
	session *session
	rpcID   jsonrpc.ID
	by      *account
}

func (f *first) size() int { return onceEntry + len(f.from) + len(f.id) + len(f.answer) }

// firsts remember the messages of the last ten minutes that were sent with once. A full
// table refuses: it never forgets one too early.
type firsts struct {
	mu    sync.Mutex // guards the fields below, and those of each first
	known map[[2]string]*first
	order []*first // by time
	bytes int
	used  map[*account]int // bytes, by credential
}

// claim returns the first of a message, and whether it is this one, which must be delivered.
// Otherwise its answer is returned, or the repeat waits for it.
func (t *firsts) claim(at time.Time, send *protocol.Send, again repeat) (f *first, mine bool, answer []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	key := [2]string{send.From, send.MessageID}
	if f = t.known[key]; f != nil {
		if f.answer == nil && len(f.waiting) >= onceWaiters {
			return nil, false, nil, errOnceWaiters
		}
		if f.answer == nil && again.rpcID != nil {
			f.waiting = append(f.waiting, again)
		}
		return f, false, f.answer, nil
	}
	f = &first{from: send.From, id: send.MessageID, by: again.by, at: at}
	switch {
	case t.bytes+f.size() > onceBytes:
		return nil, false, nil, errOnceFull
	case f.by != nil && t.used[f.by]+f.size() > onceShare:
		return nil, false, nil, errOnceShare
	}
	if t.known == nil {
		t.known, t.used = map[[2]string]*first{}, map[*account]int{}
	}
	t.known[key] = f
	t.order = append(t.order, f)
	t.takeLocked(f, f.size())
	return f, true, nil, nil
}

// takeLocked counts bytes of a first, or, if n is negative, frees them.
func (t *firsts) takeLocked(f *first, n int) {
	t.bytes += n
	if t.used[f.by] += n; t.used[f.by] == 0 {
		delete(t.used, f.by)
	}
}

// expireLocked forgets what is older than ten minutes, except what has no outcome yet.
func (t *firsts) expireLocked(at time.Time) {
	for len(t.order) > 0 && at.Sub(t.order[0].at) >= onceFor && t.order[0].answer != nil {
		f := t.order[0]
		t.order[0] = nil
		t.order = t.order[1:]
		t.takeLocked(f, -f.size())
		delete(t.known, [2]string{f.from, f.id})
	}
}

// settle stores the outcome of a first, and returns who waits for it.
func (t *firsts) settle(f *first, answer []byte) []repeat {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.answer = bytes.Clone(answer)
	t.takeLocked(f, len(f.answer))
	waiting := f.waiting
	f.waiting = nil
	return waiting
}

// publishOnce publishes a message, or answers a repeat of one with the first outcome.
func publishOnce(s *session, m jsonrpc.Message, send protocol.Send) {
	srv := s.server
	f, mine, answer, err := (*first)(nil), false, []byte(nil), errOnceCluster
	if srv.options.Cluster == nil {
		f, mine, answer, err = srv.firsts.claim(s.batch.at, &send, repeat{s, bytes.Clone(m.ID), s.account})
	}
	switch {
	case err != nil:
		s.refuse(m, jsonrpc.Errorf(protocol.CodeInternal, "%v", err))
	case mine:
		s.publish(m.ID, send, f)
	case answer != nil:
		s.answer(m, answer)
	}
}
