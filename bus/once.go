package bus

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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
	errOnceLarge   = errors.New("the first outcome of this message was too large to keep; it is not delivered again")
	errOnceLate    = errors.New("another bus has this message and has not told its outcome; send it again with the same messageId")
)

// A BusInstance is one run of a bus of a cluster.
type BusInstance struct {
	Bus      string `json:"bus"`
	Instance string `json:"instance"`
}

// A DedupKey names a message that was sent with once, as the buses tell each other of it.
type DedupKey struct {
	From       string `json:"from"`
	MessageID  string `json:"messageId"`
	Credential string `json:"by,omitempty"` // name of the sender's credential
}

// A DedupReply is what a bus says when another asks whether it may deliver a First. If all is
// zero, it may.
type DedupReply struct {
	Claimed bool        `json:"mine,omitempty"`  // this bus delivers the message, or has
	Owner   BusInstance `json:"holder,omitzero"` // the bus that does, as far as this one knows
	Answer  []byte      `json:"-"`               // its outcome, if this bus knows it
	From    BusInstance `json:"-"`
}

// A ruling says what becomes of a message with once at the bus that asked the others.
type ruling struct {
	deliver bool
	answer  []byte      // the first outcome
	holder  BusInstance // the bus that has the message
	err     error       // why nothing is known
}

// rule returns what the votes of the other buses come to. known is the bus that was known
// to have the message before.
func rule(known BusInstance, votes []DedupReply) ruling {
	free := map[BusInstance]bool{{}: true}
	for _, v := range votes {
		switch {
		case v.Answer != nil:
			return ruling{answer: v.Answer}
		case v.Claimed:
			return ruling{holder: v.From}
		}
		free[v.From] = true
	}
	for _, v := range append(votes, DedupReply{Owner: known}) {
		if !free[v.Owner] {
			return ruling{holder: v.Owner, err: lostFirst(v.Owner)}
		}
	}
	return ruling{deliver: true}
}

func lostFirst(holder BusInstance) error {
	return fmt.Errorf("the bus %s took this message first and cannot be asked: whether it was delivered is not known; "+
		"send it again later, or with another messageId if it may arrive twice", holder.Bus)
}

// The standings of a first at one bus.
const (
	firstAsked     = iota // this bus asks the others whether it may deliver it
	firstTaken            // this bus delivers it, or has
	firstElsewhere        // another bus may have it
)

// A first is a message that was sent with once, and what its sender was told.
type first struct {
	DedupKey
	at       time.Time
	answer   []byte // the result of sendMessage; nil until it is known
	unkept   bool   // there was no room for the answer
	standing int
	asked    int         // how often this bus asked the others
	holder   BusInstance // that may have it, unless this bus has
	waiting  []repeat
	until    time.Time // when those that wait for another bus are refused
}

// A repeat waits for the outcome of the first.
type repeat struct {
	session *session
	rpcID   jsonrpc.ID // nil if it is a notification
}

func (f *first) size() int { return onceEntry + len(f.From) + len(f.MessageID) + len(f.answer) }

// over reports whether nothing more will become known of a first at this bus.
func (f *first) over() bool {
	return f.answer != nil || f.unkept || f.standing == firstElsewhere && len(f.waiting) == 0
}

// firsts remember the messages of the last ten minutes that were sent with once, here or
// at another bus. A full table refuses what comes here: it never forgets one too early.
type firsts struct {
	srv *Server

	mu      sync.Mutex // guards the fields below, and those of each first
	known   map[[2]string]*first
	order   []*first // by time
	bytes   int
	used    map[string]int      // bytes, by name of a credential
	delayed map[*first]struct{} // those for whose outcome at another bus somebody waits
}

// claim looks a message up. It returns a number if this bus must ask the others about it,
// and then resolve. Otherwise its answer is returned, or the repeat waits for it.
func (t *firsts) claim(at time.Time, who DedupKey, again repeat) (f *first, asked int, answer []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	switch f = t.known[who.key()]; {
	case f == nil:
		if f, err = t.noteLocked(at, who, 0); err != nil {
			return nil, 0, nil, err
		}
	case f.unkept:
		return nil, 0, nil, errOnceLarge
	case f.answer != nil:
		return f, 0, f.answer, nil
	case f.standing != firstElsewhere:
		return f, 0, nil, f.await(again)
	}
	f.standing = firstAsked
	f.asked++
	return f, f.asked, nil, nil
}

func (who DedupKey) key() [2]string { return [2]string{who.From, who.MessageID} }

// await has a repeat wait for the outcome. The caller must hold firsts.mu.
func (f *first) await(again repeat) error {
	if len(f.waiting) >= onceWaiters {
		return errOnceWaiters
	}
	if again.rpcID != nil {
		f.waiting = append(f.waiting, again)
	}
	return nil
}

// noteLocked adds a first, if there is room for it and as many bytes more.
func (t *firsts) noteLocked(at time.Time, who DedupKey, more int) (*first, error) {
	f := &first{DedupKey: who, at: at, standing: firstElsewhere}
	if err := t.roomLocked(who.Credential, f.size()+more); err != nil {
		return nil, err
	}
	if t.known == nil {
		t.known, t.used, t.delayed = map[[2]string]*first{}, map[string]int{}, map[*first]struct{}{}
	}
	t.known[who.key()] = f
	t.order = append(t.order, f)
	t.takeLocked(f, f.size())
	return f, nil
}

// roomLocked returns nil if there is room for n bytes of a credential, or the reason why not.
func (t *firsts) roomLocked(by string, n int) error {
	switch {
	case t.bytes+n > onceBytes:
		return errOnceFull
	case by != "" && t.used[by]+n > onceShare:
		return errOnceShare
	}
	return nil
}

// takeLocked counts bytes of a first, or, if n is negative, frees them.
func (t *firsts) takeLocked(f *first, n int) {
	t.bytes += n
	if t.used[f.Credential] += n; t.used[f.Credential] == 0 {
		delete(t.used, f.Credential)
	}
}

// expireLocked forgets what is older than ten minutes, except what has no outcome yet.
func (t *firsts) expireLocked(at time.Time) {
	for len(t.order) > 0 && at.Sub(t.order[0].at) >= onceFor && t.order[0].over() {
		f := t.order[0]
		t.order[0] = nil
		t.order = t.order[1:]
		t.takeLocked(f, -f.size())
		delete(t.known, f.key())
	}
}

// resolve takes what the other buses said of a message that this bus claimed with that
// number. If it is to be delivered here, the caller must deliver it. Otherwise the repeat
// waits for its outcome, or gets what is returned, and so do those that waited.
func (t *firsts) resolve(f *first, asked int, at, until time.Time, again repeat, r ruling) (ruling, []repeat) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case f.answer != nil:
		return ruling{answer: f.answer}, nil
	case f.standing != firstAsked || f.asked != asked: // another bus, or another session, was given it meanwhile
		return t.followLocked(f, until, again), nil
	case r.deliver:
		if f.asked > 1 || f.holder != (BusInstance{}) {
			t.renewLocked(f, at)
		}
		f.standing, f.holder = firstTaken, BusInstance{}
		return r, nil
	case r.answer != nil:
		return r, t.settleLocked(f, r.answer)
	}
	f.standing = firstElsewhere
	if r.holder != (BusInstance{}) {
		f.holder = r.holder
	}
	if r.err == nil {
		return t.followLocked(f, until, again), nil
	}
	waiting := f.waiting
	f.waiting = nil
	delete(t.delayed, f)
	return r, waiting
}

// followLocked has a repeat wait for what another bus says.
func (t *firsts) followLocked(f *first, until time.Time, again repeat) ruling {
	f.until = until
	t.delayed[f] = struct{}{}
	return ruling{err: f.await(again)}
}

// holder returns the bus that is known to have a first.
func (t *firsts) holder(f *first) BusInstance {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.holder
}

// renewLocked begins the ten minutes of a first anew: it was not delivered before.
func (t *firsts) renewLocked(f *first, at time.Time) {
	t.order = slices.DeleteFunc(t.order, func(o *first) bool { return o == f })
	f.at = at
	t.order = append(t.order, f)
}

// settle stores the outcome of a first, and returns who waits for it.
func (t *firsts) settle(f *first, answer []byte) []repeat {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.settleLocked(f, answer)
}

func (t *firsts) settleLocked(f *first, answer []byte) []repeat {
	if t.roomLocked(f.Credential, len(answer)) == nil {
		f.answer = slices.Clone(answer)
		t.takeLocked(f, len(f.answer))
	} else {
		f.unkept = f.standing == firstTaken // otherwise the bus that has it can be asked again
	}
	waiting := f.waiting
	f.waiting = nil
	delete(t.delayed, f)
	return waiting
}

// vote says whether another bus may deliver a message, and notes that it does. Of two that
// ask at the same time, the one with the lower name may.
func (t *firsts) vote(at time.Time, own string, asker BusInstance, who DedupKey) DedupReply {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	f := t.known[who.key()]
	if f == nil {
		if f, err := t.noteLocked(at, who, 0); err == nil {
			f.holder = asker
		}
		return DedupReply{} // also without room: the other bus has it, and is asked before this one delivers it
	}
	switch {
	case f.answer != nil:
		return DedupReply{Answer: f.answer}
	case f.standing == firstTaken, f.standing == firstAsked && own < asker.Bus:
		return DedupReply{Claimed: true}
	}
	f.standing = firstElsewhere
	if f.holder == (BusInstance{}) || f.holder == asker {
		f.holder = asker
		return DedupReply{}
	}
	return DedupReply{Owner: f.holder}
}

// learn stores the outcome of a message that another bus delivered, and returns who waits
// for it.
func (t *firsts) learn(at time.Time, who DedupKey, answer []byte) []repeat {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	f := t.known[who.key()]
	if f == nil {
		f, _ = t.noteLocked(at, who, len(answer)) //nolint:errcheck // without room the other bus can still be asked
	}
	if f == nil || f.standing == firstTaken || f.answer != nil { // two sides of a partition each keep their own
		return nil
	}
	return t.settleLocked(f, answer)
}

// overdue returns who waits in vain for the outcome of a message that another bus has, and
// why: that bus is missing, or said nothing in time.
func (t *firsts) overdue(at time.Time, missing []string) (waiting []repeat, why []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := range t.delayed {
		err := errOnceLate
		switch {
		case f.standing == firstElsewhere && slices.Contains(missing, f.holder.Bus):
			err = lostFirst(f.holder)
		case !at.After(f.until):
			continue
		}
		for _, r := range f.waiting {
			waiting, why = append(waiting, r), append(why, err)
		}
		f.waiting = nil
		delete(t.delayed, f)
	}
	return waiting, why
}
