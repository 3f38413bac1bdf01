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

// quotas track usage per credential. Usage by a credential also counts against the credential
// that issued it.
type quotas struct {
	metrics  *metrics
	log      *zerolog.Logger
	logged   bool         // the bus keeps an activity log
	defaults grant.Limits // of credentials without limits of their own

	mu     sync.Mutex        // guards byName
	byName map[string]*usage // by the name of the credential
}

// A usage is the joint usage of one credential and of those that it has issued, with its limits.
// A nil usage, for clients of an open bus, has no limits.
type usage struct {
	quotas         *quotas
	name           string
	issuer         *usage       // all usage also counts against it; nil if the operator created the credential
	unchargedBytes atomic.Int64 // of the activity log, not yet taken from logBytes

	mu            sync.Mutex // guards the fields below; taken before the issuer's
	at            time.Time  // the latest time passed to the buckets
	limits        grant.Limits
	sessions      int // connections, including those that are being closed
	subscriptions int
	messages      bucket
	overhead      bucket
	bytes         bucket
	logBytes      bucket
	rejectLogged  time.Time // when a refusal was last logged
}

// burst is how many seconds' worth of messages and bytes a bucket holds.
const burst = 2

const secondsPerDay = 24 * 60 * 60

// usageOf returns the usage of a credential, or nil if there is none. file, which may be nil,
// holds the issuers of the credential.
func (q *quotas) usageOf(c *grant.Credential, file *grant.File) *usage {
	if c == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var above *usage
	if file != nil {
		for _, issuer := range slices.Backward(file.Issuers(c)) {
			above = q.ensureLocked(issuer, above)
		}
	}
	return q.ensureLocked(c, above)
}

func (q *quotas) ensureLocked(c *grant.Credential, issuer *usage) *usage {
	u := q.byName[c.Name]
	if u == nil || u.issuer != issuer {
		u = &usage{quotas: q, name: c.Name, issuer: issuer}
		q.byName[c.Name] = u
	}
	u.setLimits(c.Limits.WithDefaults(q.defaults))
	return u
}

// credentialName returns the name of the credential, or "".
func (u *usage) credentialName() string {
	if u == nil {
		return ""
	}
	return u.name
}

// reload applies the limits of a changed file. It removes the usage of revoked credentials
// without sessions. It keeps all other usage, so that a peer that reconnects continues with its
// old usage.
func (q *quotas) reload(file *grant.File) {
	current := map[string]grant.Limits{}
	for _, c := range file.List() {
		current[c.Name] = c.Limits.WithDefaults(q.defaults)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, u := range q.byName {
		if limits, ok := current[name]; ok {
			u.setLimits(limits)
		} else if u.isUnused() {
			delete(q.byName, name)
		}
	}
}

func (u *usage) isUnused() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sessions == 0
}

func (u *usage) setLimits(limits grant.Limits) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if limits == u.limits {
		return
	}
	u.limits = limits
	at := u.clockLocked(time.Now())
	messages, bytes, logBytes := float64(limits.Messages), float64(limits.Bytes), float64(limits.LogBytes)
	u.messages.resize(at, burst*messages, messages)
	u.overhead.resize(at, burst*messages, messages)
	u.bytes.resize(at, burst*bytes, bytes)
	u.logBytes.resize(at, logBytes, logBytes/secondsPerDay)
}

// clockLocked returns at, or the time of an earlier call if that is later, because sessions read
// the clock at different moments.
func (u *usage) clockLocked(at time.Time) time.Time {
	if at.After(u.at) {
		u.at = at
	}
	return u.at
}

// A rateError says which limit of a credential a request exceeds.
type rateError string

func (e rateError) Error() string { return string(e) }

// rejectLocked counts a refusal, and logs one each minute.
func (u *usage) rejectLocked(at time.Time, limit limitName, format string, args ...any) error {
	u.quotas.metrics.limit(limit)
	err := rateError(fmt.Sprintf("the credential %q, with what it has issued, %s", u.name,
		fmt.Sprintf(format, args...)))
	if at.Sub(u.rejectLogged) > time.Minute {
		u.rejectLogged = at
		u.quotas.log.Warn().Str("credential", u.name).Str("bound", limitNames[limit]).Msg(string(err))
	}
	return err
}

// openSession counts a connection, which is also charged as a message. It allows one connection
// more than the limit, for a session that takes over another one; see checkSessions.
func (u *usage) openSession(at time.Time) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at = u.clockLocked(at)
	err := u.checkSessionsLocked(at)
	if err == nil {
		err = u.checkRatesLocked(at, true)
	}
	if err == nil {
		err = u.issuer.openSession(at)
	}
	if err == nil {
		u.messages.take(at, 1)
		u.sessions++
	}
	return err
}

// checkSessions returns an error if there are more connections than the limit.
func (u *usage) checkSessions(at time.Time) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.checkSessionsLocked(at); err != nil {
		return err
	}
	return u.issuer.checkSessions(at)
}

func (u *usage) checkSessionsLocked(at time.Time) error {
	if u.sessions <= int(u.limits.Sessions) {
		return nil
	}
	return u.rejectLocked(at, limitCredentialSessions,
		"has %d connections already; close some, or raise --credential-sessions", u.limits.Sessions)
}

func (u *usage) closeSession() {
	if u != nil {
		u.mu.Lock()
		u.sessions--
		u.mu.Unlock()
		u.issuer.closeSession()
	}
}

// addSubscriptions counts new subscriptions. The freed ones are about to end, and do not count
// against the limit.
func (u *usage) addSubscriptions(at time.Time, count, freed int) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if count > 0 && u.subscriptions+count-freed > int(u.limits.Subscriptions) {
		return u.rejectLocked(at, limitCredentialSubscriptions,
			"may have %d subscriptions; unsubscribe from some, or raise --credential-subscriptions",
			u.limits.Subscriptions)
	}
	if err := u.issuer.addSubscriptions(at, count, freed); err != nil {
		return err
	}
	u.subscriptions += count
	return nil
}

func (u *usage) removeSubscriptions(count int) {
	if u != nil {
		u.mu.Lock()
		u.subscriptions -= count
		u.mu.Unlock()
		u.issuer.removeSubscriptions(count)
	}
}

// chargeMessage charges a message of that size.
func (u *usage) chargeMessage(at time.Time, bytes int) error { return u.charge(at, bytes, false) }

// chargeChange charges a change of a session, which counts as a message. A few changes are
// allowed when the bytes of the log are used up, so that a peer can reconnect and receive.
func (u *usage) chargeChange(at time.Time, bytes int) error { return u.charge(at, bytes, true) }

func (u *usage) charge(at time.Time, bytes int, change bool) error {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at = u.clockLocked(at)
	err := u.checkRatesLocked(at, change)
	if err == nil {
		err = u.issuer.charge(at, bytes, change)
	}
	if err == nil {
		u.messages.take(at, 1)
		u.bytes.take(at, bytes)
	}
	return err
}

func (u *usage) checkRatesLocked(at time.Time, change bool) error {
	if u.unchargedBytes.Load() > int64(u.limits.LogBytes)/1024 { // rarely, since each message adds only a little
		u.logBytes.take(at, int(u.unchargedBytes.Swap(0)))
	}
	lowest := 0.0
	if change {
		lowest = -float64(u.limits.LogBytes) / 10
	}
	if u.messages.holds(at) < 1 {
		return u.rejectLocked(at, limitCredentialMessages,
			"sends more than %d messages a second (--credential-messages); send again in a moment", u.limits.Messages)
	}
	if u.bytes.holds(at) <= 0 {
		return u.rejectLocked(at, limitCredentialBytes,
			"sends more than %d bytes a second (--credential-bytes); send again in a moment", u.limits.Bytes)
	}
	if left := u.logBytes.holds(at) - float64(u.unchargedBytes.Load()); left <= lowest {
		wait := time.Duration((lowest-left)/u.logBytes.perSecond+1) * time.Second
		return u.rejectLocked(at, limitCredentialLogBytes,
			"has used up its %d bytes of the activity log for a day (--credential-log-bytes); send again in %s",
			u.limits.LogBytes, wait)
	}
	return nil
}

// maxPause bounds how long the reader of a session pauses at once, because stopping the bus
// waits for the reader.
const maxPause = time.Second

// chargeOverhead charges work that is neither a message nor a change: a refusal, the answer to a
// ping, or the lookup of an unexpected answer. In each second, overhead up to the credential's
// message limit is free. More is not refused, since a refusal is also overhead. Instead, the
// reader of the session must pause for the returned time.
func (u *usage) chargeOverhead(at time.Time) time.Duration {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at = u.clockLocked(at)
	pause := u.issuer.chargeOverhead(at)
	u.overhead.take(at, 1)
	delay := u.overhead.untilPaid(at)
	if delay == 0 {
		return pause
	}
	if delay > maxPause {
		u.overhead.take(at, -1)
		delay = maxPause
	}
	u.rejectLocked(at, limitCredentialMessages, //nolint:errcheck // it is counted and logged
		"gets more than %d refusals and pings a second (--credential-messages); it is read more slowly",
		u.limits.Messages)
	return max(pause, delay)
}

// rowBytes is the approximate size of a row of the log without its names and payload.
const rowBytes = 100

// chargeRow charges a row of the activity log.
func (u *usage) chargeRow(r activitylog.Row) {
	names := len(r.MessageID) + len(r.RPCID) + len(r.Actor) + len(r.Topic)
	u.chargeLogBytes(rowBytes + names + len(r.Payload) + len(r.Error))
}

// chargePublication charges the rows of a message: two for the message, and two for each
// target.
func (u *usage) chargePublication(m *AcceptedMessage, targets int) {
	u.chargeLogBytes(len(m.Payload) + (2+2*targets)*(rowBytes+len(m.Topic)+len(m.MessageID)+len(m.From)))
}

func (u *usage) chargeLogBytes(n int) {
	if u != nil && u.quotas.logged {
		u.unchargedBytes.Add(int64(n))
		u.issuer.chargeLogBytes(n)
	}
}

// chargeAnswer charges a peer's answer, and reports whether it may be recorded. A short answer
// may always be recorded: chargePublication has charged it to the sender.
func (u *usage) chargeAnswer(at time.Time, bytes int) bool {
	if u == nil || bytes <= rowBytes {
		return true
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	at = u.clockLocked(at)
	u.logBytes.take(at, bytes)
	return u.issuer.chargeAnswer(at, bytes) && u.logBytes.holds(at) > 0
}

// highest returns, for each limit, the largest use by any credential.
func (q *quotas) highest() map[string]float64 {
	at := time.Now()
	used := map[string]float64{}
	for name := limitCredentialSessions; name <= limitCredentialLogBytes; name++ {
		used[limitNames[name]] = 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, u := range q.byName {
		for name, n := range u.current(at) {
			used[limitNames[name]] = max(used[limitNames[name]], n)
		}
	}
	return used
}

func (u *usage) current(at time.Time) map[limitName]float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	at = u.clockLocked(at)
	return map[limitName]float64{
		limitCredentialSessions:      float64(u.sessions),
		limitCredentialSubscriptions: float64(u.subscriptions),
		limitCredentialMessages:      u.messages.used(at, u.limits.Messages),
		limitCredentialBytes:         u.bytes.used(at, u.limits.Bytes),
		limitCredentialLogBytes:      u.logBytes.used(at, u.limits.LogBytes) + float64(u.unchargedBytes.Load()),
	}
}
