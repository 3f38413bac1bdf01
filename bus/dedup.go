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
	dedupTTL                = 10 * time.Minute  // how long a repeat gets the first outcome
	dedupMaxBytes           = 64 << 20          // of answers, and of what is known of each message
	dedupMaxCredentialBytes = dedupMaxBytes / 4 // of one credential
	dedupMaxWaiters         = 16                // repeats of one message that may wait for its outcome
	dedupEntryBytes         = 256               // bytes, beside the texts
)

var (
	errDedupFull           = errors.New("too many messages with once within ten minutes; send it again later")
	errDedupCredentialFull = errors.New("too many messages of this credential with once within ten minutes; send it again later")
	errDedupWaiters        = errors.New("too many repeats of this message wait for its outcome")
	errDedupTooLarge       = errors.New("the first outcome of this message was too large to keep; it is not delivered again")
	errDedupLate           = errors.New("another bus has this message and has not told its outcome; send it again with the same messageId")
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

// A dedupDecision says what becomes of a message with once at the bus that asked the others.
type dedupDecision struct {
	deliver bool
	answer  []byte      // the first outcome
	owner   BusInstance // the bus that has the message
	err     error       // why nothing is known
}

// decide returns what the votes of the other buses come to. known is the bus that was known
// to have the message before.
func decide(known BusInstance, votes []DedupReply) dedupDecision {
	free := map[BusInstance]bool{{}: true}
	for _, v := range votes {
		switch {
		case v.Answer != nil:
			return dedupDecision{answer: v.Answer}
		case v.Claimed:
			return dedupDecision{owner: v.From}
		}
		free[v.From] = true
	}
	for _, v := range append(votes, DedupReply{Owner: known}) {
		if !free[v.Owner] {
			return dedupDecision{owner: v.Owner, err: errOwnerUnreachable(v.Owner)}
		}
	}
	return dedupDecision{deliver: true}
}

func errOwnerUnreachable(holder BusInstance) error {
	return fmt.Errorf("the bus %s took this message first and cannot be asked: whether it was delivered is not known; "+
		"send it again later, or with another messageId if it may arrive twice", holder.Bus)
}

// The standings of a first at one bus.
const (
	dedupAsking    = iota // this bus asks the others whether it may deliver it
	dedupOwned            // this bus delivers it, or has
	dedupElsewhere        // another bus may have it
)

// A dedupEntry is a message that was sent with once, and what its sender was told.
type dedupEntry struct {
	DedupKey
	at        time.Time
	answer    []byte // the result of sendMessage; nil until it is known
	tooLarge  bool   // there was no room for the answer
	state     int
	attempt   int         // how often this bus asked the others
	owner     BusInstance // that may have it, unless this bus has
	waiting   []dedupWaiter
	waitUntil time.Time // when those that wait for another bus are refused
}

// A dedupWaiter waits for the outcome of the first.
type dedupWaiter struct {
	session *session
	rpcID   jsonrpc.ID // nil if it is a notification
}

func (f *dedupEntry) size() int {
	return dedupEntryBytes + len(f.From) + len(f.MessageID) + len(f.answer)
}

// done reports whether nothing more will become known of a first at this bus.
func (f *dedupEntry) done() bool {
	return f.answer != nil || f.tooLarge || f.state == dedupElsewhere && len(f.waiting) == 0
}

// dedupTable remember the messages of the last ten minutes that were sent with once, here or
// at another bus. A full table refuses what comes here: it never forgets one too early.
type dedupTable struct {
	srv *Server

	mu                sync.Mutex // guards the fields below, and those of each first
	entries           map[[2]string]*dedupEntry
	order             []*dedupEntry // by time
	bytes             int
	bytesByCredential map[string]int           // bytes, by name of a credential
	remoteWaits       map[*dedupEntry]struct{} // those for whose outcome at another bus somebody waits
}

// lookup looks a message up. It returns a number if this bus must ask the others about it,
// and then resolve. Otherwise its answer is returned, or the repeat waits for it.
func (t *dedupTable) lookup(at time.Time, who DedupKey, again dedupWaiter) (f *dedupEntry, asked int, answer []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	switch f = t.entries[who.key()]; {
	case f == nil:
		if f, err = t.insertLocked(at, who, 0); err != nil {
			return nil, 0, nil, err
		}
	case f.tooLarge:
		return nil, 0, nil, errDedupTooLarge
	case f.answer != nil:
		return f, 0, f.answer, nil
	case f.state != dedupElsewhere:
		return f, 0, nil, f.addWaiter(again)
	}
	f.state = dedupAsking
	f.attempt++
	return f, f.attempt, nil, nil
}

func (who DedupKey) key() [2]string { return [2]string{who.From, who.MessageID} }

// addWaiter has a repeat wait for the outcome. The caller must hold firsts.mu.
func (f *dedupEntry) addWaiter(again dedupWaiter) error {
	if len(f.waiting) >= dedupMaxWaiters {
		return errDedupWaiters
	}
	if again.rpcID != nil {
		f.waiting = append(f.waiting, again)
	}
	return nil
}

// insertLocked adds a first, if there is room for it and as many bytes more.
func (t *dedupTable) insertLocked(at time.Time, who DedupKey, more int) (*dedupEntry, error) {
	f := &dedupEntry{DedupKey: who, at: at, state: dedupElsewhere}
	if err := t.checkRoomLocked(who.Credential, f.size()+more); err != nil {
		return nil, err
	}
	if t.entries == nil {
		t.entries, t.bytesByCredential, t.remoteWaits = map[[2]string]*dedupEntry{}, map[string]int{}, map[*dedupEntry]struct{}{}
	}
	t.entries[who.key()] = f
	t.order = append(t.order, f)
	t.addBytesLocked(f, f.size())
	return f, nil
}

// checkRoomLocked returns nil if there is room for n bytes of a credential, or the reason why not.
func (t *dedupTable) checkRoomLocked(by string, n int) error {
	switch {
	case t.bytes+n > dedupMaxBytes:
		return errDedupFull
	case by != "" && t.bytesByCredential[by]+n > dedupMaxCredentialBytes:
		return errDedupCredentialFull
	}
	return nil
}

// addBytesLocked counts bytes of a first, or, if n is negative, frees them.
func (t *dedupTable) addBytesLocked(f *dedupEntry, n int) {
	t.bytes += n
	if t.bytesByCredential[f.Credential] += n; t.bytesByCredential[f.Credential] == 0 {
		delete(t.bytesByCredential, f.Credential)
	}
}

// expireLocked forgets what is older than ten minutes, except what has no outcome yet.
func (t *dedupTable) expireLocked(at time.Time) {
	for len(t.order) > 0 && at.Sub(t.order[0].at) >= dedupTTL && t.order[0].done() {
		f := t.order[0]
		t.order[0] = nil
		t.order = t.order[1:]
		t.addBytesLocked(f, -f.size())
		delete(t.entries, f.key())
	}
}

// resolve takes what the other buses said of a message that this bus claimed with that
// number. If it is to be delivered here, the caller must deliver it. Otherwise the repeat
// waits for its outcome, or gets what is returned, and so do those that waited.
func (t *dedupTable) resolve(f *dedupEntry, asked int, at, until time.Time, again dedupWaiter, r dedupDecision) (dedupDecision, []dedupWaiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case f.answer != nil:
		return dedupDecision{answer: f.answer}, nil
	case f.state != dedupAsking || f.attempt != asked: // another bus, or another session, was given it meanwhile
		return t.waitForRemoteLocked(f, until, again), nil
	case r.deliver:
		if f.attempt > 1 || f.owner != (BusInstance{}) {
			t.renewLocked(f, at)
		}
		f.state, f.owner = dedupOwned, BusInstance{}
		return r, nil
	case r.answer != nil:
		return r, t.storeLocked(f, r.answer)
	}
	f.state = dedupElsewhere
	if r.owner != (BusInstance{}) {
		f.owner = r.owner
	}
	if r.err == nil {
		return t.waitForRemoteLocked(f, until, again), nil
	}
	waiting := f.waiting
	f.waiting = nil
	delete(t.remoteWaits, f)
	return r, waiting
}

// waitForRemoteLocked has a repeat wait for what another bus says.
func (t *dedupTable) waitForRemoteLocked(f *dedupEntry, until time.Time, again dedupWaiter) dedupDecision {
	f.waitUntil = until
	t.remoteWaits[f] = struct{}{}
	return dedupDecision{err: f.addWaiter(again)}
}

// owner returns the bus that is known to have a first.
func (t *dedupTable) owner(f *dedupEntry) BusInstance {
	t.mu.Lock()
	defer t.mu.Unlock()
	return f.owner
}

// renewLocked begins the ten minutes of a first anew: it was not delivered before.
func (t *dedupTable) renewLocked(f *dedupEntry, at time.Time) {
	t.order = slices.DeleteFunc(t.order, func(o *dedupEntry) bool { return o == f })
	f.at = at
	t.order = append(t.order, f)
}

// store stores the outcome of a first, and returns who waits for it.
func (t *dedupTable) store(f *dedupEntry, answer []byte) []dedupWaiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.storeLocked(f, answer)
}

func (t *dedupTable) storeLocked(f *dedupEntry, answer []byte) []dedupWaiter {
	if t.checkRoomLocked(f.Credential, len(answer)) == nil {
		f.answer = slices.Clone(answer)
		t.addBytesLocked(f, len(f.answer))
	} else {
		f.tooLarge = f.state == dedupOwned // otherwise the bus that has it can be asked again
	}
	waiting := f.waiting
	f.waiting = nil
	delete(t.remoteWaits, f)
	return waiting
}

// check says whether another bus may deliver a message, and notes that it does. Of two that
// ask at the same time, the one with the lower name may.
func (t *dedupTable) check(at time.Time, own string, asker BusInstance, who DedupKey) DedupReply {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	f := t.entries[who.key()]
	if f == nil {
		if f, err := t.insertLocked(at, who, 0); err == nil {
			f.owner = asker
		}
		return DedupReply{} // also without room: the other bus has it, and is asked before this one delivers it
	}
	switch {
	case f.answer != nil:
		return DedupReply{Answer: f.answer}
	case f.state == dedupOwned, f.state == dedupAsking && own < asker.Bus:
		return DedupReply{Claimed: true}
	}
	f.state = dedupElsewhere
	if f.owner == (BusInstance{}) || f.owner == asker {
		f.owner = asker
		return DedupReply{}
	}
	return DedupReply{Owner: f.owner}
}

// storeRemote stores the outcome of a message that another bus delivered, and returns who waits
// for it.
func (t *dedupTable) storeRemote(at time.Time, who DedupKey, answer []byte) []dedupWaiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	f := t.entries[who.key()]
	if f == nil {
		f, _ = t.insertLocked(at, who, len(answer)) //nolint:errcheck // without room the other bus can still be asked
	}
	if f == nil || f.state == dedupOwned || f.answer != nil { // two sides of a partition each keep their own
		return nil
	}
	return t.storeLocked(f, answer)
}

// overdue returns who waits in vain for the outcome of a message that another bus has, and
// why: that bus is missing, or said nothing in time.
func (t *dedupTable) overdue(at time.Time, missing []string) (waiting []dedupWaiter, why []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for f := range t.remoteWaits {
		err := errDedupLate
		switch {
		case f.state == dedupElsewhere && slices.Contains(missing, f.owner.Bus):
			err = errOwnerUnreachable(f.owner)
		case !at.After(f.waitUntil):
			continue
		}
		for _, r := range f.waiting {
			waiting, why = append(waiting, r), append(why, err)
		}
		f.waiting = nil
		delete(t.remoteWaits, f)
	}
	return waiting, why
}
