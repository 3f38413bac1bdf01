package bus

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/bus/grant"

	"github.com/rs/zerolog"
)

// An quotas says who uses how much of the bus: it has one account for each credential,
// to which counts what all use that it has issued.
type quotas struct {
	metrics  *metrics
	log      *zerolog.Logger
	logged   bool         // there is an activity log
	defaults grant.Limits // of a credential that has none of its own

	mu     sync.Mutex        // guards accounts
	byName map[string]*usage // by the name of the credential
}

// An usage is what the sessions of one credential, and of those that it has issued, use
// together, and how much they may. Nil is the account of those who need no credential: it
// has no bounds.
type usage struct {
	quotas         *quotas
	name           string
	issuer         *usage       // to which all of it counts too, nil if the operator made the credential
	unchargedBytes atomic.Int64 // bytes of the activity log that logBytes has not lost yet

	mu            sync.Mutex // guards the fields below, and is taken before the issuer's
	limits        grant.Limits
	sessions      int // connections, those included that are being closed
	subscriptions int
	messages      bucket
	overhead      bucket
	bytes         bucket
	logBytes      bucket
	logged        time.Time // when a refusal was logged last
}

// A bucket holds what may be used at once, and gains with time. It may lose more than it
// holds; then it is in debt.
type bucket struct {
	left, size float64
	perSecond  float64 // its gain
	at         time.Time
}

// burst is for how many seconds the messages and bytes of a credential may come at once.
const burst = 2

const secondsOfADay = 24 * 60 * 60

// resize changes what a bucket may hold, and by as much what it holds.
func (b *bucket) resize(size, perSecond float64) {
	b.left += size - b.size
	b.size, b.perSecond = size, perSecond
}

func (b *bucket) fill(at time.Time) {
	if passed := at.Sub(b.at); passed > 0 {
		b.left = min(b.size, b.left+passed.Seconds()*b.perSecond)
		b.at = at
	}
}

// used returns how much of a bound is in use.
func (b *bucket) used(bound grant.Limit) float64 { return (1 - b.left/b.size) * float64(bound) }

// usageOf returns the account of a credential, or nil if there is none. A file of
// credentials, if there is one, tells who has issued it.
func (m *quotas) usageOf(c *grant.Credential, file *grant.File) *usage {
	if c == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var above *usage
	if file != nil {
		for _, issuer := range slices.Backward(file.Issuers(c)) {
			above = m.ensureLocked(issuer, above)
		}
	}
	return m.ensureLocked(c, above)
}

func (m *quotas) ensureLocked(c *grant.Credential, issuer *usage) *usage {
	a := m.byName[c.Name]
	if a == nil || a.issuer != issuer {
		a = &usage{quotas: m, name: c.Name, issuer: issuer}
		m.byName[c.Name] = a
	}
	a.setLimits(c.Limits.WithDefaults(m.defaults))
	return a
}

// credentialName returns the name of the credential, which is empty if there is none.
func (a *usage) credentialName() string {
	if a == nil {
		return ""
	}
	return a.name
}

// reload gives the accounts the bounds of a changed file, and drops those of
// credentials that are gone and that nobody uses any more. The others stay: who connects
// again has used what it used before.
func (m *quotas) reload(file *grant.File) {
	current := map[string]grant.Limits{}
	for _, c := range file.List() {
		current[c.Name] = c.Limits.WithDefaults(m.defaults)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, a := range m.byName {
		if bounds, ok := current[name]; ok {
			a.setLimits(bounds)
		} else if a.isUnused() {
			delete(m.byName, name)
		}
	}
}

func (a *usage) isUnused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions == 0
}

func (a *usage) setLimits(bounds grant.Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bounds == a.limits {
		return
	}
	a.limits = bounds
	a.messages.resize(burst*float64(bounds.Messages), float64(bounds.Messages))
	a.overhead.resize(burst*float64(bounds.Messages), float64(bounds.Messages))
	a.bytes.resize(burst*float64(bounds.Bytes), float64(bounds.Bytes))
	a.logBytes.resize(float64(bounds.LogBytes), float64(bounds.LogBytes)/secondsOfADay)
}

// An rateError is the refusal of what a bound of a credential does not let through.
type rateError string

// Error returns what is refused, and why.
func (o rateError) Error() string { return string(o) }

// rejectLocked counts a refusal, and logs one a minute.
func (a *usage) rejectLocked(at time.Time, bound limitName, format string, args ...any) error {
	a.quotas.metrics.limit(bound)
	o := rateError(fmt.Sprintf("the credential %q, with what it has issued, %s", a.name, fmt.Sprintf(format, args...)))
	if at.Sub(a.logged) > time.Minute {
		a.logged = at
		a.quotas.log.Warn().Str("credential", a.name).Str("bound", limitNames[bound]).Msg(string(o))
	}
	return o
}

// openSession takes the place of a connection, which counts as a message too. There is one
// place more than the bound, for a session that takes over another one: see crowded.
func (a *usage) openSession(at time.Time) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.checkSessionsLocked(at)
	if err == nil {
		err = a.checkRatesLocked(at, true)
	}
	if err == nil {
		err = a.issuer.openSession(at)
	}
	if err == nil {
		a.messages.left--
		a.sessions++
	}
	return err
}

// checkSessions returns an error if there are more connections than the bound.
func (a *usage) checkSessions(at time.Time) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.checkSessionsLocked(at); err != nil {
		return err
	}
	return a.issuer.checkSessions(at)
}

func (a *usage) checkSessionsLocked(at time.Time) error {
	if a.sessions <= int(a.limits.Sessions) {
		return nil
	}
	return a.rejectLocked(at, limitCredentialSessions, "has %d connections already; close some, or raise --credential-sessions", a.limits.Sessions)
}

func (a *usage) closeSession() {
	if a != nil {
		a.mu.Lock()
		a.sessions--
		a.mu.Unlock()
		a.issuer.closeSession()
	}
}

// addSubscriptions takes the places of so many subscriptions. Those that are about to be freed
// are in nobody's way.
func (a *usage) addSubscriptions(at time.Time, count, freed int) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if count > 0 && a.subscriptions+count-freed > int(a.limits.Subscriptions) {
		return a.rejectLocked(at, limitCredentialSubscriptions,
			"may have %d subscriptions; unsubscribe from some, or raise --credential-subscriptions", a.limits.Subscriptions)
	}
	if err := a.issuer.addSubscriptions(at, count, freed); err != nil {
		return err
	}
	a.subscriptions += count
	return nil
}

func (a *usage) removeSubscriptions(count int) {
	if a != nil {
		a.mu.Lock()
		a.subscriptions -= count
		a.mu.Unlock()
		a.issuer.removeSubscriptions(count)
	}
}

// chargeMessage takes a message of so many bytes.
func (a *usage) chargeMessage(at time.Time, bytes int) error { return a.charge(at, bytes, false) }

// chargeChange takes a change of a session, which counts as a message. It passes for a while
// when the log's bytes are used up: so a peer may come back and hear what it is sent.
func (a *usage) chargeChange(at time.Time, bytes int) error { return a.charge(at, bytes, true) }

func (a *usage) charge(at time.Time, bytes int, change bool) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.checkRatesLocked(at, change)
	if err == nil {
		err = a.issuer.charge(at, bytes, change)
	}
	if err == nil {
		a.messages.left--
		a.bytes.left -= float64(bytes)
	}
	return err
}

func (a *usage) checkRatesLocked(at time.Time, change bool) error {
	a.messages.fill(at)
	a.bytes.fill(at)
	a.logBytes.fill(at)
	a.logBytes.left -= float64(a.unchargedBytes.Swap(0))
	lowest := 0.0
	if change {
		lowest = -a.logBytes.size / 10
	}
	switch {
	case a.messages.left < 1:
		return a.rejectLocked(at, limitCredentialMessages, "sends more than %d messages a second (--credential-messages); send again in a moment", a.limits.Messages)
	case a.bytes.left <= 0:
		return a.rejectLocked(at, limitCredentialBytes, "sends more than %d bytes a second (--credential-bytes); send again in a moment", a.limits.Bytes)
	case a.logBytes.left <= lowest:
		wait := time.Duration((lowest-a.logBytes.left)/a.logBytes.perSecond+1) * time.Second
		return a.rejectLocked(at, limitCredentialLogBytes,
			"has used up its %d bytes of the activity log for a day (--credential-log-bytes); send again in %s", a.limits.LogBytes, wait)
	}
	return nil
}

// longestPause is how long the reader of a session waits at most before it reads on: a stop
// waits for it.
const longestPause = time.Second

// chargeOverhead takes what the bus does for a session beside messages and changes: a refusal, an
// answer to a ping, a look for what an answer is to. As many are free as the credential
// may send messages. What is beyond that is not refused, which would be one more: the
// session is not read for the time that is returned.
func (a *usage) chargeOverhead(at time.Time) time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := a.issuer.chargeOverhead(at)
	a.overhead.fill(at)
	if a.overhead.left--; a.overhead.left >= 0 {
		return pause
	}
	a.rejectLocked(at, limitCredentialMessages, "gets more than %d refusals and pings a second (--credential-messages); it is read more slowly", a.limits.Messages) //nolint:errcheck // it is counted and logged
	pause = max(pause, time.Duration(-a.overhead.left/a.overhead.perSecond*float64(time.Second)))
	a.overhead.left = max(a.overhead.left, -a.overhead.perSecond)
	return min(pause, longestPause)
}

// rowBytes is about what a row takes in the log beside its names and its payload.
const rowBytes = 100

// chargeRow takes a row of the activity log.
func (a *usage) chargeRow(r activitylog.Row) {
	a.chargeLogBytes(rowBytes + len(r.MessageID) + len(r.RPCID) + len(r.Actor) + len(r.Topic) + len(r.Payload) + len(r.Error))
}

// chargePublication takes the rows of a message: its own two, and two for each target.
func (a *usage) chargePublication(m *AcceptedMessage, targets int) {
	a.chargeLogBytes(len(m.Payload) + (2+2*targets)*(rowBytes+len(m.Topic)+len(m.MessageID)+len(m.From)))
}

func (a *usage) chargeLogBytes(n int) {
	if a != nil && a.quotas.logged {
		a.unchargedBytes.Add(int64(n))
		a.issuer.chargeLogBytes(n)
	}
}

// chargeAnswer reports whether the log takes a peer's answer of so many bytes. A short one
// is no more than what the sender's account has taken for it.
func (a *usage) chargeAnswer(at time.Time, bytes int) bool {
	if a == nil || bytes <= rowBytes {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logBytes.fill(at)
	a.logBytes.left -= float64(bytes)
	return a.issuer.chargeAnswer(at, bytes) && a.logBytes.left > 0
}

// highest returns how much of each bound the credential uses that uses most of it.
func (m *quotas) highest() map[string]float64 {
	at := time.Now()
	used := map[string]float64{}
	for name := limitCredentialSessions; name <= limitCredentialLogBytes; name++ {
		used[limitNames[name]] = 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.byName {
		for name, n := range a.current(at) {
			used[limitNames[name]] = max(used[limitNames[name]], n)
		}
	}
	return used
}

func (a *usage) current(at time.Time) map[limitName]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range []*bucket{&a.messages, &a.bytes, &a.logBytes} {
		b.fill(at)
	}
	return map[limitName]float64{
		limitCredentialSessions: float64(a.sessions), limitCredentialSubscriptions: float64(a.subscriptions),
		limitCredentialMessages: a.messages.used(a.limits.Messages), limitCredentialBytes: a.bytes.used(a.limits.Bytes),
		limitCredentialLogBytes: a.logBytes.used(a.limits.LogBytes) + float64(a.unchargedBytes.Load()),
	}
}
