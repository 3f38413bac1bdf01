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
	dedupMaxBytes           = 64 << 20          // of all entries and their answers
	dedupMaxCredentialBytes = dedupMaxBytes / 4 // of one credential
	dedupMaxWaiters         = 16                // repeats of one message that may wait for its outcome
	dedupEntryBytes         = 256               // of an entry, without its texts
)

var (
	errDedupFull           = errors.New("too many messages were sent with once within ten minutes; send it again later")
	errDedupCredentialFull = errors.New("this credential sent too many messages with once within ten minutes; " +
		"send it again later")
	errDedupWaiters  = errors.New("too many repeats of this message wait for its outcome")
	errDedupTooLarge = errors.New("the first outcome of this message was too large to keep; it is not delivered again")
	errDedupLate     = errors.New("another bus has this message and has not reported its outcome; " +
		"send it again with the same messageId")
)

// A BusInstance is one run of a bus of a cluster.
type BusInstance struct {
	Bus      string `json:"bus"`
	Instance string `json:"instance"`
}

// A DedupKey names a message that was sent with once.
type DedupKey struct {
	From       string `json:"from"`
	MessageID  string `json:"messageId"`
	Credential string `json:"by,omitempty"` // name of the sender's credential
}

func (k DedupKey) id() [2]string { return [2]string{k.From, k.MessageID} }

// A DedupReply is a bus's reply when another bus asks whether it may deliver the message of a
// DedupKey. The zero reply allows it.
type DedupReply struct {
	Claimed bool        `json:"mine,omitempty"`  // the replying bus delivers or has delivered the message
	Owner   BusInstance `json:"holder,omitzero"` // the bus that delivers the message, if the replying bus knows it
	Answer  []byte      `json:"-"`               // the outcome, if the replying bus knows it
	From    BusInstance `json:"-"`               // the replying bus
}

// A dedupDecision is what a bus does with a message after asking the others.
type dedupDecision struct {
	deliver bool
	answer  []byte      // the first outcome
	owner   BusInstance // the bus that has the message or its outcome
	err     error       // why the outcome is unknown
}

// decide makes a decision from the replies of the other buses. owner is the bus that had the
// message, if this bus knew one.
func decide(owner BusInstance, replies []DedupReply) dedupDecision {
	allowed := map[BusInstance]bool{{}: true}
	for _, r := range replies {
		switch {
		case r.Answer != nil:
			return dedupDecision{answer: r.Answer, owner: r.From}
		case r.Claimed:
			return dedupDecision{owner: r.From}
		}
		allowed[r.From] = true
	}
	for _, r := range append(replies, DedupReply{Owner: owner}) {
		if !allowed[r.Owner] {
			return dedupDecision{owner: r.Owner, err: errOwnerUnreachable(r.Owner)}
		}
	}
	return dedupDecision{deliver: true}
}

func errOwnerUnreachable(owner BusInstance) error {
	return fmt.Errorf("the bus %s took this message first and cannot be asked: whether it was delivered is not known; "+
		"send it again later, or with another messageId if it may arrive twice", owner.Bus)
}

// The states of a dedupEntry at one bus.
const (
	dedupAsking    = iota // this bus asks the others whether it may deliver the message
	dedupOwned            // this bus delivers or has delivered the message
	dedupElsewhere        // another bus may have the message
)

// A dedupEntry is a message that was sent with once, and the answer to its sender.
type dedupEntry struct {
	DedupKey
	at        time.Time
	answer    []byte // the result of sendMessage; nil until it is known
	tooLarge  bool   // there was no room for the answer
	state     int
	attempt   int         // how often this bus has asked the others
	owner     BusInstance // the other bus that may have the message
	waiting   []dedupWaiter
	waitUntil time.Time // when waiters for another bus are refused
}

// A dedupWaiter is a repeat that waits for the outcome of its message.
type dedupWaiter struct {
	session *session
	rpcID   jsonrpc.ID // nil for a notification
}

func (e *dedupEntry) size() int {
	return dedupEntryBytes + len(e.From) + len(e.MessageID) + len(e.answer)
}

// done reports whether this bus will learn nothing more about the message.
func (e *dedupEntry) done() bool {
	return e.answer != nil || e.tooLarge || e.state == dedupElsewhere && len(e.waiting) == 0
}

// addWaiter makes a repeat wait for the outcome. The caller must hold dedupTable.mu.
func (e *dedupEntry) addWaiter(w dedupWaiter) error {
	if len(e.waiting) >= dedupMaxWaiters {
		return errDedupWaiters
	}
	if w.rpcID != nil {
		e.waiting = append(e.waiting, w)
	}
	return nil
}

// takeWaitersLocked removes and returns the waiting repeats of an entry.
func (t *dedupTable) takeWaitersLocked(e *dedupEntry) []dedupWaiter {
	waiting := e.waiting
	e.waiting = nil
	delete(t.remoteWaits, e)
	return waiting
}

// A dedupTable holds the messages of the last ten minutes that were sent with once, here or at
// another bus. It never forgets an entry early: a full table refuses new messages of this bus.
type dedupTable struct {
	srv *Server

	mu                sync.Mutex // guards the fields below, and those of each entry
	entries           map[[2]string]*dedupEntry
	order             []*dedupEntry // by time
	bytes             int
	bytesByCredential map[string]int
	remoteWaits       map[*dedupEntry]struct{} // entries with waiters for the outcome of another bus
}

// lookup finds the entry of a message or adds one. If attempt is not 0, this bus must ask
// the others about the message, and the caller must then call resolve. Otherwise lookup
// returns the answer, or an error, or makes the repeat wait.
func (t *dedupTable) lookup(
	at time.Time, key DedupKey, w dedupWaiter,
) (e *dedupEntry, attempt int, answer []byte, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	switch e = t.entries[key.id()]; {
	case e == nil:
		if e, err = t.insertLocked(at, key, 0); err != nil {
			return nil, 0, nil, err
		}
	case e.tooLarge:
		return nil, 0, nil, errDedupTooLarge
	case e.answer != nil:
		return e, 0, e.answer, nil
	case e.state != dedupElsewhere:
		return e, 0, nil, e.addWaiter(w)
	}
	e.state = dedupAsking
	e.attempt++
	return e, e.attempt, nil, nil
}

// insertLocked adds an entry if the table has room for it and for that many more bytes.
func (t *dedupTable) insertLocked(at time.Time, key DedupKey, more int) (*dedupEntry, error) {
	e := &dedupEntry{DedupKey: key, at: at, state: dedupElsewhere}
	if err := t.checkRoomLocked(key.Credential, e.size()+more); err != nil {
		return nil, err
	}
	if t.entries == nil {
		t.entries = map[[2]string]*dedupEntry{}
		t.bytesByCredential = map[string]int{}
		t.remoteWaits = map[*dedupEntry]struct{}{}
	}
	t.entries[key.id()] = e
	t.order = append(t.order, e)
	t.addBytesLocked(e, e.size())
	return e, nil
}

// checkRoomLocked returns nil if there is room for n bytes of a credential, or the reason
// why not.
func (t *dedupTable) checkRoomLocked(credential string, n int) error {
	switch {
	case t.bytes+n > dedupMaxBytes:
		return errDedupFull
	case credential != "" && t.bytesByCredential[credential]+n > dedupMaxCredentialBytes:
		return errDedupCredentialFull
	}
	return nil
}

// addBytesLocked counts bytes of an entry. A negative n frees them.
func (t *dedupTable) addBytesLocked(e *dedupEntry, n int) {
	t.bytes += n
	if t.bytesByCredential[e.Credential] += n; t.bytesByCredential[e.Credential] == 0 {
		delete(t.bytesByCredential, e.Credential)
	}
}

// expireLocked removes the entries that are older than dedupTTL, up to the first that is
// not done.
func (t *dedupTable) expireLocked(at time.Time) {
	for len(t.order) > 0 && at.Sub(t.order[0].at) >= dedupTTL && t.order[0].done() {
		e := t.order[0]
		t.order[0] = nil
		t.order = t.order[1:]
		t.addBytesLocked(e, -e.size())
		delete(t.entries, e.id())
	}
}

// resolve applies the decision about a message for which lookup returned attempt. If the
// decision that it returns is to deliver, the caller must deliver the message. Otherwise
// the caller gives the decision to the repeat and to the returned waiters. If the decision
// has neither answer nor error, the repeat waits.
func (t *dedupTable) resolve(
	e *dedupEntry, attempt int, at, waitUntil time.Time, w dedupWaiter, decision dedupDecision,
) (dedupDecision, []dedupWaiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case e.answer != nil:
		return dedupDecision{answer: e.answer}, nil
	case e.state != dedupAsking || e.attempt != attempt: // another bus or session took the message meanwhile
		return t.waitForRemoteLocked(e, waitUntil, w), nil
	case decision.deliver:
		if e.attempt > 1 || e.owner != (BusInstance{}) {
			t.renewLocked(e, at)
		}
		e.state, e.owner = dedupOwned, BusInstance{}
		return decision, nil
	}
	e.state = dedupElsewhere
	if decision.owner != (BusInstance{}) {
		e.owner = decision.owner
	}
	switch {
	case decision.answer != nil:
		return decision, t.storeLocked(e, decision.answer)
	case decision.err != nil:
		return decision, t.takeWaitersLocked(e)
	}
	return t.waitForRemoteLocked(e, waitUntil, w), nil
}

// waitForRemoteLocked makes a repeat wait for the outcome of another bus.
func (t *dedupTable) waitForRemoteLocked(e *dedupEntry, until time.Time, w dedupWaiter) dedupDecision {
	e.waitUntil = until
	t.remoteWaits[e] = struct{}{}
	return dedupDecision{err: e.addWaiter(w)}
}

// owner returns the other bus that has the message, if this bus knows one.
func (t *dedupTable) owner(e *dedupEntry) BusInstance {
	t.mu.Lock()
	defer t.mu.Unlock()
	return e.owner
}

// renewLocked restarts the ten minutes of an entry whose message was not delivered before.
func (t *dedupTable) renewLocked(e *dedupEntry, at time.Time) {
	t.order = slices.DeleteFunc(t.order, func(o *dedupEntry) bool { return o == e })
	e.at = at
	t.order = append(t.order, e)
}

// store stores the outcome of a message, and returns the repeats that wait for it.
func (t *dedupTable) store(e *dedupEntry, answer []byte) []dedupWaiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.storeLocked(e, answer)
}

func (t *dedupTable) storeLocked(e *dedupEntry, answer []byte) []dedupWaiter {
	if t.checkRoomLocked(e.Credential, len(answer)) == nil {
		e.answer = slices.Clone(answer)
		t.addBytesLocked(e, len(e.answer))
	} else {
		e.tooLarge = e.state == dedupOwned // otherwise the owner can be asked again
	}
	return t.takeWaitersLocked(e)
}

// check replies when another bus asks whether it may deliver a message, and records that it does.
// If two buses ask at the same time, the one with the lower name may.
func (t *dedupTable) check(at time.Time, own string, asker BusInstance, key DedupKey) DedupReply {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	e := t.entries[key.id()]
	if e == nil {
		if e, err := t.insertLocked(at, key, 0); err == nil {
			e.owner = asker
		}
		return DedupReply{} // even without room: this bus asks the owner before it delivers a repeat
	}
	switch {
	case e.answer != nil:
		return DedupReply{Answer: e.answer}
	case e.state == dedupOwned, e.state == dedupAsking && own < asker.Bus:
		return DedupReply{Claimed: true}
	}
	e.state = dedupElsewhere
	if e.owner == (BusInstance{}) || e.owner == asker {
		e.owner = asker
		return DedupReply{}
	}
	return DedupReply{Owner: e.owner}
}

// storeRemote stores the outcome of a message that another bus delivered, and returns the
// repeats that wait for it.
func (t *dedupTable) storeRemote(at time.Time, key DedupKey, answer []byte) []dedupWaiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked(at)
	e := t.entries[key.id()]
	if e == nil {
		e, _ = t.insertLocked(at, key, len(answer)) //nolint:errcheck // without room, the other bus can still be asked
	}
	if e == nil || e.state == dedupOwned || e.answer != nil { // both sides of a partition keep their own outcomes
		return nil
	}
	return t.storeLocked(e, answer)
}

// overdue returns the repeats that have waited too long for the outcome of another bus, and the
// reason for refusing each.
func (t *dedupTable) overdue(at time.Time, missing []string) (waiting []dedupWaiter, reasons []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range t.remoteWaits {
		err := errDedupLate
		switch {
		case e.state == dedupElsewhere && slices.Contains(missing, e.owner.Bus):
			err = errOwnerUnreachable(e.owner)
		case !at.After(e.waitUntil):
			continue
		}
		for _, w := range t.takeWaitersLocked(e) {
			waiting = append(waiting, w)
			reasons = append(reasons, err)
		}
	}
	return waiting, reasons
}
