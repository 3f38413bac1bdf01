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

// An admission says who uses how much of the bus: it has one account for each credential,
// to which counts what all use that it has issued.
type admission struct {
	metrics *metrics
	log     *zerolog.Logger
	logs    bool         // there is an activity log
	each    grant.Limits // of a credential that has none of its own

	accountsMu sync.Mutex          // guards accounts
	accounts   map[string]*account // by the name of the credential
}

// An account is what the sessions of one credential, and of those that it has issued, use
// together, and how much they may. Nil is the account of those who need no credential: it
// has no bounds.
type account struct {
	bus     *admission
	name    string
	issuer  *account     // to which all of it counts too, nil if the operator made the credential
	written atomic.Int64 // bytes of the activity log that logBytes has not lost yet

	mu            sync.Mutex // guards the fields below, and is taken before the issuer's
	bounds        grant.Limits
	sessions      int // connections, those included that are being closed
	subscriptions int
	messages      bucket
	asides        bucket
	bytes         bucket
	logBytes      bucket
	told          time.Time // when a refusal was logged last
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

// account returns the account of a credential, or nil if there is none. A file of
// credentials, if there is one, tells who has issued it.
func (m *admission) account(c *grant.Credential, file *grant.File) *account {
	if c == nil {
		return nil
	}
	m.accountsMu.Lock()
	defer m.accountsMu.Unlock()
	var above *account
	if file != nil {
		for _, issuer := range slices.Backward(file.Issuers(c)) {
			above = m.openLocked(issuer, above)
		}
	}
	return m.openLocked(c, above)
}

func (m *admission) openLocked(c *grant.Credential, issuer *account) *account {
	a := m.accounts[c.Name]
	if a == nil || a.issuer != issuer {
		a = &account{bus: m, name: c.Name, issuer: issuer}
		m.accounts[c.Name] = a
	}
	a.set(c.Limits.WithDefaults(m.each))
	return a
}

// credential returns the name of the credential, which is empty if there is none.
func (a *account) credential() string {
	if a == nil {
		return ""
	}
	return a.name
}

// reviewAccounts gives the accounts the bounds of a changed file, and drops those of
// credentials that are gone and that nobody uses any more. The others stay: who connects
// again has used what it used before.
func (m *admission) reviewAccounts(file *grant.File) {
	current := map[string]grant.Limits{}
	for _, c := range file.List() {
		current[c.Name] = c.Limits.WithDefaults(m.each)
	}
	m.accountsMu.Lock()
	defer m.accountsMu.Unlock()
	for name, a := range m.accounts {
		if bounds, ok := current[name]; ok {
			a.set(bounds)
		} else if a.unused() {
			delete(m.accounts, name)
		}
	}
}

func (a *account) unused() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions == 0
}

func (a *account) set(bounds grant.Limits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bounds == a.bounds {
		return
	}
	a.bounds = bounds
	a.messages.resize(burst*float64(bounds.Messages), float64(bounds.Messages))
	a.asides.resize(burst*float64(bounds.Messages), float64(bounds.Messages))
	a.bytes.resize(burst*float64(bounds.Bytes), float64(bounds.Bytes))
	a.logBytes.resize(float64(bounds.LogBytes), float64(bounds.LogBytes)/secondsOfADay)
}

// An overuse is the refusal of what a bound of a credential does not let through.
type overuse string

// Error returns what is refused, and why.
func (o overuse) Error() string { return string(o) }

// overuseLocked counts a refusal, and logs one a minute.
func (a *account) overuseLocked(at time.Time, bound limitName, format string, args ...any) error {
	a.bus.metrics.limit(bound)
	o := overuse(fmt.Sprintf("the credential %q, with what it has issued, %s", a.name, fmt.Sprintf(format, args...)))
	if at.Sub(a.told) > time.Minute {
		a.told = at
		a.bus.log.Warn().Str("credential", a.name).Str("bound", limitNames[bound]).Msg(string(o))
	}
	return o
}

// enter takes the place of a connection, which counts as a message too. There is one
// place more than the bound, for a session that takes over another one: see crowded.
func (a *account) enter(at time.Time) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.crowdedLocked(at)
	if err == nil {
		err = a.affordsLocked(at, true)
	}
	if err == nil {
		err = a.issuer.enter(at)
	}
	if err == nil {
		a.messages.left--
		a.sessions++
	}
	return err
}

// crowded returns an error if there are more connections than the bound.
func (a *account) crowded(at time.Time) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.crowdedLocked(at); err != nil {
		return err
	}
	return a.issuer.crowded(at)
}

func (a *account) crowdedLocked(at time.Time) error {
	if a.sessions <= int(a.bounds.Sessions) {
		return nil
	}
	return a.overuseLocked(at, limitCredentialSessions, "has %d connections already; close some, or raise --credential-sessions", a.bounds.Sessions)
}

func (a *account) leave() {
	if a != nil {
		a.mu.Lock()
		a.sessions--
		a.mu.Unlock()
		a.issuer.leave()
	}
}

// subscribe takes the places of so many subscriptions. Those that are about to be freed
// are in nobody's way.
func (a *account) subscribe(at time.Time, count, freed int) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if count > 0 && a.subscriptions+count-freed > int(a.bounds.Subscriptions) {
		return a.overuseLocked(at, limitCredentialSubscriptions,
			"may have %d subscriptions; unsubscribe from some, or raise --credential-subscriptions", a.bounds.Subscriptions)
	}
	if err := a.issuer.subscribe(at, count, freed); err != nil {
		return err
	}
	a.subscriptions += count
	return nil
}

func (a *account) unsubscribe(count int) {
	if a != nil {
		a.mu.Lock()
		a.subscriptions -= count
		a.mu.Unlock()
		a.issuer.unsubscribe(count)
	}
}

// send takes a message of so many bytes.
func (a *account) send(at time.Time, bytes int) error { return a.spend(at, bytes, false) }

// change takes a change of a session, which counts as a message. It passes for a while
// when the log's bytes are used up: so a peer may come back and hear what it is sent.
func (a *account) change(at time.Time, bytes int) error { return a.spend(at, bytes, true) }

func (a *account) spend(at time.Time, bytes int, change bool) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.affordsLocked(at, change)
	if err == nil {
		err = a.issuer.spend(at, bytes, change)
	}
	if err == nil {
		a.messages.left--
		a.bytes.left -= float64(bytes)
	}
	return err
}

func (a *account) affordsLocked(at time.Time, change bool) error {
	a.messages.fill(at)
	a.bytes.fill(at)
	a.logBytes.fill(at)
	a.logBytes.left -= float64(a.written.Swap(0))
	lowest := 0.0
	if change {
		lowest = -a.logBytes.size / 10
	}
	switch {
	case a.messages.left < 1:
		return a.overuseLocked(at, limitCredentialMessages, "sends more than %d messages a second (--credential-messages); send again in a moment", a.bounds.Messages)
	case a.bytes.left <= 0:
		return a.overuseLocked(at, limitCredentialBytes, "sends more than %d bytes a second (--credential-bytes); send again in a moment", a.bounds.Bytes)
	case a.logBytes.left <= lowest:
		wait := time.Duration((lowest-a.logBytes.left)/a.logBytes.perSecond+1) * time.Second
		return a.overuseLocked(at, limitCredentialLogBytes,
			"has used up its %d bytes of the activity log for a day (--credential-log-bytes); send again in %s", a.bounds.LogBytes, wait)
	}
	return nil
}

// longestPause is how long the reader of a session waits at most before it reads on: a stop
// waits for it.
const longestPause = time.Second

// aside takes what the bus does for a session beside messages and changes: a refusal, an
// answer to a ping, a look for what an answer is to. As many are free as the credential
// may send messages. What is beyond that is not refused, which would be one more: the
// session is not read for the time that is returned.
func (a *account) aside(at time.Time) time.Duration {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := a.issuer.aside(at)
	a.asides.fill(at)
	if a.asides.left--; a.asides.left >= 0 {
		return pause
	}
	a.overuseLocked(at, limitCredentialMessages, "gets more than %d refusals and pings a second (--credential-messages); it is read more slowly", a.bounds.Messages) //nolint:errcheck // it is counted and logged
	pause = max(pause, time.Duration(-a.asides.left/a.asides.perSecond*float64(time.Second)))
	a.asides.left = max(a.asides.left, -a.asides.perSecond)
	return min(pause, longestPause)
}

// rowBytes is about what a row takes in the log beside its names and its payload.
const rowBytes = 100

// write takes a row of the activity log.
func (a *account) write(r activitylog.Row) {
	a.writeBytes(rowBytes + len(r.MessageID) + len(r.RPCID) + len(r.Actor) + len(r.Topic) + len(r.Payload) + len(r.Error))
}

// publish takes the rows of a message: its own two, and two for each target.
func (a *account) publish(m *AcceptedMessage, targets int) {
	a.writeBytes(len(m.Payload) + (2+2*targets)*(rowBytes+len(m.Topic)+len(m.MessageID)+len(m.From)))
}

func (a *account) writeBytes(n int) {
	if a != nil && a.bus.logs {
		a.written.Add(int64(n))
		a.issuer.writeBytes(n)
	}
}

// mayExplain reports whether the log takes a peer's answer of so many bytes. A short one
// is no more than what the sender's account has taken for it.
func (a *account) mayExplain(at time.Time, bytes int) bool {
	if a == nil || bytes <= rowBytes {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logBytes.fill(at)
	a.logBytes.left -= float64(bytes)
	return a.issuer.mayExplain(at, bytes) && a.logBytes.left > 0
}

// credentialUse returns how much of each bound the credential uses that uses most of it.
func (m *admission) credentialUse() map[string]float64 {
	at := time.Now()
	used := map[string]float64{}
	for name := limitCredentialSessions; name <= limitCredentialLogBytes; name++ {
		used[limitNames[name]] = 0
	}
	m.accountsMu.Lock()
	defer m.accountsMu.Unlock()
	for _, a := range m.accounts {
		for name, n := range a.use(at) {
			used[limitNames[name]] = max(used[limitNames[name]], n)
		}
	}
	return used
}

func (a *account) use(at time.Time) map[limitName]float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range []*bucket{&a.messages, &a.bytes, &a.logBytes} {
		b.fill(at)
	}
	return map[limitName]float64{
		limitCredentialSessions: float64(a.sessions), limitCredentialSubscriptions: float64(a.subscriptions),
		limitCredentialMessages: a.messages.used(a.bounds.Messages), limitCredentialBytes: a.bytes.used(a.bounds.Bytes),
		limitCredentialLogBytes: a.logBytes.used(a.bounds.LogBytes) + float64(a.written.Load()),
	}
}
